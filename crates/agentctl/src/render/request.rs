//! Shows a request that a person decides about in full: nothing is cut or hidden, and no space is lost.

use agentctl_model::text;

use super::width::{measure, split};

/// The prefix of a line of the request, and of its continuation.
const LINE: &str = "│ ";
const GOES_ON: &str = "┆ ";

/// The lines of a request, indented, none wider than `width`. Unlike the text of a conversation they are
/// broken wherever the line is full, because a space at the end of a line counts too.
pub(crate) fn lines(request: &str, indent: usize, width: usize) -> Vec<String> {
    let room = width.saturating_sub(indent + measure(LINE)).max(8);
    let mut lines = Vec::new();
    for line in text::visible(request).split('\n') {
        let line = line.replace('\t', "⟨TAB⟩");
        let pieces = split(&line, room);
        lines.extend(pieces.iter().enumerate().map(|(index, piece)| {
            let mark = if index == 0 { LINE } else { GOES_ON };
            format!("{:indent$}{mark}{piece}", "")
        }));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Joins the shown lines again.
    fn read(lines: &[String]) -> String {
        let mut whole = String::new();
        for line in lines {
            if let Some(more) = line.trim_start_matches(' ').strip_prefix(GOES_ON) {
                whole.push_str(more);
            } else {
                if !whole.is_empty() {
                    whole.push('\n');
                }
                whole.push_str(line.trim_start_matches(' ').strip_prefix(LINE).unwrap());
            }
        }
        whole
    }

    #[test]
    fn a_request_is_shown_whole_at_any_width() {
        let request = format!(
            "bash: rm -rf  'two  spaces'  && 日本語 | tee {}\n  second line \n\nlast \u{202e}",
            "x".repeat(500)
        );
        for width in 1..200 {
            let shown = lines(&request, 2, width);
            assert_eq!(read(&shown), text::visible(&request), "{width}");
            let fits = |line: &String| measure(line) <= width.max(12);
            assert!(shown.iter().all(fits), "{width}: {shown:#?}");
        }
    }
}
