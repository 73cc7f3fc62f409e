//! Reads the beginning of a session's events: when it started and the first prompt. Pure.

use agentctl_model::text::clean_cut;

use super::records::{Record, is_certainly_bulk};
use crate::transcript::read::{self, First, Line};

/// Reads events oldest first until the first prompt is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    pub(super) first: First,
    pub(super) version: Option<String>,
    /// The session whose context this one continues; the agent itself started this one.
    pub(super) spawned_by: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) model: Option<String>,
}

impl read::Head for Head {
    fn line(&mut self, line: &[u8]) -> Line {
        if is_certainly_bulk(line) {
            return Line::Record;
        }
        Line::is_record(Record::parse(line).inspect(|record| self.take(record)).is_some())
    }

    fn first(&mut self) -> &mut First {
        &mut self.first
    }
}

impl Head {
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
        self.first.started(start.or_else(|| record.at()));
        self.first.asked(record.prompt());
    }
}
