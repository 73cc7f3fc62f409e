//! What a record says about the turn and when, for the timeline. Pure.

use agentctl_model::timeline::{Mark, Step};

use super::records::{Record, is_certainly_bulk};
use crate::transcript::marks::{mark, number};

pub(super) fn marks(line: &[u8]) -> Vec<Mark> {
    if is_certainly_bulk(line) {
        return Vec::new();
    }
    let Some(record) = Record::parse(line).filter(Record::is_main) else { return Vec::new() };
    step(&record).map(|step| mark(record.at(), step)).unwrap_or_default()
}

fn step(record: &Record<'_>) -> Option<Step> {
    let request = || number(record.id.as_deref());
    let is_asked = matches!(record.what.as_deref(), Some("approval" | "question"));
    Some(match (record.kind.as_ref(), record.event.kind.as_ref()) {
        ("turn.prompt", _) => Step::Began,
        ("turn.ended" | "prompt.completed" | "prompt.aborted", _) => Step::Ended,
        ("forked", _) => Step::Copied,
        ("interaction.request", _) if is_asked => Step::Asked(request()),
        ("interaction.resolved", _) => Step::Answered(request()),
        ("context.append_loop_event", "tool.result") => {
            Step::Answered(number(record.event.tool_call_id.as_deref()))
        }
        ("interaction.request" | "context.append_loop_event", _) => Step::Work,
        _ => return None,
    })
}
