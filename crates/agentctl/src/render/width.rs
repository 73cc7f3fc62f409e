//! The width of text on a screen, and ways to make it narrower.

use unicode_width::UnicodeWidthChar;

/// The assumed width of a screen that cannot be asked.
pub(crate) const DEFAULT_COLUMNS: usize = 80;

/// Wider than anything that is ever printed, for output that is not a screen.
pub(crate) const UNBOUNDED: usize = usize::MAX / 4;

const ELLIPSIS: char = '…';

/// The columns of one character. The emoji variation selector makes the character before it wider.
fn of(character: char) -> usize {
    if character == '\u{fe0f}' { 1 } else { character.width().unwrap_or(0) }
}

pub(crate) fn measure(text: &str) -> usize {
    text.chars().map(of).sum()
}

/// At most `width` columns; a cut at the end leaves an ellipsis.
pub(crate) fn cut_end(text: &str, width: usize) -> String {
    if measure(text) <= width {
        return text.to_owned();
    }
    let mut kept = take(text.chars(), width.saturating_sub(1));
    if width > 0 {
        kept.push(ELLIPSIS);
    }
    kept
}

/// At most `width` columns of a path, whose end is the most useful: it is cut at the beginning, at a slash if
/// there is one.
pub(crate) fn cut_path(text: &str, width: usize) -> String {
    if measure(text) <= width {
        return text.to_owned();
    }
    let backwards = take(text.chars().rev(), width.saturating_sub(1));
    let mut kept = String::with_capacity(backwards.len() + ELLIPSIS.len_utf8());
    if width > 0 {
        kept.push(ELLIPSIS);
    }
    let tail: String = backwards.chars().rev().collect();
    kept.push_str(&tail[tail.find('/').unwrap_or(0)..]);
    kept
}

fn take(characters: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    characters
        .take_while(|character| {
            used += of(*character);
            used <= width
        })
        .collect()
}

/// Splits a line into pieces of at most `width` columns, at any character. Nothing is lost.
pub(crate) fn split(line: &str, width: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while measure(rest) > width {
        let head = take(rest.chars(), width).len();
        // A character wider than the whole line becomes a piece of its own.
        let head = if head == 0 { rest.chars().next().map_or(0, char::len_utf8) } else { head };
        let (piece, more) = rest.split_at(head);
        pieces.push(piece);
        rest = more;
    }
    pieces.push(rest);
    pieces
}

/// The lines of a text, wrapped between words so that none is wider than `width`.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let paragraph = paragraph.replace('\t', "    ");
        if measure(&paragraph) <= width {
            lines.push(paragraph.trim_end().to_owned());
            continue;
        }
        let mut line = String::new();
        for word in paragraph.split_inclusive(' ') {
            if !line.is_empty() && measure(&line) + measure(word.trim_end()) > width {
                lines.push(std::mem::take(&mut line).trim_end().to_owned());
            }
            line.push_str(word);
            while measure(line.trim_end()) > width {
                let head = take(line.chars(), width);
                // A character wider than the whole line becomes a line of its own.
                let split =
                    if head.is_empty() { line.chars().next().map_or(0, char::len_utf8) } else { head.len() };
                let rest = line.split_off(split);
                lines.push(std::mem::replace(&mut line, rest));
            }
        }
        lines.push(line.trim_end().to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(measure("日本"), 4);
        assert_eq!(cut_end("日本語", 5), "日本…");
        assert_eq!(cut_end("日本語", 4), "日…");
        assert_eq!(cut_path("日本語", 4), "…語");
        assert_eq!(cut_end("abc", 3), "abc");
        assert_eq!(cut_end("abcd", 1), "…");
        assert_eq!(cut_end("abcd", 0), "");
        assert_eq!(cut_path("/home/dev/mono", 6), "…/mono");
        assert_eq!(cut_path("/home/dev/mono", 9), "…/mono");
        assert_eq!(cut_path("/home/dev/monorepo", 5), "…repo");
    }

    #[test]
    fn wrapping_keeps_words_and_never_exceeds_the_width() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a\n\nb", 7), ["a", "", "b"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        for width in 1..30 {
            for line in
                wrap("日本語テキスト and some  longer words\twith tabs aaaaaaaaaaaaaaaaaaaaaaaa", width)
            {
                assert!(measure(&line) <= width.max(2), "{width}: {line:?}");
            }
        }
    }
}
