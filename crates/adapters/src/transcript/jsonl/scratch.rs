//! One read buffer per thread for all reads: the first touch of fresh memory costs more than most reads.

use std::cell::Cell;
use std::ops::Range;

/// How much of the buffer is kept after a huge line, so that the next one needs no new memory.
const KEPT: usize = 8 << 20;
/// Above this size the buffer does not grow in small steps: the memory of each step would be touched once and thrown
/// away.
const SMALL: usize = 256 << 10;
const LARGE: usize = 4 << 20;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends this thread's buffer, with its old content. A second call while it is lent gets an empty buffer.
pub(super) fn with_scratch<R>(work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut buffer = SCRATCH.take();
    let answer = work(&mut buffer);
    if buffer.len() <= KEPT {
        SCRATCH.set(buffer);
    }
    answer
}

/// Makes the buffer at least `length` bytes long. The bytes in `held` stay at the same place, or move to the end if
/// `to_end`; nothing else is kept, nor even touched.
pub(super) fn grow(buffer: &mut Vec<u8>, length: usize, held: Range<usize>, to_end: bool) {
    if length <= buffer.len() {
        return;
    }
    let length = if length > SMALL { length.max(LARGE) } else { length };
    let mut grown = vec![0; length.next_power_of_two()];
    let to = if to_end { grown.len() - held.len() } else { held.start };
    grown[to..to + held.len()].copy_from_slice(&buffer[held]);
    *buffer = grown;
}
