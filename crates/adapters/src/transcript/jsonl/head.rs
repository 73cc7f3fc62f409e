//! The first lines of a file, in a window that grows only as far as the first line needs it to.

use std::io;
use std::ops::{ControlFlow, Range};

use super::ReadAt;
use super::scratch::{grow, with_scratch};

/// One piece of the beginning of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    Line(&'a [u8]),
    /// The beginning of a line that ends after the window: it is given again, longer, if it is not enough.
    Fragment(&'a [u8]),
    /// A last line without a line break: the parser decides whether it is half a record.
    Last(&'a [u8]),
}

/// Passes complete lines to `take`, oldest first, until it breaks, the file ends, or `budget` bytes were read. The first
/// read is of `window` bytes.
pub fn scan_head(
    source: &(impl ReadAt + ?Sized),
    size: u64,
    (window, budget): (usize, usize),
    mut take: impl FnMut(Piece<'_>) -> ControlFlow<()>,
) -> io::Result<()> {
    if let Some(bytes) = source.in_memory().filter(|bytes| bytes.len() <= budget) {
        lines_of(bytes, take);
        return Ok(());
    }
    with_scratch(|bytes| {
        let rest = read_lines(source, size, (window, budget), bytes, &mut take)?;
        if let Some(rest) = rest {
            let _ = take(Piece::Last(&bytes[rest]));
        }
        Ok(())
    })
}

/// The lines of bytes that are already in memory.
fn lines_of(bytes: &[u8], mut take: impl FnMut(Piece<'_>) -> ControlFlow<()>) {
    let mut rest = bytes;
    while let Some(length) = memchr::memchr(b'\n', rest) {
        let line = &rest[..length];
        rest = &rest[length + 1..];
        if take(Piece::Line(line.strip_suffix(b"\r").unwrap_or(line))).is_break() {
            return;
        }
    }
    if !rest.is_empty() {
        let _ = take(Piece::Last(rest));
    }
}

/// Returns where in `bytes` a last line without a line break stands, if the file was read to its end and has one.
fn read_lines(
    source: &(impl ReadAt + ?Sized),
    size: u64,
    (mut window, budget): (usize, usize),
    bytes: &mut Vec<u8>,
    take: &mut impl FnMut(Piece<'_>) -> ControlFlow<()>,
) -> io::Result<Option<Range<usize>>> {
    let limit = usize::try_from(size).unwrap_or(usize::MAX).min(budget);
    let (mut filled, mut given) = (0, 0);
    while filled < limit {
        crate::cancel::step()?;
        grow(bytes, window, 0..filled, false);
        let got = source.read_at(&mut bytes[filled..window.min(limit)], filled as u64)?;
        filled += got;
        while let Some(length) = memchr::memchr(b'\n', &bytes[given..filled]) {
            let line = &bytes[given..given + length];
            if take(Piece::Line(line.strip_suffix(b"\r").unwrap_or(line))).is_break() {
                return Ok(None);
            }
            given += length + 1;
        }
        if given < filled && take(Piece::Fragment(&bytes[given..filled])).is_break() {
            return Ok(None);
        }
        if got == 0 {
            break;
        }
        window = window.saturating_mul(2);
    }
    Ok((given < filled && filled as u64 == size).then_some(given..filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8], budget: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let take = |piece: Piece<'_>| {
            if let Piece::Line(line) | Piece::Last(line) = piece {
                lines.push(String::from_utf8_lossy(line).into_owned());
            }
            ControlFlow::Continue(())
        };
        scan_head(&bytes, bytes.len() as u64, (4 << 10, budget), take).unwrap();
        lines
    }

    #[test]
    fn the_last_line_needs_no_line_break_but_must_be_whole() {
        assert_eq!(lines(b"a\nb\n", 100), ["a", "b"]);
        assert_eq!(lines(b"a\nb", 100), ["a", "b"]);
        assert_eq!(lines(b"a", 100), ["a"]);
        assert_eq!(lines(b"a\nbcd", 3), ["a"], "the budget ended in the middle of it");
        assert!(lines(b"", 100).is_empty());
    }
}
