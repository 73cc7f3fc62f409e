//! Reads the beginning of a transcript: when it started, the first prompt, its origin. Pure.

use agentctl_model::text::clean_cut;
use agentctl_model::{Parent, Relation};

use super::records::Record;
use crate::transcript::read::{self, First, Line};

/// Reads records oldest first until the first prompt is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    /// The session started when its own first record was written.
    pub(super) first: First,
    pub(super) parent: Option<Parent>,
}

impl read::Head for Head {
    fn line(&mut self, line: &[u8]) -> Line {
        let Some(record) = Record::parse(line) else { return Line::Broken };
        self.take(&record);
        if record.forked_from.is_some() { Line::Copy } else { Line::Record }
    }

    fn first(&mut self) -> &mut First {
        &mut self.first
    }
}

impl Head {
    fn take(&mut self, record: &Record<'_>) {
        self.first.started_after_copies(record.forked_from.is_some(), record.at());
        if self.parent.is_none() {
            let made = |id: &str, relation| Parent { id: clean_cut(id, Some(200)), relation };
            let forked = record.forked_from.as_ref().and_then(|from| from.session_id.as_deref());
            let spawned = record.system_payload.parent_session_id.as_deref();
            self.parent = forked
                .map(|id| made(id, Relation::Fork))
                .or_else(|| spawned.map(|id| made(id, Relation::Subagent)));
        }
        if self.first.prompt.is_none() {
            self.first.asked(record.prompt());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::read::Head as _;

    #[test]
    fn a_fork_begins_where_its_copies_end() {
        let copy = br#"{"type":"user","forkedFrom":{"sessionId":"s"},"timestamp":"2026-11-15T06:00:00Z","message":{"parts":[{"text":"first"}]}}"#;
        let own =
            br#"{"type":"user","timestamp":"2026-11-15T07:00:00Z","message":{"parts":[{"text":"second"}]}}"#;
        let mut head = Head::default();
        assert_eq!((head.line(copy), head.is_known()), (Line::Copy, false), "nothing of its own so far");
        assert_eq!(head.first.start(), "2026-11-15T06:00:00Z".parse().ok());
        assert_eq!((head.line(own), head.is_known()), (Line::Record, true));
        assert_eq!(head.first.start(), "2026-11-15T07:00:00Z".parse().ok());
    }
}
