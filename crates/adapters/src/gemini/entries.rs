//! Messages as entries for `peek` and `logs`. Pure.

use std::collections::HashSet;
use std::ops::ControlFlow;

use agentctl_model::text::{clean, clean_cut};
use agentctl_model::{Entry, EntryKind, Role};
use serde_json::value::RawValue;

use super::records::{Message, Record, Said, ToolCall};
use crate::jsonl::Scan;

/// A tool's answer can be megabytes; nobody reads that in a peek.
const TOOL_TEXT: usize = 2000;

/// Everything one message shows, tools included.
pub(super) fn of_message(message: &Message<'_>) -> Vec<Entry> {
    words_of(message).into_iter().chain(tools_of(message)).collect()
}

/// What one line shows to a follower. A message is written again when its tools are done: its words were shown before.
pub(super) fn of_line(line: &[u8]) -> Vec<Entry> {
    match Record::parse(line) {
        Some(Record::Message(message)) if message.tool_calls.is_empty() => {
            words_of(&message).into_iter().collect()
        }
        Some(Record::Message(message)) => tools_of(&message),
        _ => Vec::new(),
    }
}

fn words_of(message: &Message<'_>) -> Option<Entry> {
    let content = message.content();
    let said = message.said(&content);
    let (role, kind) = match message.kind.as_ref() {
        "user" if said == Said::Prompt => (Role::User, EntryKind::Message),
        "gemini" => (Role::Agent, EntryKind::Message),
        "error" => (Role::System, EntryKind::Error),
        "info" | "warning" => (Role::System, EntryKind::Notice),
        _ => return None,
    };
    let text = content.text?;
    Some(Entry { at: message.at(), role, kind, text: clean(&text), tool: None })
}

fn tools_of(message: &Message<'_>) -> Vec<Entry> {
    let at = message.last_at();
    let both = message.tool_calls.iter().flat_map(|call| {
        let tool = call.name.as_deref().map(|name| clean_cut(name, Some(100)));
        let make = |kind, text: &str| {
            let text = clean_cut(text, Some(TOOL_TEXT));
            Entry { at, role: Role::Tool, kind, text, tool: tool.clone() }
        };
        let asked = make(EntryKind::ToolCall, call.args.map_or("", RawValue::get));
        let failed = call.status.as_deref() == Some("error");
        let kind = if failed { EntryKind::Error } else { EntryKind::ToolResult };
        [asked, make(kind, &answer(call))]
    });
    both.collect()
}

/// What the tool answered: as it was shown if that is text, else what the model got.
fn answer(call: &ToolCall<'_>) -> String {
    let shown = call.result_display.and_then(|shown| serde_json::from_str::<String>(shown.get()).ok());
    if let Some(shown) = shown {
        return shown;
    }
    let result: serde_json::Value =
        call.result.and_then(|result| serde_json::from_str(result.get()).ok()).unwrap_or_default();
    let response = &result[0]["functionResponse"]["response"];
    let words = ["output", "error"].iter().find_map(|key| response[*key].as_str());
    words.map_or_else(|| call.status.as_deref().unwrap_or_default().to_owned(), str::to_owned)
}

/// Collects the last entries, newest first: of a message that was written twice only the last form.
pub(super) struct LastEntries {
    pub(super) limit: usize,
    pub(super) entries: Vec<Entry>,
    seen: HashSet<String>,
}

impl LastEntries {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, entries: Vec::new(), seen: HashSet::new() }
    }

    pub(super) fn take(&mut self, message: &Message<'_>) {
        if self.seen.insert(message.id.as_ref().to_owned()) {
            self.entries.extend(of_message(message).into_iter().rev());
        }
    }

    /// Oldest first.
    pub(super) fn finish(mut self) -> Vec<Entry> {
        self.entries.truncate(self.limit);
        self.entries.reverse();
        self.entries
    }
}

impl Scan for LastEntries {
    fn line(&mut self, line: &[u8], _: u64) -> ControlFlow<()> {
        if let Some(Record::Message(message)) = Record::parse(line) {
            self.take(&message);
        }
        if self.entries.len() >= self.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
