//! Which lines of a file may contain what is searched, by their bytes alone. Pure.
//!
//! A line that is left out certainly does not fit; one that passes is decoded. JSON can write every character in several
//! ways, so the sieve looks for a run of letters and digits, which every program writes as they are, and lets a line pass
//! in which an escape stands for such a character, or in which a character that is removed before a text is shown stands
//! between two of them, escaped or as it is.

use regex::bytes::{Regex, RegexBuilder};

#[derive(Debug)]
pub(super) struct Sieve {
    needle: Needle,
}

#[derive(Debug)]
enum Needle {
    /// Every line that fits contains this run, unless an escape or a removed character hides it. One pass for the run and
    /// the escapes takes less than a pass for each of them.
    Run { alone: Regex, or_escape: Regex },
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
        let built = |pattern: &str| {
            RegexBuilder::new(pattern).case_insensitive(ignores_case).unicode(false).build().ok()
        };
        let needle = match longest {
            Some(run) => match (built(run), built(&format!(r"(?-i:\\[urbf])|{run}"))) {
                (Some(alone), Some(or_escape)) => Needle::Run { alone, or_escape },
                _ => Needle::Anything,
            },
            None if texts.iter().any(|words| !words.is_ascii()) => Needle::BeyondAscii,
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
        let mut places = Places::of(self, region);
        while let Some(found) = places.first() {
            let start = memchr::memrchr(b'\n', &region[at..found]).map_or(at, |newline| at + newline + 1);
            let end =
                memchr::memchr(b'\n', &region[found..]).map_or(region.len(), |length| found + length + 1);
            take(&region[start..end], start);
            at = end;
            places.pass(end);
        }
    }

    /// Whether a record of several lines may fit.
    pub(super) fn lets_pass(&self, record: &[u8]) -> bool {
        matches!(self.needle, Needle::Anything) || Places::of(self, record).first().is_some()
    }

    fn next_needle(&self, region: &[u8], from: usize) -> Option<usize> {
        match &self.needle {
            Needle::Run { alone, .. } => alone.find_at(region, from).map(|found| found.start()),
            Needle::BeyondAscii => {
                region[from..].iter().position(|byte| !byte.is_ascii()).map(|found| from + found)
            }
            Needle::Anything => None,
        }
    }

    /// The next escape that may hide a part of what is searched.
    fn next_escape(&self, region: &[u8], from: usize) -> Option<usize> {
        let mut start = from;
        while start < region.len() {
            let end = region.len().min(start + BLOCK);
            if has_escape(&region[start..region.len().min(end + 1)]) {
                let mut escapes = memchr::memchr_iter(b'\\', &region[start..end]).map(|found| start + found);
                let is_escape = |at: &usize| is_looked_at(region.get(at + 1)) && self.hides(region, *at);
                if let Some(found) = escapes.find(is_escape) {
                    return Some(found);
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

/// The places of a region that may fit: the next one of each kind, looked up only when it was passed.
struct Places<'s, 'r> {
    sieve: &'s Sieve,
    region: &'r [u8],
    /// The next run, or the next escape that may hide a part of it as long as escapes are few.
    needle: Option<usize>,
    /// The next escape that may hide something, once they are many: then a pass of their own is faster.
    escape: Option<usize>,
    removed: Option<usize>,
    /// How many escapes that hide nothing are passed over until they are many.
    patience: usize,
}

impl<'s, 'r> Places<'s, 'r> {
    fn of(sieve: &'s Sieve, region: &'r [u8]) -> Self {
        let removed = next_removed(region, 0);
        let mut places = Self { sieve, region, needle: None, escape: None, removed, patience: PATIENCE };
        if !matches!(sieve.needle, Needle::Run { .. }) {
            places.patience = 0;
            places.escape = sieve.next_escape(region, 0);
        }
        places.look(0);
        places
    }

    fn first(&self) -> Option<usize> {
        [self.needle, self.escape, self.removed].into_iter().flatten().min()
    }

    /// Everything before this place was taken.
    fn pass(&mut self, end: usize) {
        let is_passed = |place: Option<usize>| place.is_some_and(|place| place < end);
        if is_passed(self.removed) {
            self.removed = next_removed(self.region, end);
        }
        if is_passed(self.escape) {
            self.escape = self.sieve.next_escape(self.region, end);
        }
        if is_passed(self.needle) {
            self.look(end);
        }
    }

    fn look(&mut self, from: usize) {
        let mut at = from;
        if let Needle::Run { or_escape, .. } = &self.sieve.needle
            && self.patience > 0
        {
            while self.patience > 0 {
                self.needle = or_escape.find_at(self.region, at).map(|found| found.start());
                let is_taken = |found| self.region[found] != b'\\' || self.sieve.hides(self.region, found);
                match self.needle {
                    Some(found) if !is_taken(found) => at = found + 1,
                    _ => return,
                }
                self.patience -= 1;
            }
            self.escape = self.sieve.next_escape(self.region, at);
        }
        self.needle = self.sieve.next_needle(self.region, at);
    }
}

/// How many escapes that hide nothing are few, in the region that is read at once.
const PATIENCE: usize = 64;

/// How much is looked at before it is searched more closely.
const BLOCK: usize = 512;

/// Whether the bytes have an escape that is looked at. Most have none, and one pass over all of them with plain
/// comparisons, which the compiler makes wide ones, tells it.
fn has_escape(bytes: &[u8]) -> bool {
    let next = bytes.get(1..).unwrap_or_default();
    bytes.iter().zip(next).fold(0, |seen, (first, second)| {
        seen | u8::from(*first == b'\\')
            & (u8::from(*second == b'u')
                | u8::from(*second == b'r')
                | u8::from(*second == b'b')
                | u8::from(*second == b'f'))
    }) != 0
}

/// Whether a backslash before this byte begins an escape that may hide something.
fn is_looked_at(second: Option<&u8>) -> bool {
    matches!(second, Some(b'u' | b'r' | b'b' | b'f'))
}

/// The next character that is removed before a text is shown and is written as it is: JSON only asks for escapes of the
/// control characters below the space. The others are DEL, C1 and the bidirectional overrides.
fn next_removed(region: &[u8], from: usize) -> Option<usize> {
    memchr::memchr3_iter(0x7f, 0xc2, 0xe2, &region[from..]).map(|found| from + found).find(|at| {
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
