//! What the beginning of the records says: when it started, where, and the first prompt. Pure.

use std::ops::ControlFlow;

use agentctl_model::text::clean_cut;
use jiff::Timestamp;

use super::records::{Record, is_certainly_bulk};

/// The first prompt stands near the beginning; a file without one is not read to its end for it.
const LINES: u32 = 60;

/// Reads records oldest first until the first prompt is known.
#[derive(Default)]
pub(super) struct Head {
    text_limit: Option<usize>,
    pub(super) started_at: Option<Timestamp>,
    pub(super) prompt: Option<String>,
    pub(super) cwd: Option<String>,
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
            self.started_at = self.started_at.or_else(|| record.at());
            self.cwd = self.cwd.take().or_else(|| record.cwd().map(|cwd| clean_cut(cwd, None)));
            self.prompt = record.prompt().map(|text| clean_cut(&text, self.text_limit));
        }
        let enough = self.prompt.is_some() || self.lines >= LINES;
        if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
