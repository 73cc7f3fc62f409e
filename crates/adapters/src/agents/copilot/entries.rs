//! Events as entries for `peek` and `logs`. Pure.

use agentctl_model::text::{clean, clean_cut};
use agentctl_model::{Entry, EntryKind, Role};
use serde_json::value::RawValue;

use super::records::{Record, is_certainly_bulk};

/// A tool's answer can be megabytes; nobody reads that in a peek.
const TOOL_TEXT: usize = 2000;

/// What one event shows.
pub(super) fn entries(line: &[u8]) -> Vec<Entry> {
    if is_certainly_bulk(line) {
        return Vec::new();
    }
    let Some(record) = Record::parse(line).filter(Record::is_main) else { return Vec::new() };
    let at = record.at();
    let make = |role, kind, text: String, tool: Option<&str>| Entry {
        at,
        role,
        kind,
        text,
        tool: tool.map(|name| clean_cut(name, Some(100))),
    };
    let data = &record.data;
    match record.kind.as_ref() {
        "user.message" => record
            .prompt()
            .map(|text| make(Role::User, EntryKind::Message, clean(text), None))
            .into_iter()
            .collect(),
        "assistant.message" => {
            let words = record.words().map(|text| make(Role::Agent, EntryKind::Message, clean(text), None));
            let calls = data.tool_requests.iter().map(|call| {
                let arguments = call.arguments.map_or("", RawValue::get);
                let text = clean_cut(arguments, Some(TOOL_TEXT));
                make(Role::Tool, EntryKind::ToolCall, text, call.name.as_deref())
            });
            words.into_iter().chain(calls).collect()
        }
        "tool.execution_complete" => {
            let failed = data.success == Some(false);
            let answer = if failed { data.error.or(data.result) } else { data.result };
            let text = answer.map(answer_text).unwrap_or_default();
            let kind = if failed { EntryKind::Error } else { EntryKind::ToolResult };
            vec![make(Role::Tool, kind, clean_cut(&text, Some(TOOL_TEXT)), data.tool_name.as_deref())]
        }
        "session.error" => {
            let text = clean(data.message.as_deref().unwrap_or("error"));
            vec![make(Role::System, EntryKind::Error, text, None)]
        }
        "abort" => {
            let why = data.reason.as_deref().unwrap_or("no reason given");
            let text = clean_cut(&format!("interrupted ({why})"), Some(200));
            vec![make(Role::System, EntryKind::Notice, text, None)]
        }
        _ => Vec::new(),
    }
}

/// The words of an answer: `{"content": …}`, `{"message": …}` or a bare string.
fn answer_text(answer: &RawValue) -> String {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(answer.get()) else { return String::new() };
    let words =
        value.as_str().or_else(|| value.get("content")?.as_str()).or_else(|| value.get("message")?.as_str());
    words.map_or_else(|| answer.get().to_owned(), str::to_owned)
}
