//! `workspace.yaml`: flat keys with one value each, read without a YAML parser. Pure.

use std::collections::HashMap;

/// The file's keys and values. Anything that is not a flat key is passed over.
pub(super) struct Workspace(HashMap<String, String>);

impl Workspace {
    pub(super) fn parse(text: &str) -> Self {
        let mut values = HashMap::new();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let Some((key, value)) = line.split_once(':') else { continue };
            if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                continue;
            }
            let value = value.trim();
            let value = match value.as_bytes().first() {
                Some(b'|' | b'>') => {
                    let mut block = Vec::new();
                    while let Some(next) = lines.next_if(|next| next.starts_with(' ') || next.is_empty()) {
                        block.push(next.trim());
                    }
                    Some(block.join("\n").trim().to_owned())
                }
                Some(quote @ (b'\'' | b'"')) => {
                    // A long quoted text goes on in indented lines; a line break in it is one space.
                    let mut quoted = value.to_owned();
                    while unquote(&quoted, *quote).is_none() {
                        let Some(next) = lines.next_if(|next| next.starts_with(' ') || next.is_empty())
                        else {
                            break;
                        };
                        quoted.push(if next.is_empty() { '\n' } else { ' ' });
                        quoted.push_str(next.trim());
                    }
                    unquote(&quoted, *quote)
                }
                _ => plain(value),
            };
            if let Some(value) = value {
                values.insert(key.to_owned(), value);
            }
        }
        Self(values)
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A person gave the name.
    pub(super) fn is_user_named(&self) -> bool {
        self.get("user_named") == Some("true")
    }
}

/// A value without quotes; a comment behind it is not part of it.
fn plain(value: &str) -> Option<String> {
    let value = value.split(" #").next().unwrap_or(value).trim();
    (!matches!(value, "" | "null" | "~")).then(|| value.to_owned())
}

/// The text between the quotes, `None` while the closing one is missing.
fn unquote(text: &str, quote: u8) -> Option<String> {
    let mut characters = text.strip_prefix(char::from(quote))?.chars().peekable();
    let mut value = String::new();
    while let Some(character) = characters.next() {
        match character {
            '\'' if quote == b'\'' => {
                // Two in a row are one inside the text.
                if characters.next_if_eq(&'\'').is_none() {
                    return Some(value);
                }
                value.push('\'');
            }
            '"' if quote == b'"' => return Some(value),
            '\\' if quote == b'"' => value.push(escaped(&mut characters)?),
            other => value.push(other),
        }
    }
    None
}

fn escaped(characters: &mut impl Iterator<Item = char>) -> Option<char> {
    let digits = match characters.next()? {
        'n' => return Some('\n'),
        't' => return Some('\t'),
        'r' => return Some('\r'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        // A quote, a backslash, a slash; of the rest only control characters would differ.
        other => return Some(other),
    };
    let hex: String = characters.take(digits).collect();
    Some(u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32).unwrap_or('\u{fffd}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_values_are_read_however_they_are_quoted() {
        let text = "id: a-b\ncwd: /home/dev/odd dir. \u{fc}n\u{ef}/x\nname: '[[it''s]]: x'\nuser_named: true\n\
                    empty: ''\nnothing: null\ndouble: \"a \\\"b\\\" \\u00e9\"\nblock: |-\n  one\n  two\nlist:\n  - x: 1\n\
                    folded: 'one\n  two'\nlast: z # note\n";
        let workspace = Workspace::parse(text);
        for (key, value) in [
            ("id", "a-b"),
            ("cwd", "/home/dev/odd dir. \u{fc}n\u{ef}/x"),
            ("name", "[[it's]]: x"),
            ("double", "a \"b\" \u{e9}"),
            ("block", "one\ntwo"),
            ("folded", "one two"),
            ("last", "z"),
        ] {
            assert_eq!(workspace.get(key), Some(value), "{key}");
        }
        assert!(workspace.is_user_named());
        for key in ["empty", "nothing", "list", "x"] {
            assert_eq!(workspace.get(key), None, "{key}");
        }
    }

    #[test]
    fn half_a_file_ends() {
        for text in ["", "name: 'open", "name: \"open\\", "name: |", ":", "name: \"\\u12"] {
            let _ = Workspace::parse(text);
        }
        assert_eq!(Workspace::parse("name: 'open\n  still").get("name"), None);
    }
}
