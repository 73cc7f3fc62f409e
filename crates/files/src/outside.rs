//! Paths that belong to somebody else: agents, repositories, the user.

use std::fs::{self, DirEntry, File, FileType, Metadata, ReadDir};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// No agent keeps so much in one folder; a file system can make up entries without end.
const MOST_ENTRIES: usize = 1 << 20;

/// Opens a regular file without ever waiting for anybody; anything else is an error that says what it is.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let file =
        File::options().read(true).custom_flags(flags(OFlags::NONBLOCK | OFlags::NOCTTY)).open(path)?;
    let metadata = file.metadata()?;
    refuse_others(metadata.file_type())?;
    Ok((file, metadata))
}

pub(crate) fn refuse_others(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    let what = if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("is {what}, not a regular file")))
}

/// A small file, whole. A larger one is an error: half of a file says something else than the whole.
pub fn read_small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, metadata) = open_regular(path)?;
    whole(&file, metadata.len(), limit)
}

/// The same, as text.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    text(read_small(path, limit)?)
}

/// The beginning of a file, for whoever needs no more of it.
pub fn read_beginning(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, _) = open_regular(path)?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Copies a small file, with the time when it was written, into one that is only made now, readable for its owner alone.
pub fn copy_small(from: &Path, to: &Path, limit: u64) -> io::Result<u64> {
    let (file, metadata) = open_regular(from)?;
    if metadata.len() > limit {
        return Err(too_large(limit));
    }
    let mut copy = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    let copied = io::copy(&mut (&file).take(limit + 1), &mut copy)?;
    // It may have grown meanwhile.
    if copied > limit {
        return Err(too_large(limit));
    }
    copy.set_modified(metadata.modified()?)?;
    Ok(copied)
}

pub(crate) fn whole(file: &File, size: u64, limit: u64) -> io::Result<Vec<u8>> {
    if size > limit {
        return Err(too_large(limit));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // Some files say that they are empty and are not, and others grow while they are read.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit { Err(too_large(limit)) } else { Ok(bytes) }
}

pub(crate) fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "is not UTF-8"))
}

fn too_large(limit: u64) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, format!("is larger than {limit} bytes"))
}

/// Writes a file at a place that the user named. What lay there is replaced, and never written through a link.
pub fn write_anew(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => File::options().write(true).create_new(true).open(path)?.write_all(bytes),
    }
}

/// A folder as a descriptor, to be locked or synced. Anything else is an error, at once.
pub fn open_folder(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(flags(OFlags::DIRECTORY | OFlags::NONBLOCK)).open(path)
}

/// What lies in a folder, as it comes.
pub fn entries(folder: &Path) -> io::Result<Entries> {
    Ok(Entries { entries: Some(fs::read_dir(folder)?), left: MOST_ENTRIES })
}

/// The entries of one folder. Behind the largest number that is read comes one error that says so.
#[derive(Debug)]
pub struct Entries {
    entries: Option<ReadDir>,
    left: usize,
}

impl Iterator for Entries {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.as_mut()?.next()?;
        if self.left == 0 {
            self.entries = None;
            return Some(Err(io::Error::other(format!("holds more than {MOST_ENTRIES} entries"))));
        }
        self.left -= 1;
        Some(entry)
    }
}

/// The path without links and dots. It reads nothing, but a file system that is gone may not answer: see
/// [`within`](crate::within).
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// The standard library takes the flags as the C type.
pub(crate) fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}
