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
    pub(super) started_at: Option<Timestamp>,
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

    fn take(&mut self, record: &Record<'_>) {
        self.started_at = self.started_at.or_else(|| record.at());
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
