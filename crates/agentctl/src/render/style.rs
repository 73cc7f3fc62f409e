//! Colours, and the appearance of a status. Colour is never the only sign: every status has a symbol and a
//! word.

use std::time::Duration;

use agentctl_model::{Outcome, Session, Status};
use anstyle::{AnsiColor, Style};
use jiff::Timestamp;

use super::time;

/// The meaning of a piece of text; [`Paint`] decides how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Dim,
    Strong,
    /// Works or went well.
    Good,
    /// Needs a person.
    Attention,
    /// Has needed a person for too long, or went wrong.
    Bad,
}

/// When to use colours, as `--color` says it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless a variable says otherwise
    #[default]
    Auto,
    /// Also into a pipe
    Always,
    /// None
    Never,
}

/// Whether text is coloured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(bool);

impl Paint {
    pub(crate) fn new(colours: bool) -> Self {
        Self(colours)
    }

    pub(crate) fn apply(self, tone: Tone, text: &str) -> String {
        if !self.0 || text.is_empty() || tone == Tone::Plain {
            return text.to_owned();
        }
        let style = match tone {
            Tone::Plain => Style::new(),
            Tone::Dim => Style::new().dimmed(),
            Tone::Strong => Style::new().bold(),
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Attention => AnsiColor::Yellow.on_default().bold(),
            Tone::Bad => AnsiColor::Red.on_default().bold(),
        };
        format!("{style}{text}{style:#}")
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.apply(Tone::Dim, text)
    }

    pub(crate) fn strong(self, text: &str) -> String {
        self.apply(Tone::Strong, text)
    }

    pub(crate) fn attention(self, text: &str) -> String {
        self.apply(Tone::Attention, text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.apply(Tone::Bad, text)
    }
}

/// The appearance of a session's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) glyph: char,
    pub(crate) word: &'static str,
    pub(crate) tone: Tone,
}

/// One word for the status; a stopped session shows how its last turn ended.
pub(crate) fn look(status: Status, outcome: Option<Outcome>) -> Look {
    let (glyph, word, tone) = match (status, outcome) {
        (Status::Running, _) => ('●', "running", Tone::Good),
        (Status::Waiting, _) => ('◐', "waiting", Tone::Attention),
        (Status::Idle, Some(Outcome::Failed | Outcome::Died)) => ('○', "idle", Tone::Bad),
        (Status::Idle, _) => ('○', "idle", Tone::Plain),
        (Status::Unknown, _) => ('?', "unknown", Tone::Attention),
        (Status::Stopped, Some(Outcome::Completed)) => ('✓', "done", Tone::Dim),
        (Status::Stopped, Some(Outcome::Failed)) => ('✕', "failed", Tone::Bad),
        (Status::Stopped, Some(Outcome::Died)) => ('✕', "died", Tone::Bad),
        (Status::Stopped, Some(Outcome::Interrupted)) => ('·', "interrupted", Tone::Dim),
        (Status::Stopped, None) => ('·', "stopped", Tone::Dim),
    };
    Look { glyph, word, tone }
}

/// How long a live session has been in its status. The age of a stopped session is its last activity, which
/// has its own column.
pub(crate) fn time_in_status(session: &Session, now: Timestamp) -> Option<Duration> {
    let since = session.since.filter(|_| session.status != Status::Stopped)?;
    Some(time::elapsed(now, since))
}

/// The tone of a wait becomes stronger after one minute, and again after five.
pub(crate) fn wait_tone(status: Status, duration: Duration) -> Tone {
    match (status, duration.as_secs()) {
        (Status::Waiting, 300..) => Tone::Bad,
        (Status::Waiting, 60..) => Tone::Attention,
        _ => Tone::Dim,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_shape_of_its_own() {
        let looks: Vec<char> = Status::ALL.iter().map(|status| look(*status, None).glyph).collect();
        assert_eq!(looks, ['●', '◐', '○', '·', '?']);
        assert_eq!(look(Status::Stopped, Some(Outcome::Completed)).word, "done");
        assert_eq!(look(Status::Stopped, Some(Outcome::Died)).glyph, '✕');
        assert_eq!(look(Status::Idle, Some(Outcome::Failed)).tone, Tone::Bad);
    }

    #[test]
    fn a_wait_gets_louder_at_one_and_at_five_minutes() {
        let tone = |seconds| wait_tone(Status::Waiting, Duration::from_secs(seconds));
        assert_eq!(
            [tone(59), tone(60), tone(299), tone(300)],
            [Tone::Dim, Tone::Attention, Tone::Attention, Tone::Bad]
        );
        assert_eq!(wait_tone(Status::Running, Duration::from_mins(15)), Tone::Dim);
    }

    #[test]
    fn without_colours_nothing_is_added() {
        assert_eq!(Paint::new(false).apply(Tone::Bad, "x"), "x");
        assert_eq!(Paint::new(true).apply(Tone::Plain, "x"), "x");
        assert!(Paint::new(true).apply(Tone::Bad, "x").contains("\u{1b}["));
    }
}
