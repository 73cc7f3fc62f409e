//! Which lines of a file may contain what is searched, by their bytes alone. Pure.
//!
//! A line that is left out certainly does not fit; one that passes is decoded. JSON can write every character in several
//! ways, so the sieve looks for a run of letters and digits, which every program writes as they are, and lets a line pass
//! in which an escape stands for such a character, or in which a character that is removed before a text is shown stands
//! between two of them, escaped or as it is.

use std::ops::Range;

use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};

#[derive(Debug)]
pub(super) struct Sieve {
    needle: Needle,
}

#[derive(Debug)]
enum Needle {
    /// Every line that fits contains this.
    Run(Box<Finder<'static>>),
    /// The same in whatever case.
    RunInAnyCase(Regex),
    /// A line that fits has a character beyond ASCII, as it is or escaped.
    BeyondAscii,
    /// Nothing can be said.
    Anything,
}

impl Sieve {
    /// For texts of which a line must contain each.
    pub(super) fn of(texts: &[&str], ignores_case: bool) -> Self {
        let runs = texts.iter().flat_map(|words| words.split(|c: char| !c.is_ascii_alphanumeric()));
        let longest = runs.max_by_key(|run| run.len()).filter(|run| !run.is_empty());
        let beyond = || texts.iter().any(|words| !words.is_ascii());
        let needle = match longest {
            Some(run) if ignores_case && run.bytes().any(|byte| byte.is_ascii_alphabetic()) => {
                RegexBuilder::new(run)
                    .case_insensitive(true)
                    .unicode(false)
                    .build()
                    .map_or(Needle::Anything, Needle::RunInAnyCase)
            }
            Some(run) => Needle::Run(Box::new(Finder::new(run).into_owned())),
            None if beyond() => Needle::BeyondAscii,
            None => Needle::Anything,
        };
        Self { needle }
    }

    /// Passes every line of the region on that may fit, with its place in the region.
    pub(super) fn candidates(&self, region: &[u8], mut take: impl FnMut(&[u8], usize)) {
        if let Needle::Anything = self.needle {
            let mut at = 0;
            for line in region.split_inclusive(|byte| *byte == b'\n') {
                take(line, at);
                at += line.len();
            }
            return;
        }
        let mut at = 0;
        // The next place of each kind, looked up only when it was passed.
        let mut needle = self.next_needle(region, 0);
        let mut hidden = self.next_hidden(region, 0);
        while let Some(found) = needle.into_iter().chain(hidden).min() {
            let start = memchr::memrchr(b'\n', &region[at..found]).map_or(at, |newline| at + newline + 1);
            let end =
                memchr::memchr(b'\n', &region[found..]).map_or(region.len(), |length| found + length + 1);
            take(&region[start..end], start);
            at = end;
            if needle.is_some_and(|place| place < end) {
                needle = self.next_needle(region, end);
            }
            if hidden.is_some_and(|place| place < end) {
                hidden = self.next_hidden(region, end);
            }
        }
    }

    /// Whether a record of several lines may fit.
    pub(super) fn lets_pass(&self, record: &[u8]) -> bool {
        matches!(self.needle, Needle::Anything)
            || self.next_needle(record, 0).is_some()
            || self.next_hidden(record, 0).is_some()
    }

    fn next_needle(&self, region: &[u8], from: usize) -> Option<usize> {
        let rest = &region[from..];
        let found = match &self.needle {
            Needle::Run(run) => run.find(rest),
            Needle::RunInAnyCase(run) => run.find(rest).map(|found| found.start()),
            Needle::BeyondAscii => rest.iter().position(|byte| !byte.is_ascii()),
            Needle::Anything => None,
        };
        found.map(|at| from + at)
    }

