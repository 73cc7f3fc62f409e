//! Records as entries for `peek` and `logs`. Pure.

use agentctl_model::text::{clean, clean_cut};
use agentctl_model::{Entry, EntryKind, Role};

use super::records::{Message, Record, text_of};

/// A tool's answer can be megabytes; nobody reads that in a peek.
const TOOL_TEXT: usize = 2000;

/// What one line shows.
pub(super) fn entries(line: &[u8]) -> Vec<Entry> {
    Record::parse(line).map(|record| of_record(&record)).unwrap_or_default()
}

/// What one record shows.
pub(super) fn of_record(record: &Record<'_>) -> Vec<Entry> {
    let entry = |role, kind, text: String, tool| Entry { at: record.at(), role, kind, text, tool };
    match (record.kind.as_ref(), &record.message) {
        ("message", Some(message)) => of_message(message, &entry),
        ("custom_message", _) if record.display == Some(true) => {
            let text = record.content.and_then(text_of);
            text.map(|text| entry(Role::System, EntryKind::Notice, clean(&text), None)).into_iter().collect()
        }
        ("compaction", _) => {
            vec![entry(Role::System, EntryKind::Notice, "the conversation was compacted".to_owned(), None)]
        }
        _ => Vec::new(),
    }
}

fn of_message(
    message: &Message<'_>,
    entry: &dyn Fn(Role, EntryKind, String, Option<String>) -> Entry,
) -> Vec<Entry> {
    let said = |role| {
        let text = message.text();
        text.map(|text| entry(role, EntryKind::Message, clean(&text), None)).into_iter().collect::<Vec<_>>()
    };
    match message.role.as_ref() {
        "user" => said(Role::User),
        "assistant" => {
            let mut all = said(Role::Agent);
            for call in message.blocks().iter().filter(|block| block.kind == "toolCall") {
                let input = call.arguments.map_or("", |arguments| arguments.get());
                let tool = call.name.as_deref().map(clean);
                all.push(entry(Role::Tool, EntryKind::ToolCall, clean_cut(input, Some(TOOL_TEXT)), tool));
            }
            if let Some(error) = message.error_message.as_deref() {
                all.push(entry(Role::System, EntryKind::Error, clean_cut(error, Some(TOOL_TEXT)), None));
            }
            all
        }
        "toolResult" => {
            let kind = if message.is_error == Some(true) { EntryKind::Error } else { EntryKind::ToolResult };
            let text = clean_cut(&message.text().unwrap_or_default(), Some(TOOL_TEXT));
            vec![entry(Role::Tool, kind, text, message.tool_name.as_deref().map(clean))]
        }
        // The user's own command: his words, and what the shell said.
        "bashExecution" => {
            let command = message.command.as_deref().unwrap_or_default();
            let output = clean_cut(message.output.as_deref().unwrap_or_default(), Some(TOOL_TEXT));
            let tool = Some("bash".to_owned());
            vec![
                entry(Role::User, EntryKind::ToolCall, clean(command), tool.clone()),
                entry(Role::Tool, EntryKind::ToolResult, output, tool),
            ]
        }
        _ => Vec::new(),
    }
}
