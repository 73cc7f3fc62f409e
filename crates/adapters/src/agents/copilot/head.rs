//! What the beginning of a session's events says: when it started and the first prompt. Pure.

use std::ops::ControlFlow;

use agentctl_model::text::clean_cut;
use jiff::Timestamp;

use super::records::{Record, is_certainly_bulk};

/// The first prompt stands near the beginning; a file without one is not read to its end for it.
const LINES: u32 = 60;

/// Reads events oldest first until the first prompt is known.
#[derive(Default)]
pub(super) struct Head {
    text_limit: Option<usize>,
    pub(super) started_at: Option<Timestamp>,
    pub(super) prompt: Option<String>,
    pub(super) version: Option<String>,
    /// The session whose context this one goes on with, started by the agent itself.
    pub(super) spawned_by: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) model: Option<String>,
    lines: u32,
}

impl Head {
    pub(super) fn new(text_limit: Option<usize>) -> Self {
        Self { text_limit, ..Self::default() }
    }

    pub(super) fn line(&mut self, line: &[u8]) -> ControlFlow<()> {
        self.lines += 1;
        if !is_certainly_bulk(line)
            && let Some(record) = Record::parse(line)
        {
            self.take(&record);
        }
        let known = self.prompt.is_some() && self.started_at.is_some();
        if known || self.lines >= LINES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn take(&mut self, record: &Record<'_>) {
        let data = &record.data;
        if record.kind == "session.start" && self.version.is_none() {
            let text = |value: Option<&str>| value.map(|text| clean_cut(text, Some(4096)));
            self.version = text(data.copilot_version.as_deref());
            self.spawned_by = text(data.detached_from_spawning_parent_session_id.as_deref());
            self.cwd = text(data.context.as_ref().and_then(|context| context.cwd.as_deref()));
            self.model = text(data.selected_model.as_deref());
        }
        let start = data.start_time.as_deref().and_then(|text| text.parse().ok());
        self.started_at = self.started_at.or(start).or_else(|| record.at());
        if self.prompt.is_none() {
            self.prompt = record.prompt().map(|text| clean_cut(text, self.text_limit));
        }
    }
}
