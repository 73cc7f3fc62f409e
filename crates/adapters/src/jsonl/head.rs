//! The first lines of a file, in a window that grows only as long as the first line needs it to.

use std::io;
use std::ops::ControlFlow;

use super::ReadAt;

const FIRST_WINDOW: usize = 4 << 10;

/// Hands complete lines to `take`, oldest first, until it breaks, the file ends, or `budget` bytes were read.
/// A last line without a line break is not handed over.
pub fn scan_head(
    source: &(impl ReadAt + ?Sized),
    size: u64,
    budget: usize,
    mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<()> {
    let limit = usize::try_from(size).unwrap_or(usize::MAX).min(budget);
    let mut bytes: Vec<u8> = Vec::new();
    let mut given = 0;
    let mut window = FIRST_WINDOW;
    while bytes.len() < limit {
        let had = bytes.len();
        bytes.resize(window.min(limit), 0);
        let got = source.read_at(&mut bytes[had..], had as u64)?;
        bytes.truncate(had + got);
        while let Some(length) = memchr::memchr(b'\n', &bytes[given..]) {
            let line = &bytes[given..given + length];
            if take(line.strip_suffix(b"\r").unwrap_or(line)).is_break() {
                return Ok(());
            }
            given += length + 1;
        }
        if got == 0 {
            break;
        }
        window = window.saturating_mul(2);
    }
    Ok(())
}
