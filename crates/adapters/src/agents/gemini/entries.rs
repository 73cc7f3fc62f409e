//! Converts messages into entries for `peek` and `logs`. Pure.

use std::collections::HashSet;
use std::ops::ControlFlow;

use agentctl_model::text::clean;
use agentctl_model::{Entry, EntryKind, Role};
use serde_json::value::RawValue;

use super::records::{Message, Record, Said, ToolCall};
use crate::transcript::jsonl::Scan;
use crate::transcript::jsonl::lenient::as_text;
use crate::transcript::read::Line;
use crate::transcript::show::At;

/// Converts one message, including its tools.
pub(super) fn of_message(message: &Message<'_>) -> Vec<Entry> {
    words_of(message).into_iter().chain(tools_of(message)).collect()
}

/// Converts one line for a follower. The agent rewrites a message when its tools are done; its text was shown
/// before.
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
    let at = At(message.last_at());
    let both = message.tool_calls.iter().flat_map(|call| {
        let (tool, failed) = (call.name.as_deref(), call.status.as_deref() == Some("error"));
        [at.called(tool, call.args.map_or("", RawValue::get)), at.answered(tool, failed, &answer(call))]
    });
    both.collect()
}

/// The result of the tool: as it was displayed if that is text, otherwise what the model received.
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

/// Collects the last entries, newest first. Of a message that was written twice it keeps only the last form,
/// and it drops what was rewound.
#[derive(Default)]
pub(super) struct LastEntries {
    pub(super) limit: usize,
    pub(super) entries: Vec<Entry>,
    seen: HashSet<String>,
    /// The target of a rewind: this message and everything after it are taken back.
    rewound_to: Option<String>,
    /// The newest rewritten conversation, newest message first, for a file that contains the agent's messages
    /// nowhere else.
    rewritten: Vec<(String, Vec<Entry>)>,
}

impl LastEntries {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    pub(super) fn take(&mut self, message: &Message<'_>) {
        let is_new = self.seen.insert(message.id.as_ref().to_owned());
        if self.rewound_to.is_some() {
            self.rewound_to.take_if(|target| **target == *message.id);
        } else if is_new {
            self.entries.extend(of_message(message).into_iter().rev());
        }
    }

    fn take_rewritten(&mut self, messages: &[Message<'_>]) {
        if let Some(target) = &self.rewound_to {
            if let Some(from) = messages.iter().position(|message| *message.id == **target) {
                self.seen.extend(messages[from..].iter().map(|message| message.id.as_ref().to_owned()));
                self.rewound_to = None;
            }
        } else if self.rewritten.is_empty() {
            let newest_first = messages.iter().rev();
            self.rewritten =
                newest_first.map(|message| (message.id.as_ref().to_owned(), of_message(message))).collect();
        }
    }

    fn take_record(&mut self, record: Record<'_>) {
        match record {
            Record::Message(message) => self.take(&message),
            Record::Set(set) => self.take_rewritten(set.messages.as_deref().unwrap_or_default()),
            Record::RewindTo(id) if self.rewound_to.is_none() => self.rewound_to = Some(id.into_owned()),
            _ => {}
        }
    }

    /// Returns the entries, oldest first.
    pub(super) fn finish(mut self) -> Vec<Entry> {
        if !self.entries.iter().any(|entry| entry.role == Role::Agent) {
            for (id, entries) in std::mem::take(&mut self.rewritten) {
                if self.seen.insert(id) {
                    self.entries.extend(entries.into_iter().rev());
                }
            }
        }
        self.entries.truncate(self.limit);
        self.entries.reverse();
        self.entries
    }
}

impl Scan for LastEntries {
    fn line(&mut self, line: &[u8], _: u64) -> ControlFlow<()> {
        as_text(line, |line| {
            Line::is_record(Record::parse(line).map(|record| self.take_record(record)).is_some())
        });
        if self.entries.len() >= self.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::jsonl::scan_back;

    fn shown(lines: &[&str]) -> Vec<String> {
        let bytes = lines.join("\n");
        let mut last = LastEntries::new(50);
        scan_back(bytes.as_bytes(), bytes.len() as u64, &mut last).unwrap();
        last.finish().into_iter().map(|entry| entry.text).collect()
    }

    const ASKED: &str = r#"{"id":"1","type":"user","content":"ask"}"#;
    const SAID: &str = r#"{"id":"2","type":"gemini","content":"say"}"#;

    #[test]
    fn what_was_rewound_is_not_shown() {
        let again = r#"{"id":"3","type":"user","content":"again"}"#;
        let more = r#"{"id":"4","type":"gemini","content":"more"}"#;
        assert_eq!(shown(&[ASKED, SAID, again, more, r#"{"$rewindTo":"3"}"#]), ["ask", "say"]);
        assert_eq!(shown(&[ASKED, SAID, r#"{"$rewindTo":"1"}"#, again, more]), ["again", "more"]);
    }

    #[test]
    fn a_rewrite_is_shown_where_the_words_stand_nowhere_else() {
        let rewrite = format!(r#"{{"$set":{{"messages":[{ASKED},{SAID}]}}}}"#);
        let next = r#"{"id":"3","type":"user","content":"next"}"#;
        assert_eq!(shown(&[&rewrite, next]), ["ask", "say", "next"]);
        assert_eq!(shown(&[ASKED, SAID, &rewrite, next]), ["ask", "say", "next"]);
    }
}
