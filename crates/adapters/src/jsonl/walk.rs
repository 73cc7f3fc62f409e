//! A quick walk over one line of JSON: is it whole, and where do the values of its members stand. Pure.
//!
//! It knows JSON only as machines write it, without spaces, and is never surer than `serde_json`: what it walks to
//! the end of, serde reads too. `None` is no verdict, only a line that somebody slower has to judge.

/// Deeper lines are left to others.
const DEEPEST: u8 = 100;

/// A place in a line.
pub struct Walk<'a> {
    line: &'a [u8],
    at: usize,
    depth: u8,
}

/// Walks through a line that is one object and hands over its members: their key as it is written, and the walk, which
/// stands before the value and must be led behind it.
pub fn walk_line<'a>(
    line: &'a [u8],
    member: impl FnMut(&mut Walk<'a>, &'a [u8]) -> Option<()>,
) -> Option<()> {
    // Neither strings nor what stands between them may hold a control character.
    if !line.chunks(256).all(|chunk| chunk.iter().copied().fold(u8::MAX, u8::min) >= b' ') {
        return None;
    }
    let mut walk = Walk { line, at: 0, depth: 0 };
    walk.members(member)?;
    (walk.at == line.len()).then_some(())
}

impl<'a> Walk<'a> {
    /// The members of the object that stands here.
    pub fn members(&mut self, mut member: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        self.step(b'{')?;
        self.each(b'}', |walk| {
            let key = walk.string()?;
            walk.step(b':')?;
            member(walk, key)
        })
    }

    /// Any value, as it is written.
    pub fn value(&mut self) -> Option<&'a [u8]> {
        let from = self.at;
        match self.peek()? {
            b'"' => return self.string_with_quotes(),
            b'{' => self.members(|walk, _| walk.value().map(drop))?,
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

    /// What stands between the quotes, escapes and all.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let quoted = self.string_with_quotes()?;
        quoted.get(1..quoted.len() - 1)
    }

    fn string_with_quotes(&mut self) -> Option<&'a [u8]> {
        let from = self.at;
        self.step(b'"')?;
        loop {
            self.at += memchr::memchr2(b'"', b'\\', self.line.get(self.at..)?)? + 1;
            if self.line[self.at - 1] == b'"' {
                return self.line.get(from..self.at);
            }
            self.at += match self.peek()? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 1,
                b'u' if self.line.get(self.at + 1..self.at + 5)?.iter().all(u8::is_ascii_hexdigit) => 5,
                _ => return None,
            };
        }
    }

    /// Things with commas between them, up to what closes them.
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

    fn step(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }
}
