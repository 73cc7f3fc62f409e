//! Transcript records as entries for `peek` and `logs`. Pure.

use agentctl_model::text::{clean, clean_cut};
use agentctl_model::{Entry, EntryKind, Role};
use serde_json::value::RawValue;

use super::records::{FunctionResponse, Record};

/// A tool's answer can be megabytes; nobody reads that in a peek.
const TOOL_TEXT: usize = 2000;

/// What one record shows.
pub(super) fn entries(line: &[u8]) -> Vec<Entry> {
    let Some(record) = Record::parse(line) else { return Vec::new() };
    let at = record.at();
    let make = |role, kind, text: String, tool: Option<&str>| Entry {
        at,
        role,
        kind,
        text,
        tool: tool.map(|name| clean_cut(name, Some(100))),
    };
    match record.kind.as_ref() {
        "user" => {
            let asked = record.prompt().map(|text| make(Role::User, EntryKind::Message, clean(&text), None));
            asked.into_iter().collect()
        }
        "assistant" => {
            let words = record.text().filter(|text| !text.trim().is_empty());
            let words = words.map(|text| make(Role::Agent, EntryKind::Message, clean(&text), None));
            let calls = record.message.parts.iter().filter_map(|part| part.function_call.as_ref());
            let calls = calls.map(|call| {
                let text = clean_cut(call.args.map_or("", RawValue::get), Some(TOOL_TEXT));
                make(Role::Tool, EntryKind::ToolCall, text, call.name.as_deref())
            });
            words.into_iter().chain(calls).collect()
        }
        "tool_result" => {
            let status = record.tool_call_result.status.as_deref();
            let kind = if matches!(status, Some("error")) { EntryKind::Error } else { EntryKind::ToolResult };
            let answers = record.message.parts.iter().filter_map(|part| part.function_response.as_ref());
            answers
                .map(|answer| make(Role::Tool, kind, answer_text(answer), answer.name.as_deref()))
                .collect()
        }
        "system" if record.subtype.as_deref() == Some("ui_telemetry") => {
            let event = &record.system_payload.ui_event;
            let failed = event.name.as_deref() == Some("qwen-code.api_error") && event.is_main();
            let words = event.error_message.as_deref().filter(|_| failed);
            words.map(|words| make(Role::System, EntryKind::Error, clean(words), None)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The words of a tool's answer: its `output`, its `error`, or all of it.
fn answer_text(answer: &FunctionResponse<'_>) -> String {
    let Some(response) = answer.response else { return String::new() };
    let value: serde_json::Value = serde_json::from_str(response.get()).unwrap_or_default();
    let words = ["output", "error"].iter().find_map(|key| value.get(key)?.as_str());
    clean_cut(words.unwrap_or(response.get()), Some(TOOL_TEXT))
}
