//! Messages and parts as entries for `peek` and `logs`. Pure.

use agentctl_model::text::{clean, clean_cut};
use agentctl_model::{Entry, EntryKind, Role};

use super::records::{Message, Part};

/// How much of an error is shown.
const ERROR_TEXT: usize = 2000;

/// One entry, under a name that stays the same when its record is written again.
pub(crate) struct Named {
    pub(crate) key: String,
    pub(crate) entry: Entry,
}

/// The entries of one message, oldest first. A text that still grows is shown when it is complete, or when nothing is
/// added to it any more (`settled`).
pub(crate) fn entries(
    id: &str,
    message: &Message<'_>,
    parts: &[(String, Part<'_>)],
    settled: bool,
) -> Vec<Named> {
    let mut entries: Vec<Named> = Vec::new();
    for (part_id, part) in parts {
        let at = part.time.start().or_else(|| message.time.created());
        let mut show = |suffix: &str, role, kind, text: String, tool: Option<String>| {
            let entry = Entry { at, role, kind, text, tool };
            entries.push(Named { key: format!("{part_id}{suffix}"), entry });
        };
        match part.kind.as_ref() {
            "text" => {
                let Some(words) = part.words() else { continue };
                let role = if message.is_user() { Role::User } else { Role::Agent };
                if message.is_open() && !settled && !part.time.is_ended() {
                    continue;
                }
                show("", role, EntryKind::Message, clean(words), None);
            }
            "tool" => {
                let Some(state) = &part.state else { continue };
                let tool = part.tool.as_deref().map(clean);
                let input = state.input.map_or("", |input| input.get());
                if state.status != "pending" {
                    show("", Role::Tool, EntryKind::ToolCall, clean(input), tool.clone());
                }
                match state.status.as_ref() {
                    "completed" => {
                        let output = state.output.as_deref().unwrap_or_default();
                        show("=", Role::Tool, EntryKind::ToolResult, clean(output), tool);
                    }
                    "error" => {
                        let error = state.error.as_deref().unwrap_or_default();
                        show("=", Role::Tool, EntryKind::Error, clean(error), tool);
                    }
                    _ => {}
                }
            }
            "compaction" => {
                show("", Role::System, EntryKind::Notice, "the conversation was compacted".into(), None);
            }
            _ => {}
        }
    }
    if let Some(error) = &message.error {
        let entry = Entry {
            at: message.time.latest(),
            role: Role::System,
            kind: EntryKind::Error,
            text: clean_cut(&error.words(), Some(ERROR_TEXT)),
            tool: None,
        };
        entries.push(Named { key: format!("{id}!"), entry });
    }
    entries
}
