//! Converts transcript records into entries for `peek` and `logs`. Pure.

use agentctl_model::{Entry, EntryKind, Role};

use super::records::{Block, Record, is_synthetic, text_of};
use crate::transcript::show::At;

/// Converts one record. This works for main conversations and for the files of sub-agents.
pub(super) fn entries(line: &[u8]) -> Vec<Entry> {
    let Some(record) = Record::parse(line) else { return Vec::new() };
    if record.is_meta || record.is_compact_summary || record.is_filler() {
        return Vec::new();
    }
    let role = match record.kind.as_ref() {
        "user" => Role::User,
        "assistant" => Role::Agent,
        _ => return Vec::new(),
    };
    record.blocks().iter().filter_map(|block| entry(&record, block, role)).collect()
}

fn entry(record: &Record<'_>, block: &Block<'_>, role: Role) -> Option<Entry> {
    let at = At(record.at());
    match block.kind.as_ref() {
        "text" => {
            let text = block.text.as_deref().filter(|text| !text.trim().is_empty())?;
            if role == Role::User && is_synthetic(text) {
                return None;
            }
            let kind = if record.is_api_error_message { EntryKind::Error } else { EntryKind::Message };
            Some(Entry { kind, ..at.said(role, text) })
        }
        "tool_use" => Some(at.called(block.name.as_deref(), block.input.map_or("", |input| input.get()))),
        "tool_result" => {
            let text = block.content.and_then(text_of).unwrap_or_default();
            Some(at.answered(None, block.is_error == Some(true), &text))
        }
        _ => None,
    }
}
