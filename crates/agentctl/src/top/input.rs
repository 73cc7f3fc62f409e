//! A line that is typed.

use agentctl_model::Pending;

use super::rows::Key;

/// What the typed line is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    Find,
    /// The words of a denial of this request; none are needed.
    Deny(Key, Box<Pending>),
    Answer(Key, Box<Pending>),
    Send(Key),
    Resume(Key),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) purpose: Purpose,
    pub(crate) line: Line,
}

impl Input {
    pub(crate) fn new(purpose: Purpose, typed: &str) -> Self {
        Self { purpose, line: Line { typed: typed.to_owned() } }
    }

    /// What stands in front of the line.
    pub(crate) fn label(&self) -> &'static str {
        match self.purpose {
            Purpose::Find => "find: ",
            Purpose::Deny(..) => "deny, and say why (Enter: without a reason): ",
            Purpose::Answer(..) => "answer: ",
            Purpose::Send(_) => "send: ",
            Purpose::Resume(_) => "resume with: ",
        }
    }
}

/// One line of text, edited at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) typed: String,
}

impl Line {
    pub(crate) fn push(&mut self, letter: char) {
        if !letter.is_control() {
            self.typed.push(letter);
        }
    }

    /// Pasted text keeps its lines.
    pub(crate) fn paste(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        self.typed
            .extend(text.chars().filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t')));
    }

    pub(crate) fn back(&mut self) {
        self.typed.pop();
    }

    pub(crate) fn clear(&mut self) {
        self.typed.clear();
    }

    /// Takes the last word away.
    pub(crate) fn word_back(&mut self) {
        let kept = self.typed.trim_end().rfind(char::is_whitespace).map_or(0, |at| at + 1);
        self.typed.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_edited_at_its_end_and_takes_no_controls() {
        let mut line = Line::default();
        line.paste("one two\r\nthr\u{1b}ee  ");
        assert_eq!(line.typed, "one two\nthree  ");
        line.word_back();
        assert_eq!(line.typed, "one two\n");
        line.back();
        line.push('\u{7}');
        line.push('!');
        assert_eq!(line.typed, "one two!");
        line.clear();
        line.word_back();
        assert_eq!(line.typed, "");
    }
}
