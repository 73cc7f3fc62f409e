//! Records as entries for `peek` and `logs`. Pure.

use agentctl_model::text::{clean, clean_cut};
use agentctl_model::{Entry, EntryKind, Role};
use serde_json::value::RawValue;

use super::records::{Record, is_certainly_bulk};

/// A tool's answer can be megabytes; nobody reads that in a peek.
const TOOL_TEXT: usize = 2000;

/// What one record shows.
pub(super) fn entries(line: &[u8]) -> Vec<Entry> {
    if is_certainly_bulk(line) {
        return Vec::new();
    }
    let Some(record) = Record::parse(line).filter(Record::is_main) else { return Vec::new() };
    of_record(&record).into_iter().collect()
}

fn of_record(record: &Record<'_>) -> Option<Entry> {
    let at = record.at();
    let make = |role, kind, text: String, tool: Option<&str>| {
        Some(Entry { at, role, kind, text, tool: tool.map(|name| clean_cut(name, Some(100))) })
    };
    match record.kind.as_ref() {
        "context.append_message" => make(Role::User, EntryKind::Message, clean(&record.typed()?), None),
        "context.append_loop_event" => {
            let event = &record.event;
            match event.kind.as_ref() {
                "content.part" => make(Role::Agent, EntryKind::Message, clean(record.words()?), None),
                "tool.call" => {
                    let arguments = clean_cut(event.args.map_or("", RawValue::get), Some(TOOL_TEXT));
                    make(Role::Tool, EntryKind::ToolCall, arguments, event.name.as_deref())
                }
                "tool.result" => {
                    let failed = event.result.is_error == Some(true);
                    let kind = if failed { EntryKind::Error } else { EntryKind::ToolResult };
                    let answer = event.result.output.map(answer_text).unwrap_or_default();
                    make(Role::Tool, kind, clean_cut(&answer, Some(TOOL_TEXT)), None)
                }
                _ => None,
            }
        }
        "turn.ended" => match record.reason.as_deref()? {
            "failed" | "blocked" => {
                make(Role::System, EntryKind::Error, clean(record.error().unwrap_or("the turn failed")), None)
            }
            "cancelled" => make(Role::System, EntryKind::Notice, "interrupted".to_owned(), None),
            _ => None,
        },
        _ => None,
    }
}

/// The words of an answer: a bare string, or parts of which some are text.
fn answer_text(answer: &RawValue) -> String {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(answer.get()) else { return String::new() };
    if let Some(words) = value.as_str() {
        return words.to_owned();
    }
    let parts: Vec<&str> =
        value.as_array().into_iter().flatten().filter_map(|part| part.get("text")?.as_str()).collect();
    if parts.is_empty() { answer.get().to_owned() } else { parts.join("\n") }
}
