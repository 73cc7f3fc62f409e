//! Converts rollout records into entries for `peek` and `logs`. Pure.
//!
//! Messages come from the agent's own message events. Tools come from the raw items of the model, which old
//! and new files share. So nothing is shown twice.

use agentctl_model::{Entry, Role, TurnState};

use super::records::{Payload, Record, Said, beginning};
use crate::transcript::show::At;

/// Converts one record.
pub(crate) fn entries(line: &[u8]) -> Vec<Entry> {
    if beginning(line).is_some_and(|it| it.is_bookkeeping() || (it.is_bulk() && it.kind != b"compacted")) {
        return Vec::new();
    }
    let Some(record) = Record::parse(line) else { return Vec::new() };
    entry(&record, &record.payload()).into_iter().collect()
}

fn entry(record: &Record<'_>, payload: &Payload<'_>) -> Option<Entry> {
    let at = At(record.at());
    match record.said(payload) {
        Said::Prompt(text) => Some(at.said(Role::User, &text)),
        Said::Reply(text) => Some(at.said(Role::Agent, &text)),
        // The arguments of a tool call are not a message of the agent.
        Said::Call { .. } => Some(at.called(payload.name.as_deref(), &payload.call_input())),
        Said::Output { .. } => Some(at.answered(None, false, &payload.output_text())),
        Said::TurnEnded { state: TurnState::Failed, detail, .. } => {
            Some(at.failed(detail.as_deref().unwrap_or("the turn failed")))
        }
        Said::TurnEnded { state: TurnState::Interrupted, .. } => Some(at.noted("the turn was interrupted")),
        Said::Work if record.kind == "compacted" => Some(at.noted("the context was compacted")),
        _ => None,
    }
}
