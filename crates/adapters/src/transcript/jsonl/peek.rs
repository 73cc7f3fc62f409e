//! The last entries of a transcript.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use agentctl_model::Entry;

use super::follow::ParseEntries;
use super::lenient::shown;
use super::open::open_regular;
use super::{ReadAt, Scan, scan_back};
use crate::ReadError;

struct Collect {
    parse: ParseEntries,
    limit: usize,
    /// Newest first.
    entries: Vec<Entry>,
}

impl Scan for Collect {
    fn line(&mut self, line: &[u8], _: u64) -> ControlFlow<()> {
        self.entries.extend(shown(self.parse, line).into_iter().rev());
        if self.entries.len() >= self.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The last `limit` entries of a file of JSON lines, oldest first.
pub fn read_last(path: &Path, parse: ParseEntries, limit: usize) -> Result<Vec<Entry>, ReadError> {
    let read = || {
        let opened = open_regular(path)?;
        last_entries(&opened.file, opened.size, parse, limit)
    };
    read().map_err(|error| ReadError::new(path, error))
}

/// The last `limit` entries of `size` bytes of JSON lines, oldest first.
pub fn last_entries(
    source: &(impl ReadAt + ?Sized),
    size: u64,
    parse: ParseEntries,
    limit: usize,
) -> io::Result<Vec<Entry>> {
    let mut collect = Collect { parse, limit, entries: Vec::new() };
    scan_back(source, size, &mut collect)?;
    let mut entries = collect.entries;
    entries.truncate(limit);
    entries.reverse();
    Ok(entries)
}
