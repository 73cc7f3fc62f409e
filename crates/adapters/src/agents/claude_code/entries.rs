//! Transcript records as entries for `peek` and `logs`. Pure.

use agentctl_model::text::{clean, clean_cut};
use agentctl_model::{Entry, EntryKind, Role};

use super::records::{Block, Record, is_synthetic, text_of};

/// A tool's answer can be megabytes; nobody reads that in a peek.
const TOOL_TEXT: usize = 2000;

/// What one record shows. Works for main conversations and for sub-agents' own files.
pub(super) fn entries(line: &[u8]) -> Vec<Entry> {
    let Some(record) = Record::parse(line) else { return Vec::new() };
    if record.is_meta || record.is_compact_summary || record.is_filler() {
        return Vec::new();
    }
    let at = record.at();
    let role = match record.kind.as_ref() {
        "user" => Role::User,
        "assistant" => Role::Agent,
        _ => return Vec::new(),
    };
    record
        .blocks()
        .iter()
        .filter_map(|block| entry(&record, block, role))
        .map(|entry| Entry { at, ..entry })
        .collect()
}

fn entry(record: &Record<'_>, block: &Block<'_>, role: Role) -> Option<Entry> {
    let make = |role, kind, text, tool| Some(Entry { at: None, role, kind, text, tool });
    match block.kind.as_ref() {
        "text" => {
            let text = block.text.as_deref().filter(|text| !text.trim().is_empty())?;
            if role == Role::User && is_synthetic(text) {
                return None;
            }
            let kind = if record.is_api_error_message { EntryKind::Error } else { EntryKind::Message };
            make(role, kind, clean(text), None)
        }
        "tool_use" => {
            let input = block.input.map_or("", |input| input.get());
            make(
                Role::Tool,
                EntryKind::ToolCall,
                clean_cut(input, Some(TOOL_TEXT)),
                block.name.as_deref().map(clean),
            )
        }
        "tool_result" => {
            let text = block.content.and_then(text_of).unwrap_or_default();
            let kind = if block.is_error == Some(true) { EntryKind::Error } else { EntryKind::ToolResult };
            make(Role::Tool, kind, clean_cut(&text, Some(TOOL_TEXT)), None)
        }
        _ => None,
    }
}
