//! What a held agent says, cut into lines: the same however it arrives, and never longer than the bound.
#![no_main]

use agentctl_adapters::hold::lines::{Line, Lines};
use libfuzzer_sys::fuzz_target;

const LONGEST: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let cut = |size: usize| {
        let mut lines = Lines::with_longest(LONGEST);
        bytes.chunks(size).flat_map(|piece| lines.take(piece)).collect::<Vec<Line>>()
    };
    let whole = cut(bytes.len().max(1));
    for line in &whole {
        assert!(!matches!(line, Line::Whole(line) if line.len() > LONGEST || line.contains(&b'\n')));
    }
    for size in [1, 2, 7] {
        assert_eq!(whole, cut(size), "in pieces of {size}");
    }
});
