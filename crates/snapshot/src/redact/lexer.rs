//! Rewrites the strings of JSON text where they stand: everything else of a record, its order, numbers and damage
//! included, stays as it was. Text that is no JSON is rewritten word by word, so that nothing passes unread.

use super::Redactor;

/// Rewrites line by line, because a string of JSON never goes over the end of a line: a line that was cut off does not
/// change how the next one is read.
pub(super) fn redact(contents: &str, redactor: &Redactor) -> String {
    let mut out = String::with_capacity(contents.len());
    for line in contents.split_inclusive('\n') {
        redact_line(line, redactor, &mut out);
    }
    out
}

fn redact_line(line: &str, redactor: &Redactor, out: &mut String) {
    if let Some((key, gap, value, end)) = plain_pair(line) {
        let pair = [&redactor.object_key(key), gap, &redactor.value(value), end];
        return pair.into_iter().for_each(|part| out.push_str(part));
    }
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            rest = string(rest, redactor, out);
        } else {
            let end = rest.find('"').unwrap_or(rest.len());
            bare(&rest[..end], redactor, out);
            rest = &rest[end..];
        }
    }
}

/// The parts of a line of YAML such as `name: Fix the bug`: its value is what a string of JSON would hold.
fn plain_pair(line: &str) -> Option<(&str, &str, &str, &str)> {
    let (key, rest) = line.split_once(": ")?;
    let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let value = rest.trim_end();
    let is_plain = is_key && !value.is_empty() && !value.contains('"');
    is_plain.then(|| (key, ": ", value, &rest[value.len()..]))
}

/// Rewrites the string at the beginning, and returns what follows it.
fn string<'t>(rest: &'t str, redactor: &Redactor, out: &mut String) -> &'t str {
    let Some(end) = end_of_string(rest) else {
        // It was cut off.
        out.push_str(&redactor.text(rest));
        return "";
    };
    let (literal, after) = rest.split_at(end);
    let Ok(value) = serde_json::from_str::<String>(literal) else {
        out.push_str(&redactor.text(literal));
        return after;
    };
    let is_key = after.trim_start().starts_with(':');
    let value = if is_key { redactor.object_key(&value) } else { redactor.value(&value) };
    out.push_str(&serde_json::Value::String(value).to_string());
    after
}

fn end_of_string(rest: &str) -> Option<usize> {
    let mut is_escaped = false;
    rest.bytes().enumerate().skip(1).find_map(|(at, byte)| match byte {
        b'"' if !is_escaped => Some(at + 1),
        b'\\' => {
            is_escaped = !is_escaped;
            None
        }
        _ => {
            is_escaped = false;
            None
        }
    })
}

/// Rewrites what stands outside of strings. In JSON these are numbers, marks and three words.
fn bare(words: &str, redactor: &Redactor, out: &mut String) {
    let is_json = |word: &str| {
        matches!(word, "true" | "false" | "null") || word.parse::<f64>().is_ok_and(f64::is_finite)
    };
    for part in words.split_inclusive(|c: char| c.is_whitespace() || ",:[]{}".contains(c)) {
        let word = part.trim_end_matches(|c: char| c.is_whitespace() || ",:[]{}".contains(c));
        if is_json(word) {
            out.push_str(part);
        } else {
            out.push_str(&redactor.name(word));
            out.push_str(&part[word.len()..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        redact(text, &Redactor::new([1; 32]))
    }

    #[test]
    fn only_strings_change_and_numbers_and_order_stay() {
        let line = "{\"type\":\"user\", \"n\":-1.5e3,\"message\":{\"content\":\"say \\\"hi\\\" \\u00fc\"},\"ok\":true}\n";
        let expected =
            "{\"type\":\"user\", \"n\":-1.5e3,\"message\":{\"content\":\"xxx \\\"xx\\\" ø\"},\"ok\":true}\n";
        assert_eq!(redacted(line), expected);
    }

    #[test]
    fn keys_that_no_reader_knows_are_replaced() {
        let out = redacted("{\"type\":1,\"my secret key\":2,\"zebraword\":3}");
        assert!(out.starts_with("{\"type\":1,\"xx xxxxxx xxx\":2,\"") && !out.contains("zebraword"), "{out}");
    }

    #[test]
    fn damage_does_not_let_anything_through() {
        for damaged in [
            "{\"content\":\"zebraword and mo",
            "zebraword\n",
            "\"zebraword \\x\" tail zebraword",
            "{\"a\":zebraword}",
            "cwd: /srv/zebraword\nsummary: zebraword it",
            "\\\"zebraword\\\"",
        ] {
            let out = redacted(damaged);
            assert!(!out.contains("zebraword"), "{damaged} became {out}");
            assert_eq!(out.chars().count(), damaged.chars().count(), "{damaged} became {out}");
        }
        assert!(redacted("cwd: /srv/x").starts_with("cwd: /"), "what a reader looks for stays");
    }
}
