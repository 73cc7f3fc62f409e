//! What `peek` and `logs` show of a conversation, for every agent. Pure.

use agentctl_model::text::{clean, clean_cut};
use agentctl_model::{Entry, EntryKind, Role};
use jiff::Timestamp;

/// A tool's answer can be megabytes, which nobody reads in a peek.
const TOOL_TEXT: usize = 2000;

/// Cuts what tools were given and answered; nothing else is cut. Who searches reads it whole.
pub(crate) fn shortened(mut entries: Vec<Entry>) -> Vec<Entry> {
    for entry in entries.iter_mut().filter(|entry| entry.role == Role::Tool && entry.text.len() > TOOL_TEXT) {
        entry.text = clean_cut(&entry.text, Some(TOOL_TEXT));
    }
    entries
}

/// The time of a record, which may produce several entries.
#[derive(Clone, Copy)]
pub(crate) struct At(pub(crate) Option<Timestamp>);

impl At {
    /// A message.
    pub(crate) fn said(self, role: Role, text: &str) -> Entry {
        self.entry(role, EntryKind::Message, clean(text), None)
    }

    /// A tool call and its input.
    pub(crate) fn called(self, tool: Option<&str>, input: &str) -> Entry {
        self.entry(Role::Tool, EntryKind::ToolCall, clean(input), tool)
    }

    /// The answer of a tool, or the reason why the tool failed.
    pub(crate) fn answered(self, tool: Option<&str>, has_failed: bool, text: &str) -> Entry {
        let kind = if has_failed { EntryKind::Error } else { EntryKind::ToolResult };
        self.entry(Role::Tool, kind, clean(text), tool)
    }

    /// An error in the turn.
    pub(crate) fn failed(self, text: &str) -> Entry {
        self.entry(Role::System, EntryKind::Error, clean(text), None)
    }

    /// Something the agent did by itself.
    pub(crate) fn noted(self, text: &str) -> Entry {
        self.entry(Role::System, EntryKind::Notice, clean(text), None)
    }

    fn entry(self, role: Role, kind: EntryKind, text: String, tool: Option<&str>) -> Entry {
        Entry { at: self.0, role, kind, text, tool: tool.map(|name| clean_cut(name, Some(100))) }
    }
}
