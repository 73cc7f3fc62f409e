//! The first lines of a file, in a window that grows only as long as the first line needs it to.

use std::cell::Cell;
use std::io;
use std::ops::ControlFlow;

use super::ReadAt;

const FIRST_WINDOW: usize = 4 << 10;
/// How much of the buffer outlives one giant line, so that the next one costs no new memory.
const KEPT: usize = 8 << 20;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What the beginning of a file gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    Line(&'a [u8]),
    /// The beginning of a line whose end lies behind the window: it comes again, longer, if it is not enough.
    Fragment(&'a [u8]),
}

/// Hands complete lines to `take`, oldest first, until it breaks, the file ends, or `budget` bytes were read.
/// A last line without a line break is not handed over.
pub fn scan_head(
    source: &(impl ReadAt + ?Sized),
    size: u64,
    budget: usize,
    mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<()> {
    scan_head_pieces(source, size, budget, |piece| match piece {
        Piece::Line(line) => take(line),
        Piece::Fragment(_) => ControlFlow::Continue(()),
    })
}

/// The same, for callers that can use the beginning of a line of megabytes.
pub fn scan_head_pieces(
    source: &(impl ReadAt + ?Sized),
    size: u64,
    budget: usize,
    mut take: impl FnMut(Piece<'_>) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut bytes = SCRATCH.take();
    let done = read_lines(source, size, budget, &mut bytes, &mut take);
    bytes.truncate(KEPT);
    bytes.shrink_to(KEPT);
    SCRATCH.set(bytes);
    done
}

fn read_lines(
    source: &(impl ReadAt + ?Sized),
    size: u64,
    budget: usize,
    bytes: &mut Vec<u8>,
    take: &mut impl FnMut(Piece<'_>) -> ControlFlow<()>,
) -> io::Result<()> {
    let limit = usize::try_from(size).unwrap_or(usize::MAX).min(budget);
    let (mut filled, mut given) = (0, 0);
    let mut window = FIRST_WINDOW;
    while filled < limit {
        if bytes.len() < window {
            bytes.resize(window, 0);
        }
        let got = source.read_at(&mut bytes[filled..window.min(limit)], filled as u64)?;
        filled += got;
        while let Some(length) = memchr::memchr(b'\n', &bytes[given..filled]) {
            let line = &bytes[given..given + length];
            if take(Piece::Line(line.strip_suffix(b"\r").unwrap_or(line))).is_break() {
                return Ok(());
            }
            given += length + 1;
        }
        if given < filled && take(Piece::Fragment(&bytes[given..filled])).is_break() {
            return Ok(());
        }
        if got == 0 {
            break;
        }
        window = window.saturating_mul(2);
    }
    Ok(())
}
