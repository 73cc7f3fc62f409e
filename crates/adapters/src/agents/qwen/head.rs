//! What the beginning of a transcript says: when it started, the first prompt, where it came from. Pure.

use std::ops::ControlFlow;

use agentctl_model::text::clean_cut;
use agentctl_model::{Parent, Relation};
use jiff::Timestamp;

use super::records::Record;

/// The first prompt stands near the beginning; a transcript without one is not read to its end for it.
const LINES: u32 = 60;

/// Reads records oldest first until the first prompt is known.
#[derive(Default)]
pub(super) struct Head {
    text_limit: Option<usize>,
    /// When its own first record was written.
    started_at: Option<Timestamp>,
    /// When the first record was written that was copied out of the session it was forked from.
    copied_at: Option<Timestamp>,
    pub(super) prompt: Option<String>,
    pub(super) parent: Option<Parent>,
    lines: u32,
}

impl Head {
    pub(super) fn new(text_limit: Option<usize>) -> Self {
        Self { text_limit, ..Self::default() }
    }

    pub(super) fn line(&mut self, line: &[u8]) -> ControlFlow<()> {
        self.lines += 1;
        if let Some(record) = Record::parse(line) {
            self.take(&record);
        }
        let known = self.prompt.is_some() && self.started_at.is_some();
        if known || self.lines >= LINES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// A fork begins where its copies end; one that did nothing itself began with them.
    pub(super) fn started_at(&self) -> Option<Timestamp> {
        self.started_at.or(self.copied_at)
    }

    fn take(&mut self, record: &Record<'_>) {
        if record.forked_from.is_some() {
            // Copies are as many as the other session has records: they do not count as looked at in vain.
            self.lines = self.lines.saturating_sub(1);
            self.copied_at = self.copied_at.or_else(|| record.at());
        } else {
            self.started_at = self.started_at.or_else(|| record.at());
        }
        if self.parent.is_none() {
            let made = |id: &str, relation| Parent { id: clean_cut(id, Some(200)), relation };
            let forked = record.forked_from.as_ref().and_then(|from| from.session_id.as_deref());
            let spawned = record.system_payload.parent_session_id.as_deref();
            self.parent = forked
                .map(|id| made(id, Relation::Fork))
                .or_else(|| spawned.map(|id| made(id, Relation::Subagent)));
        }
        if self.prompt.is_none() {
            self.prompt = record.prompt().map(|text| clean_cut(&text, self.text_limit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_begins_where_its_copies_end() {
        let copy = br#"{"type":"user","forkedFrom":{"sessionId":"s"},"timestamp":"2026-11-15T06:00:00Z","message":{"parts":[{"text":"first"}]}}"#;
        let own =
            br#"{"type":"user","timestamp":"2026-11-15T07:00:00Z","message":{"parts":[{"text":"second"}]}}"#;
        let mut head = Head::new(None);
        for _ in 0..2 * LINES {
            assert!(head.line(copy).is_continue());
        }
        assert_eq!(head.started_at(), "2026-11-15T06:00:00Z".parse().ok(), "nothing of its own so far");
        assert!(head.line(own).is_break());
        assert_eq!(head.started_at(), "2026-11-15T07:00:00Z".parse().ok());
    }
}
