//! Reads the beginning of the records: when the session started, its directory, and the first prompt. Pure.

use agentctl_model::text::clean_cut;

use super::records::{Record, is_certainly_bulk};
use crate::transcript::read::{self, First, Line};

/// Reads records oldest first until the first prompt is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    pub(super) first: First,
    pub(super) cwd: Option<String>,
}

impl read::Head for Head {
    fn line(&mut self, line: &[u8]) -> Line {
        if is_certainly_bulk(line) {
            return Line::Record;
        }
        let Some(record) = Record::parse(line) else { return Line::Broken };
        self.first.started(record.at());
        self.cwd = self.cwd.take().or_else(|| record.cwd().map(|cwd| clean_cut(cwd, None)));
        self.first.asked(record.prompt());
        Line::Record
    }

    fn first(&mut self) -> &mut First {
        &mut self.first
    }

    fn is_known(&mut self) -> bool {
        self.first.prompt.is_some()
    }
}
