//! A long file in two parts, each of whole lines. The newest records are searched first: once they have as many places as are
//! wanted, nothing needs to be decoded in the others.

use std::io;

use crate::transcript::jsonl::ReadAt;

/// How much is searched first. A file that is not several times as long is searched in one go.
const NEWEST: u64 = if cfg!(test) { 64 } else { 256 << 10 };
const SEVERAL: u64 = 2;
/// Within so many bytes a line must begin.
const LOOK: usize = if cfg!(test) { 32 } else { 64 << 10 };

/// Where the newest records begin; `None` if a file of this size is better searched in one go.
pub(super) fn cut(source: &(impl ReadAt + ?Sized), size: u64) -> io::Result<Option<u64>> {
    if size < SEVERAL * NEWEST {
        return Ok(None);
    }
    let from = size - NEWEST;
    let mut bytes = vec![0; LOOK];
    let got = source.read_at(&mut bytes, from)?;
    Ok(memchr::memchr(b'\n', &bytes[..got]).map(|at| from + at as u64 + 1))
}

/// A source without its first bytes.
pub(super) struct From<'f, S: ?Sized> {
    pub(super) source: &'f S,
    pub(super) offset: u64,
}

impl<S: ReadAt + ?Sized> ReadAt for From<'_, S> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.source.read_at(buffer, self.offset + offset)
    }
}

/// The first bytes of a source.
pub(super) struct Until<'f, S: ?Sized> {
    pub(super) source: &'f S,
    pub(super) end: u64,
}

impl<S: ReadAt + ?Sized> ReadAt for Until<'_, S> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = buffer.len().min(left);
        self.source.read_at(&mut buffer[..length], offset)
    }
}
