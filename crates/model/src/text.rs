//! Text that came from storage is hostile until it has passed through here.

/// Whether a character may reach a terminal, a page or a log.
fn is_harmless(character: char) -> bool {
    match character {
        '\n' | '\t' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        other => !other.is_control(),
    }
}

/// The text without control characters (C0 except newline and tab, DEL, C1) and bidirectional overrides.
pub fn clean(text: &str) -> String {
    if text.chars().all(is_harmless) {
        return text.to_owned();
    }
    text.chars().filter(|c| is_harmless(*c)).collect()
}

/// The first `limit` characters of a text, cleaned. `None` keeps the whole text.
pub fn clean_cut(text: &str, limit: Option<usize>) -> String {
    match limit {
        None => clean(text),
        Some(limit) => {
            let end = text.char_indices().nth(limit).map_or(text.len(), |(at, _)| at);
            if text[..end].chars().all(is_harmless) {
                return text[..end].to_owned();
            }
            text.chars().filter(|c| is_harmless(*c)).take(limit).collect()
        }
    }
}

/// One line: runs of white space become one space.
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
    fn escape_codes_and_direction_overrides_are_gone() {
        let hostile = "a\u{1b}[31mred\u{7}\u{9b}2J\u{7f}\u{202e}b\u{2066}c\r\n\td\0";
        assert_eq!(clean(hostile), "a[31mred2Jbc\n\td");
        assert_eq!(one_line(hostile), "a[31mred2Jbc d");
        assert_eq!(clean_cut("日本語\u{1b}テキスト", Some(4)), "日本語テ");
    }
}
