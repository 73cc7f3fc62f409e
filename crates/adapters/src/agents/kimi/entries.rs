//! Converts records into entries for `peek` and `logs`. Pure.

use agentctl_model::{Entry, Role};
use serde_json::value::RawValue;

use super::records::{Record, is_certainly_bulk};
use crate::transcript::show::At;

/// Converts one record.
pub(super) fn entries(line: &[u8]) -> Vec<Entry> {
    if is_certainly_bulk(line) {
        return Vec::new();
    }
    let Some(record) = Record::parse(line).filter(Record::is_main) else { return Vec::new() };
    of_record(&record).into_iter().collect()
}

fn of_record(record: &Record<'_>) -> Option<Entry> {
    let (at, event) = (At(record.at()), &record.event);
    match (record.kind.as_ref(), event.kind.as_ref()) {
        ("context.append_message", _) => Some(at.said(Role::User, &record.typed()?)),
        ("context.append_loop_event", "content.part") => Some(at.said(Role::Agent, record.words()?)),
        ("context.append_loop_event", "tool.call") => {
            Some(at.called(event.name.as_deref(), event.args.map_or("", RawValue::get)))
        }
        ("context.append_loop_event", "tool.result") => {
            let answer = event.result.output.map(answer_text).unwrap_or_default();
            Some(at.answered(None, event.result.is_error == Some(true), &answer))
        }
        ("turn.ended", _) => match record.reason.as_deref()? {
            "failed" | "blocked" => Some(at.failed(record.error().unwrap_or("the turn failed"))),
            "cancelled" => Some(at.noted("interrupted")),
            _ => None,
        },
        _ => None,
    }
}

/// The text of a tool result: a bare string, or the text parts of a list.
fn answer_text(answer: &RawValue) -> String {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(answer.get()) else { return String::new() };
    if let Some(words) = value.as_str() {
        return words.to_owned();
    }
    let parts: Vec<&str> =
        value.as_array().into_iter().flatten().filter_map(|part| part.get("text")?.as_str()).collect();
    if parts.is_empty() { answer.get().to_owned() } else { parts.join("\n") }
}
