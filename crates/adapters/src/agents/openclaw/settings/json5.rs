//! Reads OpenClaw's config file, which is JSON5 (comments, bare names, single quotes, trailing commas), into plain
//! JSON values. Pure; nesting is bounded.

use serde_json::{Map, Value};

const DEEPEST: usize = 100;

/// The value, or where and why the text is not one.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader { rest: text.trim_start_matches('\u{feff}'), whole: text.len() };
    let value = reader.value(0)?;
    reader.blank()?;
    if reader.rest.is_empty() { Ok(value) } else { Err(reader.odd("something follows the value")) }
}

struct Reader<'t> {
    rest: &'t str,
    whole: usize,
}

impl Reader<'_> {
    fn odd(&self, what: &str) -> String {
        format!("{what} at byte {}", self.whole - self.rest.len())
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn takes(&mut self, wanted: &str) -> bool {
        let stripped = self.rest.strip_prefix(wanted);
        self.rest = stripped.unwrap_or(self.rest);
        stripped.is_some()
    }

    /// White space and comments.
    fn blank(&mut self) -> Result<(), String> {
        loop {
            self.rest = self.rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            if self.takes("//") {
                self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
            } else if self.takes("/*") {
                let end = self.rest.find("*/").ok_or_else(|| self.odd("a comment without an end"))?;
                self.rest = &self.rest[end + 2..];
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > DEEPEST {
            return Err(self.odd("too deep"));
        }
        self.blank()?;
        match self.peek() {
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some('"' | '\'') => self.string().map(Value::String),
            Some(_) => self.literal(),
            None => Err(self.odd("a value is missing")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        let mut map = Map::new();
        self.each_until('}', |reader| {
            let name = match reader.peek() {
                Some('"' | '\'') => reader.string()?,
                _ => reader.bare(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))?,
            };
            reader.blank()?;
            if !reader.takes(":") {
                return Err(reader.odd("a colon is missing"));
            }
            map.insert(name, reader.value(depth + 1)?);
            Ok(())
        })?;
        Ok(Value::Object(map))
    }

    fn array(&mut self, depth: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        self.each_until(']', |reader| {
            items.push(reader.value(depth + 1)?);
            Ok(())
        })?;
        Ok(Value::Array(items))
    }

    /// What stands between an opening bracket and this closing one, separated by commas.
    fn each_until(
        &mut self,
        close: char,
        mut item: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        self.take();
        loop {
            self.blank()?;
            if self.peek() == Some(close) {
                self.take();
                return Ok(());
            }
            item(self)?;
            self.blank()?;
            if !self.takes(",") && self.peek() != Some(close) {
                return Err(self.odd("a comma is missing"));
            }
        }
    }

    fn bare(&mut self, belongs: impl Fn(char) -> bool) -> Result<String, String> {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() {
            return Err(self.odd("an odd character"));
        }
        self.rest = rest;
        Ok(word.to_owned())
    }

    /// A number, or true, false, null. Numbers that JSON does not have become null: nothing here needs them.
    fn literal(&mut self) -> Result<Value, String> {
        let word = self.bare(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))?;
        let number = word.strip_prefix('+').unwrap_or(&word);
        match word.as_str() {
            "NaN" | "Infinity" | "+Infinity" | "-Infinity" => Ok(Value::Null),
            _ if number.starts_with("0x") || number.starts_with("0X") => {
                u64::from_str_radix(&number[2..], 16).map(Value::from).map_err(|_| self.odd("an odd number"))
            }
            _ => serde_json::from_str(number)
                .ok()
                .or_else(|| number.parse::<f64>().ok().map(Value::from))
                .ok_or_else(|| self.odd("an unknown word")),
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let quote = self.take();
        let mut text = String::new();
        loop {
            match self.take() {
                None | Some('\n') => return Err(self.odd("a text without an end")),
                end if end == quote => return Ok(text),
                Some('\\') => self.escape(&mut text)?,
                Some(other) => text.push(other),
            }
        }
    }

    fn escape(&mut self, text: &mut String) -> Result<(), String> {
        match self.take() {
            None => return Err(self.odd("a text without an end")),
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('v') => text.push('\u{b}'),
            Some('0') => text.push('\0'),
            // A line that continues on the next one.
            Some('\n') => {}
            Some('\r') => {
                self.takes("\n");
            }
            Some('x') => text.push(self.digits(2).and_then(char::from_u32).unwrap_or('\u{fffd}')),
            Some('u') => {
                let first = self.digits(4).ok_or_else(|| self.odd("an odd escape"))?;
                let surrogate = (0xd800..0xdc00).contains(&first) && self.takes("\\u");
                let whole = if surrogate {
                    let second = self.digits(4).unwrap_or(0);
                    0x10000 + ((first - 0xd800) << 10) + (second.wrapping_sub(0xdc00) & 0x3ff)
                } else {
                    first
                };
                text.push(char::from_u32(whole).unwrap_or('\u{fffd}'));
            }
            Some(other) => text.push(other),
        }
        Ok(())
    }

    fn digits(&mut self, count: usize) -> Option<u32> {
        let number = self.rest.get(..count).and_then(|digits| u32::from_str_radix(digits, 16).ok())?;
        self.rest = &self.rest[count..];
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_people_write_is_understood() {
        let text = "// mine\n{ gateway: {port: 0x10, 'auth': {\"token\": 'it\\'s', }, /* no */ mode: \"local\",},\n\
            list: [1, -2.5, +3, .5, true, null, NaN,], \"\\u00e9\\ud83e\\udd80\": \"a\\\nb\" }";
        let expected = json!({
            "gateway": {"port": 16, "auth": {"token": "it's"}, "mode": "local"},
            "list": [1, -2.5, 3, 0.5, true, null, null], "é🦀": "ab",
        });
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn what_is_broken_is_refused_with_its_place() {
        for broken in
            ["", "{", "{a}", "{a:1 b:2}", "[1 2]", "'x", "{a:1} x", "/* ", "wat", "{\"a\": \"\\u12\"}"]
        {
            assert!(parse(broken).is_err(), "{broken}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err(), "bounded");
        assert_eq!(parse("{a:1 b}"), Err("a comma is missing at byte 5".to_owned()));
    }

    proptest! {
        #[test]
        fn all_json_is_json5(text in "[a-z\\\\\"'{}\\[\\]:, 0-9./*\u{e9}\n]{0,60}") {
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                prop_assert_eq!(parse(&text), Ok(value));
            } else {
                let _ = parse(&text);
            }
        }
    }
}
