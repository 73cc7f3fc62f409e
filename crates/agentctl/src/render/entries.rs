//! A conversation for reading: who said what, with each tool call on one line.

use agentctl_model::{Entry, EntryKind, Role, text};
use jiff::tz::TimeZone;

use super::style::{Paint, Tone};
use super::time;
use super::width::{cut_end, wrap};

/// The layout of the entries.
pub(crate) struct Page<'a> {
    pub(crate) zone: &'a TimeZone,
    pub(crate) paint: Paint,
    /// Longer lines are broken; `None` leaves that to the reader's program.
    pub(crate) width: Option<usize>,
    /// The day that was shown last: a new day gets its own line.
    pub(crate) day: Option<String>,
}

const CLOCK: usize = 10;
const WHO: usize = 7;
/// The length of a tool line when no terminal limits the width.
const FOLDED: usize = 160;

impl Page<'_> {
    pub(crate) fn lines(&mut self, entry: &Entry) -> Vec<String> {
        let mut lines = Vec::new();
        let today = entry.at.map(|at| time::day(at, self.zone));
        if today.is_some() && today != self.day {
            lines.extend(today.as_deref().map(|day| self.paint.dim(day)));
            self.day = today;
        }
        let clock = entry.at.map(|at| time::clock(at, self.zone)).unwrap_or_default();
        let (who, tone) = speaker(entry);
        let margin = format!(
            "{}{}",
            self.paint.dim(&format!("{clock:CLOCK$}")),
            self.paint.apply(tone, &format!("{who:WHO$}"))
        );
        for (index, line) in self.body(entry).into_iter().enumerate() {
            let start = if index == 0 { margin.clone() } else { " ".repeat(CLOCK + WHO) };
            lines.push(format!("{start}{line}").trim_end().to_owned());
        }
        lines
    }

    fn body(&self, entry: &Entry) -> Vec<String> {
        let room = self.width.map_or(FOLDED, |width| width.saturating_sub(CLOCK + WHO).max(20));
        let folded = |mark: &str| {
            let said = text::one_line(&entry.text);
            let tool = entry.tool.as_deref().map(text::one_line).filter(|tool| !tool.is_empty());
            let whole = match tool {
                Some(tool) if said.is_empty() => format!("{mark} {tool}"),
                Some(tool) => format!("{mark} {tool}: {said}"),
                None => format!("{mark} {said}"),
            };
            vec![self.paint.dim(&cut_end(&whole, room))]
        };
        match entry.kind {
            EntryKind::ToolCall => folded("→"),
            EntryKind::ToolResult => folded("←"),
            EntryKind::Message | EntryKind::Error | EntryKind::Notice => {
                let said = text::clean(&entry.text);
                let lines = if self.width.is_some() {
                    wrap(said.trim(), room)
                } else {
                    said.trim().lines().map(str::to_owned).collect()
                };
                let tone = match entry.kind {
                    EntryKind::Error => Tone::Bad,
                    EntryKind::Notice => Tone::Dim,
                    _ => Tone::Plain,
                };
                if lines.is_empty() {
                    return vec![self.paint.dim("(nothing)")];
                }
                lines.iter().map(|line| self.paint.apply(tone, line)).collect()
            }
        }
    }
}

fn speaker(entry: &Entry) -> (&'static str, Tone) {
    match (entry.kind, entry.role) {
        (EntryKind::Error, _) => ("error", Tone::Bad),
        (_, Role::User) => ("user", Tone::Strong),
        (_, Role::Agent) => ("agent", Tone::Good),
        (_, Role::Tool) => ("tool", Tone::Dim),
        (_, Role::System) => ("system", Tone::Dim),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: EntryKind, role: Role, text: &str) -> Entry {
        let at = Some("2026-11-15T07:00:12Z".parse().unwrap());
        Entry { at, role, kind, text: text.into(), tool: Some("Bash".into()) }
    }

    fn page(width: Option<usize>) -> Page<'static> {
        static UTC: TimeZone = TimeZone::UTC;
        Page { zone: &UTC, paint: Paint::new(false), width, day: None }
    }

    #[test]
    fn tools_are_one_line_and_messages_keep_theirs() {
        let mut page = page(Some(40));
        let lines = page.lines(&entry(EntryKind::ToolCall, Role::Agent, "for i in 1 2 3\ndo echo $i; done"));
        assert_eq!(lines, ["2026-11-15", "07:00:12  agent  → Bash: for i in 1 2 3…"]);
        let lines =
            page.lines(&entry(EntryKind::Message, Role::User, "first line of it\nsecond and longer line"));
        assert_eq!(lines, ["07:00:12  user   first line of it", "                 second and longer line"]);
    }

    #[test]
    fn hostile_text_cannot_reach_the_terminal() {
        for kind in [EntryKind::Message, EntryKind::ToolCall, EntryKind::ToolResult, EntryKind::Error] {
            for line in page(None).lines(&entry(kind, Role::Agent, "a\u{1b}]0;title\u{7}\r\u{9b}2J\u{202e}b"))
            {
                assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
            }
        }
    }
}
