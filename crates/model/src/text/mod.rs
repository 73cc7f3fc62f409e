//! Makes text safe to show. Text from storage may be hostile until it has passed through here.

pub mod appointment;
pub mod json;
pub mod period;

use std::fmt::Write;

/// Whether a character may be written to a terminal, a page or a log.
fn is_harmless(character: char) -> bool {
    match character {
        '\n' | '\t' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        other => !other.is_control(),
    }
}

/// Whether all characters of a text are harmless. Most texts have no byte that could begin another one, and plain
/// comparisons, which the compiler makes wide ones, tell it.
fn are_harmless(text: &str) -> bool {
    let is_suspect = |byte: u8| {
        (byte < b' ' && byte != b'\n' && byte != b'\t') || byte == 0x7f || byte == 0xc2 || byte == 0xe2
    };
    let has_suspect = text.bytes().fold(false, |seen, byte| seen | is_suspect(byte));
    !has_suspect || text.chars().all(is_harmless)
}

/// The text without control characters (C0 except newline and tab, DEL, C1) and bidirectional overrides.
pub fn clean(text: &str) -> String {
    if are_harmless(text) {
        return text.to_owned();
    }
    text.chars().filter(|c| is_harmless(*c)).collect()
}

/// Whether a character is invisible, looks like a space, or changes the order of the text: it could hide what a person
/// decides about.
fn is_hidden(character: char) -> bool {
    matches!(character,
        '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{1680}' | '\u{180b}'..='\u{180f}'
        | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{2800}' | '\u{3000}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Prepares text about which a person decides: nothing is dropped, and every invisible character is written as its code
/// (`⟨U+202E⟩`), except line breaks and tabs. Backslashes stay as they are, so a command that contains `\r` cannot be
/// confused with one that contains the character. Applying this twice changes nothing more.
pub fn visible(text: &str) -> String {
    let is_seen = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || is_hidden(c));
    if text.chars().all(is_seen) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            seen if is_seen(seen) => shown.push(seen),
            hidden => {
                let _ = write!(shown, "⟨U+{:04X}⟩", u32::from(hidden));
            }
        }
    }
    shown
}

/// The same on one line: line breaks and tabs are written as `\n` and `\t`, and spaces stay.
pub fn visible_line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// Quotes an id or a name for a command that a person may paste into a shell: the shell runs nothing in it, and the program
/// does not take it for a flag.
pub fn shell_word(word: &str) -> String {
    let word = visible_line(word);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    let quoted = if !word.is_empty() && word.chars().all(is_plain) {
        word.clone()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    };
    if word.starts_with('-') { format!("-- {quoted}") } else { quoted }
}

/// A number with its noun: "1 folder", "2 folders".
pub fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// The first `limit` characters of a text, cleaned. `None` keeps the whole text.
pub fn clean_cut(text: &str, limit: Option<usize>) -> String {
    match limit {
        None => clean(text),
        Some(limit) => {
            let end = match text.as_bytes().get(..limit) {
                None => text.len(),
                Some(first) if first.is_ascii() => limit,
                Some(_) => text.char_indices().nth(limit).map_or(text.len(), |(at, _)| at),
            };
            if are_harmless(&text[..end]) {
                return text[..end].to_owned();
            }
            text.chars().filter(|c| is_harmless(*c)).take(limit).collect()
        }
    }
}

/// The text on one line: runs of white space become one space.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().filter(|c| is_harmless(*c)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_for_a_shell_runs_nothing_and_is_no_flag() {
        assert_eq!(shell_word("5f0c-1"), "5f0c-1");
        assert_eq!(shell_word("agent:main:a b"), "'agent:main:a b'");
        assert_eq!(shell_word("0a$(touch x)"), "'0a$(touch x)'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word("--help"), "-- --help");
        assert_eq!(shell_word("a\u{1b}[2J\nb"), r"'a⟨U+001B⟩[2J\nb'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn escape_codes_and_direction_overrides_are_gone() {
        let hostile = "a\u{1b}[31mred\u{7}\u{9b}2J\u{7f}\u{202e}b\u{2066}c\r\n\td\0";
        assert_eq!(clean(hostile), "a[31mred2Jbc\n\td");
        assert_eq!(one_line(hostile), "a[31mred2Jbc d");
        assert_eq!(clean_cut("日本語\u{1b}テキスト", Some(4)), "日本語テ");
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            assert_eq!(are_harmless(&format!("a{c}b")), is_harmless(c), "{c:?}");
        }
        for (text, cut) in
            [("abcd", "abc"), ("abc", "abc"), ("ab", "ab"), ("abé", "abé"), ("abcé", "abc"), ("éab", "éab")]
        {
            assert_eq!(clean_cut(text, Some(3)), cut);
        }
    }

    #[test]
    fn what_is_decided_about_is_whole_and_hides_nothing() {
        let command = "printf '%s\\n'  \"a  b\" | tee x && 日本\n\tdone ";
        assert_eq!(visible(command), command);
        assert_eq!(
            visible("a\u{1b}[1A\u{202e}b\u{200b}c\u{a0}d\r\u{9b}\0"),
            "a⟨U+001B⟩[1A⟨U+202E⟩b⟨U+200B⟩c⟨U+00A0⟩d⟨U+000D⟩⟨U+009B⟩⟨U+0000⟩"
        );
        // An escape that the command contains as text differs from the character itself.
        assert_eq!(visible(r"printf '\r\u{202e}'"), r"printf '\r\u{202e}'");
        assert_eq!(visible("\\r\r"), "\\r⟨U+000D⟩");
        assert_eq!(visible(&visible("a\u{1b}\\b")), visible("a\u{1b}\\b"));
        assert_eq!(visible_line("a\n  b\tc"), r"a\n  b\tc");
        // `clean` drops nothing of it afterwards.
        assert_eq!(clean(&visible("a\u{1b}b")), visible("a\u{1b}b"));
    }
}
