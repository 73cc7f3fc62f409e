//! Converts transcript records into entries for `peek` and `logs`. Pure.

use agentctl_model::{Entry, Role};
use serde_json::value::RawValue;

use super::records::{FunctionResponse, Record};
use crate::transcript::show::At;

/// Converts one record.
pub(super) fn entries(line: &[u8]) -> Vec<Entry> {
    let Some(record) = Record::parse(line) else { return Vec::new() };
    let (at, parts) = (At(record.at()), &record.message.parts);
    match record.kind.as_ref() {
        "user" => record.prompt().map(|text| at.said(Role::User, &text)).into_iter().collect(),
        "assistant" => {
            let words = record.text().filter(|text| !text.trim().is_empty());
            let words = words.map(|text| at.said(Role::Agent, &text));
            let calls = parts.iter().filter_map(|part| part.function_call.as_ref());
            let calls =
                calls.map(|call| at.called(call.name.as_deref(), call.args.map_or("", RawValue::get)));
            words.into_iter().chain(calls).collect()
        }
        "tool_result" => {
            let failed = record.tool_call_result.status.as_deref() == Some("error");
            let answers = parts.iter().filter_map(|part| part.function_response.as_ref());
            answers.map(|answer| at.answered(answer.name.as_deref(), failed, &answer_text(answer))).collect()
        }
        "system" if record.subtype.as_deref() == Some("ui_telemetry") => {
            let event = &record.system_payload.ui_event;
            let failed = event.name.as_deref() == Some("qwen-code.api_error") && event.is_main();
            let words = event.error_message.as_deref().filter(|_| failed);
            words.map(|words| at.failed(words)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The text of a tool result: its `output`, its `error`, or all of it.
fn answer_text(answer: &FunctionResponse<'_>) -> String {
    let Some(response) = answer.response else { return String::new() };
    let value: serde_json::Value = serde_json::from_str(response.get()).unwrap_or_default();
    let words = ["output", "error"].iter().find_map(|key| value.get(key)?.as_str());
    words.unwrap_or(response.get()).to_owned()
}
