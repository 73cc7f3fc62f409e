//! What is shown of a conversation by `peek` and `logs`, whatever agent wrote it. Pure.

use agentctl_model::text::{clean, clean_cut};
use agentctl_model::{Entry, EntryKind, Role};
use jiff::Timestamp;

/// A tool's answer can be megabytes; nobody reads that in a peek.
const TOOL_TEXT: usize = 2000;

/// The moment of a record, of which several things may be shown.
#[derive(Clone, Copy)]
pub(crate) struct At(pub(crate) Option<Timestamp>);

impl At {
    /// What somebody said.
    pub(crate) fn said(self, role: Role, text: &str) -> Entry {
        self.entry(role, EntryKind::Message, clean(text), None)
    }

    /// A tool, and what it was called with.
    pub(crate) fn called(self, tool: Option<&str>, input: &str) -> Entry {
        self.entry(Role::Tool, EntryKind::ToolCall, clean_cut(input, Some(TOOL_TEXT)), tool)
    }

    /// What a tool answered, or why it could not.
    pub(crate) fn answered(self, tool: Option<&str>, has_failed: bool, text: &str) -> Entry {
        let kind = if has_failed { EntryKind::Error } else { EntryKind::ToolResult };
        self.entry(Role::Tool, kind, clean_cut(text, Some(TOOL_TEXT)), tool)
    }

    /// What went wrong with the turn.
    pub(crate) fn failed(self, text: &str) -> Entry {
        self.entry(Role::System, EntryKind::Error, clean(text), None)
    }

    /// What the agent did on its own account.
    pub(crate) fn noted(self, text: &str) -> Entry {
        self.entry(Role::System, EntryKind::Notice, clean(text), None)
    }

    fn entry(self, role: Role, kind: EntryKind, text: String, tool: Option<&str>) -> Entry {
        Entry { at: self.0, role, kind, text, tool: tool.map(|name| clean_cut(name, Some(100))) }
    }
}
