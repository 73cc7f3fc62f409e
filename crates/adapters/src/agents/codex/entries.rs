//! Rollout records as entries for `peek` and `logs`. Pure.
//!
//! Messages come from the agent's own notes of what was said, tools from the raw items of the model, which old and
//! new files share: so nothing is shown twice.

use agentctl_model::text::{clean, clean_cut};
use agentctl_model::{Entry, EntryKind, Role, TurnState};

use super::records::{Payload, Record, Said, beginning};

/// A tool's answer can be megabytes; nobody reads that in a peek.
const TOOL_TEXT: usize = 2000;

/// What one record shows.
pub(super) fn entries(line: &[u8]) -> Vec<Entry> {
    if beginning(line).is_some_and(|it| it.is_bookkeeping() || (it.is_bulk() && it.kind != b"compacted")) {
        return Vec::new();
    }
    let Some(record) = Record::parse(line) else { return Vec::new() };
    let payload = record.payload();
    entry(&record, &payload).map(|entry| Entry { at: record.at(), ..entry }).into_iter().collect()
}

fn entry(record: &Record<'_>, payload: &Payload<'_>) -> Option<Entry> {
    let make = |role, kind, text, tool| Some(Entry { at: None, role, kind, text, tool });
    match record.said(payload) {
        Said::Prompt(text) => make(Role::User, EntryKind::Message, clean(&text), None),
        Said::Reply(text) => make(Role::Agent, EntryKind::Message, clean(&text), None),
        // What a tool was told is no text of the agent.
        Said::Call { .. } => make(
            Role::Tool,
            EntryKind::ToolCall,
            clean_cut(&payload.call_input(), Some(TOOL_TEXT)),
            payload.name.as_deref().map(clean),
        ),
        Said::Output { .. } => {
            make(Role::Tool, EntryKind::ToolResult, clean_cut(&payload.output_text(), Some(TOOL_TEXT)), None)
        }
        Said::TurnEnded { state: TurnState::Failed, detail, .. } => {
            make(Role::System, EntryKind::Error, detail.unwrap_or_else(|| "the turn failed".to_owned()), None)
        }
        Said::TurnEnded { state: TurnState::Interrupted, .. } => {
            make(Role::System, EntryKind::Notice, "the turn was interrupted".to_owned(), None)
        }
        Said::Work if record.kind == "compacted" => {
            make(Role::System, EntryKind::Notice, "the context was compacted".to_owned(), None)
        }
        _ => None,
    }
}
