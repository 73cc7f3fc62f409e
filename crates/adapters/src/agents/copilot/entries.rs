//! Converts events into entries for `peek` and `logs`. Pure.

use agentctl_model::text::clean_cut;
use agentctl_model::{Entry, Role};
use serde_json::value::RawValue;

use super::records::{Record, is_certainly_bulk};
use crate::transcript::show::At;

/// Converts one event.
pub(super) fn entries(line: &[u8]) -> Vec<Entry> {
    if is_certainly_bulk(line) {
        return Vec::new();
    }
    let Some(record) = Record::parse(line).filter(Record::is_main) else { return Vec::new() };
    let (at, data) = (At(record.at()), &record.data);
    match record.kind.as_ref() {
        "user.message" => record.prompt().map(|text| at.said(Role::User, text)).into_iter().collect(),
        "assistant.message" => {
            let words = record.words().map(|text| at.said(Role::Agent, text));
            let calls = data
                .tool_requests
                .iter()
                .map(|call| at.called(call.name.as_deref(), call.arguments.map_or("", RawValue::get)));
            words.into_iter().chain(calls).collect()
        }
        "tool.execution_complete" => {
            let failed = data.success == Some(false);
            let answer = if failed { data.error.or(data.result) } else { data.result };
            let text = answer.map(answer_text).unwrap_or_default();
            vec![at.answered(data.tool_name.as_deref(), failed, &text)]
        }
        "session.error" => vec![at.failed(data.message.as_deref().unwrap_or("error"))],
        "abort" => {
            let why = data.reason.as_deref().unwrap_or("no reason given");
            vec![at.noted(&clean_cut(&format!("interrupted ({why})"), Some(200)))]
        }
        _ => Vec::new(),
    }
}

/// The text of a tool result: `{"content": …}`, `{"message": …}` or a bare string.
fn answer_text(answer: &RawValue) -> String {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(answer.get()) else { return String::new() };
    let words =
        value.as_str().or_else(|| value.get("content")?.as_str()).or_else(|| value.get("message")?.as_str());
    words.map_or_else(|| answer.get().to_owned(), str::to_owned)
}
