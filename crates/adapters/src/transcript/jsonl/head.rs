//! The first lines of a file, in a window that grows only as far as the first line needs it to.

use std::io;
use std::ops::{ControlFlow, Range};

use super::ReadAt;
use super::scan::fill;
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
        // The window grows because it was full, not because a file system gives few bytes at once.
        let got = fill(source, &mut bytes[filled..window.min(limit)], filled as u64)?;
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
    use proptest::prelude::*;

    use super::super::whole::scan_whole;
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

    /// A file of which each read gives few bytes, as some file systems do.
    struct Trickle<'a>(&'a [u8], usize);

    impl ReadAt for Trickle<'_> {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let length = buffer.len().min(self.1);
            self.0.read_at(&mut buffer[..length], offset)
        }
    }

    #[test]
    fn a_file_that_comes_byte_by_byte_takes_no_more_memory_than_any_other() {
        let bytes = b"first\nsecond".repeat(4);
        let mut lines = 0;
        let take = |_: Piece<'_>| {
            lines += 1;
            ControlFlow::Continue(())
        };
        scan_head(&Trickle(&bytes, 1), bytes.len() as u64, (16, 1 << 20), take).unwrap();
        assert!(lines >= 5, "{lines}");
        let held = with_scratch(|scratch| scratch.len());
        assert!(held <= 64, "{held} bytes for a file of {}", bytes.len());
    }

    proptest! {
        #[test]
        fn a_file_has_the_same_lines_from_the_front_and_as_a_whole_in_pieces_of_any_size(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..200),
            piece in 1_usize..40,
            window in 1_usize..40,
        ) {
            let without = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).to_vec();
            let mut expected: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(without).collect();
            let mut whole = Vec::new();
            scan_whole(&Trickle(&bytes, piece), |line| whole.push(without(line))).unwrap();
            let mut head = Vec::new();
            let take = |piece: Piece<'_>| {
                match piece {
                    Piece::Line(line) => head.push(line.to_vec()),
                    Piece::Last(line) => head.push(without(line)),
                    Piece::Fragment(_) => {}
                }
                ControlFlow::Continue(())
            };
            scan_head(&Trickle(&bytes, piece), bytes.len() as u64, (window, 1 << 20), take).unwrap();
            // What follows the last line break is a line only if there is something.
            if bytes.last().is_none_or(|last| *last == b'\n') {
                expected.pop();
            }
            prop_assert_eq!(&whole, &expected);
            prop_assert_eq!(&head, &expected);
        }
    }
}
