//! A notice of the terminal: the terminal shows it on the desktop, also over ssh and from inside tmux. A terminal that knows
//! none of these sequences rings its bell.

use agentctl_model::notice::Notice;
use agentctl_model::text;

/// Which sequence a terminal understands. Several at once would be shown twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sequence {
    /// Most terminals; those that do not know it ignore it.
    Osc9,
    /// Terminals of the family of urxvt: foot, those with VTE.
    Osc777,
    /// kitty.
    Osc99,
    /// No terminal that could know any.
    Bell,
}

/// The terminal that a command writes to, by its variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terminal {
    sequence: Sequence,
    /// It is inside tmux, which passes a sequence on only in an envelope.
    in_tmux: bool,
}

impl Terminal {
    /// By the variables that terminals set; `get` reads one.
    pub(crate) fn of<'v>(get: impl Fn(&str) -> Option<&'v str>) -> Self {
        let term = get("TERM").unwrap_or_default();
        let program = get("TERM_PROGRAM").unwrap_or_default();
        let sequence = if term.contains("kitty") || get("KITTY_WINDOW_ID").is_some() {
            Sequence::Osc99
        } else if term.starts_with("foot") || term.contains("rxvt") || get("VTE_VERSION").is_some() {
            Sequence::Osc777
        } else if matches!(term, "" | "dumb" | "linux") && program.is_empty() {
            Sequence::Bell
        } else {
            Sequence::Osc9
        };
        Self { sequence, in_tmux: get("TMUX").is_some_and(|tmux| !tmux.is_empty()) }
    }

    /// The bytes that show this notice.
    pub(crate) fn shows(self, notice: &Notice) -> String {
        let short = |words: &str, most| text::clean_cut(&text::one_line(words), Some(most));
        let (title, body) = (short(&notice.title(), 100), short(&notice.body(), 300));
        // The parts of a sequence are divided by semicolons, and a number at its beginning is a command.
        let plain = |words: &str| words.replace(';', ",");
        let words = match self.sequence {
            Sequence::Bell => return "\u{7}".to_owned(),
            Sequence::Osc9 => format!("9;{}: {}", plain(&title), plain(&body)),
            Sequence::Osc777 => format!("777;notify;{};{}", plain(&title), plain(&body)),
            Sequence::Osc99 => {
                let first = self.wrapped(&format!("99;i=agentctl:d=0;{}", plain(&title)));
                return format!(
                    "{first}{}\u{7}",
                    self.wrapped(&format!("99;i=agentctl:p=body;{}", plain(&body)))
                );
            }
        };
        format!("{}\u{7}", self.wrapped(&words))
    }

    fn wrapped(self, words: &str) -> String {
        let sequence = format!("\u{1b}]{words}\u{1b}\\");
        if self.in_tmux {
            return format!("\u{1b}Ptmux;{}\u{1b}\\", sequence.replace('\u{1b}', "\u{1b}\u{1b}"));
        }
        sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal(variables: &'static [(&str, &str)]) -> Terminal {
        Terminal::of(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| *value))
    }

    fn notice(words: &str) -> Notice {
        Notice { words: Some(words.to_owned()), ..Notice::test() }
    }

    #[test]
    fn each_terminal_gets_the_sequence_that_it_knows() {
        let shown = |variables| terminal(variables).shows(&notice("rm; x"));
        let bell = "\u{7}";
        assert_eq!(
            shown(&[("TERM", "xterm-256color")]),
            format!("\u{1b}]9;agentctl tests its notices: rm, x agentctl inbox\u{1b}\\{bell}")
        );
        assert_eq!(
            shown(&[("TERM", "foot")]),
            format!("\u{1b}]777;notify;agentctl tests its notices;rm, x agentctl inbox\u{1b}\\{bell}")
        );
        assert!(shown(&[("TERM", "xterm-kitty")]).starts_with("\u{1b}]99;i=agentctl:d=0;agentctl tests"));
        assert_eq!(shown(&[("TERM", "dumb")]), bell);
        assert_eq!(shown(&[]), bell);
        let tmux = shown(&[("TERM", "tmux-256color"), ("TMUX", "/tmp/x,1,0")]);
        assert_eq!(
            tmux,
            format!(
                "\u{1b}Ptmux;\u{1b}\u{1b}]9;agentctl tests its notices: rm, x agentctl inbox\u{1b}\u{1b}\\\u{1b}\\{bell}"
            )
        );
    }

    #[test]
    fn no_words_can_end_a_sequence() {
        let hostile = "a\u{1b}\\\u{7}\u{9c}b\u{1b}]0;title\u{7}\n\u{202e}c";
        for variables in
            [&[("TERM", "xterm")][..], &[("TERM", "xterm-kitty")], &[("TERM", "foot"), ("TMUX", "x")]]
        {
            let shown = terminal(variables).shows(&notice(hostile));
            assert_eq!(shown.matches('\u{7}').count(), 1, "{shown:?}");
            assert!(
                !shown.contains('\u{9c}') && !shown.contains('\u{202e}') && !shown.contains("]0;"),
                "{shown:?}"
            );
        }
    }
}
