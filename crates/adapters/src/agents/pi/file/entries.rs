//! Converts records into entries for `peek` and `logs`. Pure.

use agentctl_model::text::clean_cut;
use agentctl_model::{Entry, EntryKind, Role};

use super::records::{Message, Record, text_of};
use crate::transcript::show::At;

/// Converts one line.
pub(crate) fn entries(line: &[u8]) -> Vec<Entry> {
    Record::parse(line).map(|record| of_record(&record)).unwrap_or_default()
}

/// Converts one record.
pub(crate) fn of_record(record: &Record<'_>) -> Vec<Entry> {
    let at = At(record.at());
    match (record.kind.as_ref(), &record.message) {
        ("message", Some(message)) => of_message(message, at),
        ("custom_message", _) if record.display == Some(true) => {
            record.content.and_then(text_of).map(|text| at.noted(&text)).into_iter().collect()
        }
        ("compaction", _) => vec![at.noted("the conversation was compacted")],
        _ => Vec::new(),
    }
}

fn of_message(message: &Message<'_>, at: At) -> Vec<Entry> {
    let said = |role| message.text().map(|text| at.said(role, &text)).into_iter();
    match message.role.as_ref() {
        "user" => said(Role::User).collect(),
        "assistant" => {
            let blocks = message.blocks();
            let calls = blocks.iter().filter(|block| block.kind == "toolCall").map(|call| {
                at.called(call.name.as_deref(), call.arguments.map_or("", |arguments| arguments.get()))
            });
            let error = message.error_message.as_deref();
            let error = error.map(|error| at.failed(&clean_cut(error, Some(2000))));
            said(Role::Agent).chain(calls).chain(error).collect()
        }
        "toolResult" => {
            let text = message.text().unwrap_or_default();
            vec![at.answered(message.tool_name.as_deref(), message.is_error == Some(true), &text)]
        }
        // A command that the user ran: the command line and the output of the shell.
        "bashExecution" => {
            let command = message.command.as_deref().unwrap_or_default();
            let output = message.output.as_deref().unwrap_or_default();
            let (kind, tool) = (EntryKind::ToolCall, Some("bash".to_owned()));
            let asked = Entry { kind, tool, ..at.said(Role::User, command) };
            vec![asked, at.answered(Some("bash"), false, output)]
        }
        _ => Vec::new(),
    }
}
