//! Entries of a conversation as the updates of the protocol. Pure.

use std::collections::VecDeque;

use agentctl_model::{Entry, EntryKind, Role, text};
use serde_json::{Value, json};

/// How much of a tool call stands in its title.
const TITLE: usize = 120;
/// How many tool calls may wait for their results.
const MOST_CALLS: usize = 1_000;

/// Turns the entries of one session into updates, in order.
#[derive(Default)]
pub(super) struct Teller {
    numbered: u64,
    /// Calls whose results have not come: the tool and the id under which the call was told.
    calls: VecDeque<(Option<String>, String)>,
    /// What the editor itself said, and shows already.
    said_here: VecDeque<String>,
}

impl Teller {
    /// The editor said this, so it is not told back.
    pub(super) fn said_here(&mut self, words: &str) {
        self.said_here.push_back(words.trim().to_owned());
    }

    pub(super) fn update(&mut self, entry: &Entry) -> Option<Value> {
        let words = text::clean(&entry.text);
        match entry.kind {
            EntryKind::Message => match entry.role {
                Role::User => {
                    let known = self.said_here.iter().position(|said| *said == entry.text.trim());
                    if let Some(known) = known {
                        self.said_here.remove(known);
                        return None;
                    }
                    Some(chunk("user_message_chunk", &words))
                }
                Role::Agent => Some(chunk("agent_message_chunk", &words)),
                Role::Tool | Role::System => Some(chunk("agent_thought_chunk", &words)),
            },
            EntryKind::ToolCall => Some(self.call(entry, &words)),
            EntryKind::ToolResult => Some(self.result(entry, &words)),
            EntryKind::Error => Some(chunk("agent_message_chunk", &format!("error: {words}"))),
            EntryKind::Notice => Some(chunk("agent_thought_chunk", &words)),
        }
    }

    fn new_id(&mut self) -> String {
        self.numbered += 1;
        format!("entry-{}", self.numbered)
    }

    fn call(&mut self, entry: &Entry, words: &str) -> Value {
        let id = self.new_id();
        self.calls.push_back((entry.tool.clone(), id.clone()));
        if self.calls.len() > MOST_CALLS {
            self.calls.pop_front();
        }
        json!({
            "sessionUpdate": "tool_call", "toolCallId": id, "title": title(entry, words), "kind": "other",
            "status": "in_progress", "content": content(words),
        })
    }

    /// A result belongs to the oldest open call of its tool.
    fn result(&mut self, entry: &Entry, words: &str) -> Value {
        let fits = |call: &(Option<String>, String)| entry.tool.is_none() || call.0 == entry.tool;
        let place = self.calls.iter().position(fits);
        match place.and_then(|place| self.calls.remove(place)) {
            Some((_, id)) => json!({
                "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed", "content": content(words),
            }),
            None => json!({
                "sessionUpdate": "tool_call", "toolCallId": self.new_id(), "title": title(entry, words), "kind": "other",
                "status": "completed", "content": content(words),
            }),
        }
    }
}

fn title(entry: &Entry, words: &str) -> String {
    let tool = entry.tool.as_deref().unwrap_or("tool");
    let line = text::one_line(&format!("{tool} {words}"));
    line.chars().take(TITLE).collect()
}

fn content(words: &str) -> Value {
    json!([{"type": "content", "content": {"type": "text", "text": words}}])
}

pub(super) fn chunk(kind: &str, words: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": words}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(role: Role, kind: EntryKind, text: &str, tool: Option<&str>) -> Entry {
        Entry { at: None, role, kind, text: text.to_owned(), tool: tool.map(str::to_owned) }
    }

    #[test]
    fn results_find_their_calls_and_our_own_words_are_not_told_back() {
        let mut teller = Teller::default();
        teller.said_here(" do it\n");
        let told: Vec<Value> = [
            entry(Role::User, EntryKind::Message, "do it", None),
            entry(Role::User, EntryKind::Message, "do it", None),
            entry(Role::Agent, EntryKind::ToolCall, "{\"a\":1}", Some("Bash")),
            entry(Role::Agent, EntryKind::ToolCall, "{}", Some("Read")),
            entry(Role::Tool, EntryKind::ToolResult, "text", Some("Read")),
            entry(Role::Tool, EntryKind::ToolResult, "ok", None),
            entry(Role::Tool, EntryKind::ToolResult, "lost", None),
            entry(Role::Agent, EntryKind::Message, "done\u{1b}[2J", None),
        ]
        .iter()
        .filter_map(|entry| teller.update(entry))
        .collect();
        let kinds: Vec<&str> = told.iter().filter_map(|update| update["sessionUpdate"].as_str()).collect();
        assert_eq!(
            kinds,
            [
                "user_message_chunk",
                "tool_call",
                "tool_call",
                "tool_call_update",
                "tool_call_update",
                "tool_call",
                "agent_message_chunk"
            ]
        );
        assert_eq!(told[3]["toolCallId"], told[2]["toolCallId"]);
        assert_eq!(told[4]["toolCallId"], told[1]["toolCallId"]);
        assert_eq!(told[5]["status"], "completed");
        assert_eq!(told[6]["content"]["text"], "done[2J");
    }
}
