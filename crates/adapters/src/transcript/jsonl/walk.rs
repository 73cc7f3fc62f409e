//! A quick walk over one line of JSON: whether it is complete, and where the values of its members stand. Pure.
//!
//! It only knows JSON as machines write it, without spaces, and never accepts more than `serde_json`: what it walks
//! to the end of, serde reads too. `None` is no verdict: a slower parser has to judge that line.
//!
//! It stays because it is faster where it counts: on replies as the bench corpus has them (half of them shorter than
//! 1.5 KB) it finds the usage 1.6 times as fast as typed serde does (1.4 to 1.75 in three runs; only 1.1 times where
//! every line has 10 KB). `how_much_a_glance_gains` in `claude_code/reply.rs` measures it on a made-up transcript of
//! 30 MB.

/// Lines that nest deeper are left to the slower parser.
const DEEPEST: u8 = 100;

/// A position in a line.
pub struct Walk<'a> {
    line: &'a [u8],
    at: usize,
    depth: u8,
}

/// Walks through a line that is one object and passes on each member: the key, and the walk, which stands before the
/// value and must be moved past it. Keys written with escapes give no certain answer.
pub fn walk_line<'a>(
    line: &'a [u8],
    member: impl FnMut(&mut Walk<'a>, &'a [u8]) -> Option<()>,
) -> Option<()> {
    if has_controls(line) {
        return None;
    }
    let mut walk = Walk::new(line);
    walk.members(member)?;
    walk.is_over().then_some(())
}

/// Whether a line has a control character, which may stand neither in strings nor in the text between them.
pub(super) fn has_controls(line: &[u8]) -> bool {
    !line.chunks(256).all(|chunk| chunk.iter().copied().fold(u8::MAX, u8::min) >= b' ')
}

