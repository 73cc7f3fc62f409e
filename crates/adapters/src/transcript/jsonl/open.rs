//! Opens a file that may be anything: a FIFO, a directory, a symlink loop, another user's file.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use jiff::Timestamp;

pub use agentctl_files::read_small;

use super::ReadAt;
use super::scan::fill;
use super::scratch::{grow, with_scratch};
use crate::transcript::readings::FileState;

/// A regular file, open for reading, with its size at that moment.
#[derive(Debug)]
pub struct Opened {
    pub file: File,
    pub size: u64,
    pub modified: Option<Timestamp>,
    /// The state before anything was read.
    pub state: FileState,
}

impl Opened {
    /// What to read from, and how much there is. A file of at most `at_once` bytes is read here at once, for
    /// everything that is wanted from it.
    pub fn read_through<R>(
        &self,
        at_once: usize,
        work: impl FnOnce(&dyn ReadAt, u64) -> io::Result<R>,
    ) -> io::Result<R> {
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        if size > at_once {
            return work(&self.file, self.size);
        }
        with_scratch(|buffer| {
            grow(buffer, size, 0..0, false);
            let got = fill(&self.file, &mut buffer[..size], 0)?;
            work(&&buffer[..got], got as u64)
        })
    }
}

/// Opens a regular file without ever blocking; anything else is an error that says what it is.
pub fn open_regular(path: &Path) -> io::Result<Opened> {
    let (file, metadata) = agentctl_files::open_regular(path)?;
    let state = FileState::of(&metadata);
    Ok(Opened { file, size: metadata.len(), modified: modified(&metadata), state })
}

/// When the file was last written.
pub fn modified(found: &Metadata) -> Option<Timestamp> {
    found.modified().ok().and_then(|time| Timestamp::try_from(time).ok())
}

/// All of an opened file, up to the size it had when it was opened.
pub fn read_opened(opened: &Opened) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(opened.size).unwrap_or(usize::MAX)];
    let got = fill(&opened.file, &mut bytes, 0)?;
    bytes.truncate(got);
    Ok(bytes)
}
