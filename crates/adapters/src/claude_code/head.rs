//! What the beginning of a transcript says: when it started and the first prompt. Pure.

use std::ops::ControlFlow;

use agentctl_model::text::clean_cut;
use jiff::Timestamp;

use super::records::{Record, Said, is_certainly_bulk, is_interruption, is_synthetic, said, text_of};

/// Reads records oldest first until the first prompt is known.
#[derive(Default)]
pub(super) struct Head {
    pub(super) sidechain: bool,
    pub(super) text_limit: Option<usize>,
    pub(super) started_at: Option<Timestamp>,
    pub(super) prompt: Option<String>,
    /// The first directory: for a transcript whose end names none.
    pub(super) cwd: Option<String>,
    /// The first record is a copy out of another session's transcript.
    pub(super) forked_from: Option<String>,
    lines: u32,
}

/// The first prompt stands near the beginning; a transcript without one is not read to its end for it.
const LINES: u32 = 60;

impl Head {
    pub(super) fn new(sidechain: bool, text_limit: Option<usize>) -> Self {
        Self { sidechain, text_limit, ..Self::default() }
    }

    pub(super) fn line(&mut self, line: &[u8]) -> ControlFlow<()> {
        self.lines += 1;
        if !is_certainly_bulk(line)
            && let Some(record) = Record::parse(line)
        {
            self.take(&record);
        }
        let known = self.prompt.is_some() && self.started_at.is_some() && self.cwd.is_some();
        if known || self.lines >= LINES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn take(&mut self, record: &Record<'_>) {
        self.started_at = self.started_at.or_else(|| record.at());
        if self.cwd.is_none() {
            self.cwd = record.cwd.as_deref().map(|cwd| clean_cut(cwd, None));
        }
        if self.forked_from.is_none() {
            self.forked_from = record.forked_from.and_then(|value| fork_parent(value.get()));
        }
        if self.prompt.is_some() {
            return;
        }
        let text = match record.kind.as_ref() {
            "queue-operation" if record.operation.as_deref() == Some("enqueue") => {
                record.content.and_then(text_of)
            }
            "user" if said(record, self.sidechain) == Said::Prompt => record.text(),
            _ => None,
        };
        self.prompt = text
            .filter(|text| !text.trim().is_empty() && !is_synthetic(text) && !is_interruption(text))
            .map(|text| clean_cut(&text, self.text_limit));
    }
}

/// The session a copied record names: `{"sessionId": …}` or the id itself.
fn fork_parent(value: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(value).ok()?;
    value
        .as_str()
        .or_else(|| value.get("sessionId").and_then(|id| id.as_str()))
        .map(|id| clean_cut(id, Some(200)))
}
