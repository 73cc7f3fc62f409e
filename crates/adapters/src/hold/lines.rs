//! Cuts a stream of bytes into lines, with a bound.

use std::mem::take;

/// The longest line that is kept. Half a megabyte was seen; what is longer than this is dropped as a whole.
pub const LONGEST: usize = 64 << 20;

/// Collects bytes until a line is complete.
#[derive(Debug)]
pub struct Lines {
    partial: Vec<u8>,
    longest: usize,
    /// The current line is too long; the rest of it is dropped.
    skips: bool,
}

/// One line without its end, or the fact that one was too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    Whole(Vec<u8>),
    TooLong,
}

impl Default for Lines {
    fn default() -> Self {
        Self::with_longest(LONGEST)
    }
}

impl Lines {
    pub fn with_longest(longest: usize) -> Self {
        Self { partial: Vec::new(), longest, skips: false }
    }

    /// Takes the next bytes and returns the lines that they complete. Empty lines are left out.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (body, is_end) = match piece.strip_suffix(b"\n") {
                Some(body) => (body, true),
                None => (piece, false),
            };
            if !self.skips && self.partial.len() + body.len() > self.longest {
                self.skips = true;
                self.partial = Vec::new();
            }
            if !self.skips {
                self.partial.extend_from_slice(body);
            }
            if is_end {
                lines.extend(self.complete());
            }
        }
        lines
    }

    fn complete(&mut self) -> Option<Line> {
        if take(&mut self.skips) {
            return Some(Line::TooLong);
        }
        let mut line = take(&mut self.partial);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        (!line.is_empty()).then_some(Line::Whole(line))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_the_next_one_counts() {
        let mut lines = Lines::with_longest(4);
        assert_eq!(lines.take(b"ab\r\n\n12345\ncd"), [whole("ab"), Line::TooLong]);
        assert_eq!(lines.take(b"ef\n123"), [whole("cdef")]);
        assert_eq!(lines.take(b"45"), []);
        assert!(lines.partial.is_empty(), "nothing of a dropped line is kept");
        assert_eq!(lines.take(b"6789\nok\n"), [Line::TooLong, whole("ok")]);
    }

    proptest! {
        #[test]
        fn every_cut_gives_the_same_lines(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200), at in 0usize..200) {
            let mut once = Lines::with_longest(8);
            let mut cut = Lines::with_longest(8);
            let at = at.min(bytes.len());
            let mut pieces = cut.take(&bytes[..at]);
            pieces.extend(cut.take(&bytes[at..]));
            prop_assert_eq!(once.take(&bytes), pieces);
        }
    }
}