impl<'a> Walk<'a> {
    /// A walk through a line without control characters.
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0, depth: 0 }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn is_over(&self) -> bool {
        self.at == self.line.len()
    }

    /// Goes into an object or an array.
    pub(super) fn enter(&mut self, open: u8) -> Option<()> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        self.step(open)
    }

    /// Leaves it after its last member.
    pub(super) fn leave(&mut self, close: u8) -> Option<()> {
        self.depth -= 1;
        self.step(close)
    }

    /// The rest of the line.
    pub fn ahead(&self) -> &'a [u8] {
        &self.line[self.at..]
    }

    /// The members of the object at this position.
    pub fn members(&mut self, mut member: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        self.step(b'{')?;
        self.each(b'}', |walk| {
            let key = walk.plain()?;
            walk.step(b':')?;
            member(walk, key)
        })
    }

    /// Whether the value at this position is `null`.
    pub fn is_null(&self) -> bool {
        self.peek() == Some(b'n')
    }

    /// A whole number that is not negative.
    pub fn count(&mut self) -> Option<u64> {
        let digits = self.value()?;
        digits.iter().try_fold(0u64, |number, digit| {
            let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
            number.checked_mul(10)?.checked_add(digit)
        })
    }

    /// Any value, as it is written.
    pub fn value(&mut self) -> Option<&'a [u8]> {
        let from = self.at;
        match self.peek()? {
            b'"' => self.string()?,
            b'{' => {
                self.at += 1;
                self.each(b'}', |walk| {
                    walk.string()?;
                    walk.step(b':')?;
                    walk.value().map(drop)
                })?;
            }
            b'[' => {
                self.at += 1;
                self.each(b']', |walk| walk.value().map(drop))?;
            }
            b't' => self.word(b"true")?,
            b'f' => self.word(b"false")?,
            b'n' => self.word(b"null")?,
            _ => self.number()?,
        }
        self.line.get(from..self.at)
    }

    /// A string that is written without encoding: ASCII without escapes.
    pub fn plain(&mut self) -> Option<&'a [u8]> {
        self.step(b'"')?;
        let from = self.at;
        let rest = self.line.get(from..)?;
        let length = to_special(rest)?;
        self.at += length;
        self.step(b'"')?;
        Some(&rest[..length])
    }

    /// Any string, as it is written.
    fn string(&mut self) -> Option<()> {
        self.step(b'"')?;
        loop {
            self.at += to_quote_or_escape(self.line.get(self.at..)?)? + 1;
            if self.line[self.at - 1] == b'"' {
                return Some(());
            }
            self.at += match self.peek()? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 1,
                b'u' if self.line.get(self.at + 1..self.at + 5)?.iter().all(u8::is_ascii_hexdigit) => 5,
                _ => return None,
            };
        }
    }

    /// Things separated by commas, up to the closing character.
    fn each(&mut self, close: u8, mut thing: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        if self.peek()? != close {
            thing(self)?;
            while self.peek()? == b',' {
                self.at += 1;
                thing(self)?;
            }
        }
        self.depth -= 1;
        self.step(close)
    }

    fn number(&mut self) -> Option<()> {
        self.at += usize::from(self.peek()? == b'-');
        match self.peek()? {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek()?, b'+' | b'-'));
            self.digits()?;
        }
        Some(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        self.at += self.line[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        (self.at > from).then_some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.line[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    pub(super) fn step(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }
}

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGHS: u64 = ONES << 7;

/// Marks the quotes and backslashes among eight bytes; what is marked above the lowest mark may be wrong.
fn quotes_and_escapes(word: u64) -> u64 {
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')))
}

/// The distance to the next quote or backslash. Most strings are short: eight bytes are checked as one number before
/// a search is set up.
fn to_quote_or_escape(rest: &[u8]) -> Option<usize> {
    let (words, _) = rest.as_chunks::<8>();
    for (index, word) in words.iter().take(6).enumerate() {
        let marked = quotes_and_escapes(u64::from_le_bytes(*word));
        if marked != 0 {
            return Some(index * 8 + marked.trailing_zeros() as usize / 8);
        }
    }
    let looked_at = words.len().min(6) * 8;
    memchr::memchr2(b'"', b'\\', &rest[looked_at..]).map(|further| looked_at + further)
}

/// The distance to the next quote, backslash or byte beyond ASCII.
fn to_special(rest: &[u8]) -> Option<usize> {
    let (words, last) = rest.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let marked = quotes_and_escapes(word) | (word & HIGHS);
        if marked != 0 {
            return Some(index * 8 + marked.trailing_zeros() as usize / 8);
        }
    }
    let found = last.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0x80..))?;
    Some(words.len() * 8 + found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;

    /// Values, and what is almost one.
    const VALUES: [&str; 24] = [
        "0",
        "-0",
        "12",
        "01",
        "-",
        "+1",
        "1.5",
        "1.",
        ".5",
        "1e5",
        "1E-2",
        "1e",
        "true",
        "tru",
        "null",
        "nul",
        r#""a\\b""#,
        r#""\u00e9é""#,
        r#""\u12""#,
        r#""\x""#,
        r#""a"#,
        r#"[1,{"b":[]}]"#,
        "[1,]",
        r#"{"b" :1}"#,
    ];

    proptest! {
        #[test]
        fn what_is_walked_is_json_with_the_same_members(
            values in prop::collection::vec(prop::sample::select(VALUES.to_vec()), 0..3),
            keys in prop::sample::select(vec!["a", "b", "", "é", r"\n"]),
            end in prop::sample::select(vec!["}", "}", "}", ",}", "} ", "}}", ""]),
        ) {
            let members: Vec<String> = values.iter().enumerate().map(|(index, value)| {
                format!("\"{keys}{}\":{value}", index % 2)
            }).collect();
            let line = format!("{{{}{end}", members.join(","));
            let mut members: Map<String, Value> = Map::new();
            let walked = walk_line(line.as_bytes(), |walk, key| {
                let value = walk.value()?;
                let value = serde_json::from_slice(value).expect("a value");
                members.insert(String::from_utf8_lossy(key).into_owned(), value);
                Some(())
            });
            if walked.is_some() {
                prop_assert_eq!(serde_json::from_str::<Map<String, Value>>(&line).ok(), Some(members));
            }
        }
    }
}