    /// The next escape or removed character that may hide a part of what is searched.
    fn next_hidden(&self, region: &[u8], from: usize) -> Option<usize> {
        let mut start = from;
        while start < region.len() {
            let end = region.len().min(start + BLOCK);
            if may_hide(&region[start..region.len().min(end + 1)]) {
                let escapes = memchr::memchr_iter(b'\\', &region[start..end]).map(|found| start + found);
                let is_escape = |at: &usize| is_looked_at(region.get(at + 1)) && self.hides(region, *at);
                let escape = escapes.into_iter().find(is_escape);
                let found = escape.into_iter().chain(next_removed(region, start..end)).min();
                if found.is_some() {
                    return found;
                }
            }
            start = end;
        }
        None
    }

    fn hides(&self, region: &[u8], at: usize) -> bool {
        let (code, length) = if region.get(at + 1) == Some(&b'u') {
            let digits = region.get(at + 2..at + 6).and_then(|digits| std::str::from_utf8(digits).ok());
            let Some(code) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
                return false;
            };
            (code, 6)
        } else {
            (0, 2)
        };
        match self.needle {
            Needle::BeyondAscii => code >= 0x80 || code == u32::from('\\'),
            // A letter or digit that could be written as it is, or a backslash: in JSON within JSON that begins another escape.
            _ if char::from_u32(code).is_some_and(|c| c.is_ascii_alphanumeric() || c == '\\') => true,
            // A character that is removed, between two letters that then stand side by side. Another escape beside it may
            // be one too.
            _ => {
                let is_removed =
                    code < 0x20 || (0x7f..0xa0).contains(&code) || (0x2000..0x2100).contains(&code);
                is_removed && is_between(region, at, length)
            }
        }
    }
}

/// How much is looked at before it is searched more closely.
const BLOCK: usize = 512;

/// Whether the bytes have an escape that is looked at, or the beginning of a character that is removed. Most have none,
/// and one pass over all of them with plain comparisons, which the compiler makes wide ones, tells it.
fn may_hide(bytes: &[u8]) -> bool {
    let next = bytes.get(1..).unwrap_or_default();
    let escapes = bytes.iter().zip(next).fold(0, |seen, (first, second)| {
        seen | u8::from(*first == b'\\')
            & (u8::from(*second == b'u')
                | u8::from(*second == b'r')
                | u8::from(*second == b'b')
                | u8::from(*second == b'f'))
    });
    let removed = bytes.iter().fold(0, |seen, byte| {
        seen | u8::from(*byte == 0x7f) | u8::from(*byte == 0xc2) | u8::from(*byte == 0xe2)
    });
    escapes | removed != 0
}

/// Whether a backslash before this byte begins an escape that may hide something.
fn is_looked_at(second: Option<&u8>) -> bool {
    matches!(second, Some(b'u' | b'r' | b'b' | b'f'))
}

/// The next character that is removed before a text is shown and is written as it is: JSON only asks for escapes of the
/// control characters below the space. The others are DEL, C1 and the bidirectional overrides.
fn next_removed(region: &[u8], within: Range<usize>) -> Option<usize> {
    let from = within.start;
    memchr::memchr3_iter(0x7f, 0xc2, 0xe2, &region[within]).map(|found| from + found).find(|at| {
        let length = match &region[*at..] {
            [0x7f, ..] => 1,
            [0xc2, 0x80..=0x9f, ..] => 2,
            [0xe2, 0x80, 0xaa..=0xae, ..] | [0xe2, 0x81, 0xa6..=0xa9, ..] => 3,
            _ => return false,
        };
        is_between(region, *at, length)
    })
}

/// Whether what stands on both sides of this place may be letters, once everything that is removed is gone.
fn is_between(region: &[u8], at: usize, length: usize) -> bool {
    let may_be_letter = |byte: Option<&u8>| {
        byte.is_none_or(|byte| byte.is_ascii_alphanumeric() || *byte == b'\\' || *byte >= 0x7f)
    };
    may_be_letter(region.get(at.wrapping_sub(1))) && may_be_letter(region.get(at + length))
}
