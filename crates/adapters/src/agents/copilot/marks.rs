//! What an event says about the turn and when, for the timeline. Pure.

use agentctl_model::timeline::{Mark, Step};

use super::records::{ASKS_A_PERSON, Record, is_certainly_bulk};
use crate::transcript::marks::{mark, number};

pub(super) fn marks(line: &[u8]) -> Vec<Mark> {
    if is_certainly_bulk(line) {
        return Vec::new();
    }
    let Some(record) = Record::parse(line) else { return Vec::new() };
    step(&record).map(|step| mark(record.at(), step)).unwrap_or_default()
}

fn step(record: &Record<'_>) -> Option<Step> {
    let data = &record.data;
    let (call, request) = (|| number(data.tool_call_id.as_deref()), || number(data.request_id.as_deref()));
    Some(match record.kind.as_ref() {
        "session.shutdown" => Step::Stopped,
        "session.start" | "session.resume" => Step::Opened,
        "session.task_complete" | "abort" => Step::Ended,
        "session.error" => Step::Closing,
        // A sub-agent works within a turn of the main conversation.
        "assistant.turn_start" | "assistant.message" | "tool.execution_start" if !record.is_main() => {
            Step::Work
        }
        "user.message" if record.is_main() => Step::Said,
        "assistant.message" if data.tool_requests.is_empty() => Step::Closing,
        "permission.requested" if !data.resolved_by_hook => Step::Asked(request()),
        "permission.completed" => Step::Answered(request()),
        "tool.execution_start" if data.tool_name.as_deref() == Some(ASKS_A_PERSON) => Step::Asked(call()),
        "assistant.turn_start" | "assistant.message" | "tool.execution_start" => Step::Work,
        "tool.execution_complete" => Step::Answered(call()),
        _ => return None,
    })
}
