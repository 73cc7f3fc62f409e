//! Replays the end of a session file backwards: the turn, the last message, the model. Pure.

use std::collections::HashSet;

use agentctl_model::text::clean_cut;
use agentctl_model::{Turn, TurnState};
use jiff::Timestamp;

use super::records::{KNOWN_TYPES, Message, Record, Said, Set};
use crate::transcript::read::{self, Latest, Line};

/// The detail of a prompt that was taken back; the file does not record a more precise reason.
const ROLLED_BACK: &str = "the agent took the prompt back: an error, or it was cancelled";

/// Reads records newest first until nothing more is needed.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail {
    pub(super) latest: Latest,
    pub(super) summary: Option<String>,
    /// Whether there was any prompt or reply, even if it was taken back.
    pub(super) has_content: bool,
    /// The ids of messages whose newest form was already read.
    seen: HashSet<String>,
    /// The target of a rewind: this message and everything after it are taken back.
    rewound_to: Option<String>,
    /// The ids of a rewritten conversation with nothing after it. The records before it show whether a new
    /// process resumed the session or something was taken back.
    rewritten: Option<(HashSet<String>, Option<Timestamp>)>,
    /// The newest rewritten conversation that contains text, for a file that contains it nowhere else.
    conversation: Option<Box<Tail>>,
    /// The last message of the conversation so far, and whether an older one confirmed it.
    last: Option<Last>,
}

#[derive(Debug, Clone)]
struct Last {
    said: Said,
    at: Option<Timestamp>,
    newest: Option<Timestamp>,
    words: Option<String>,
}

impl Tail {
    /// Reads a whole document, oldest message first.
    fn take_document(&mut self, messages: &[Message<'_>]) {
        for message in messages.iter().rev() {
            self.take_message(message);
        }
        self.settle();
    }

    /// Called when the file was read to its beginning, or far enough.
    pub(super) fn finish(&mut self) {
        self.settle();
        let Some(rewritten) = self.conversation.take() else { return };
        if !self.has_content {
            self.has_content = true;
            self.latest.turn = rewritten.latest.turn;
        }
        self.latest.last_message = self.latest.last_message.take().or(rewritten.latest.last_message);
        self.latest.model = self.latest.model.take().or(rewritten.latest.model);
        self.latest.updated_at = self.latest.updated_at.max(rewritten.latest.updated_at);
    }

    /// Called when nothing older can change the result.
    fn settle(&mut self) {
        if self.latest.turn.is_none()
            && let Some(last) = self.last.take()
        {
            self.latest.turn = Some(turn(last));
        }
    }

    fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Header(header) => {
                self.latest.updated_at = self.latest.updated_at.max(header.updated_at());
                title(&mut self.summary, header.summary.as_deref());
                self.rewritten = None;
                if !header.messages.is_empty() {
                    self.take_document(&header.messages);
                }
            }
            Record::Set(set) => self.take_set(set),
            Record::RewindTo(id) => {
                self.settle();
                if self.rewound_to.is_none() {
                    self.rewound_to = Some(id.as_ref().to_owned());
                }
            }
            Record::Message(message) => self.take_message(message),
            Record::Other => {
                self.latest.drifted("a record of no known kind");
            }
        }
    }

    fn take_set(&mut self, set: &Set<'_>) {
        self.latest.updated_at = self.latest.updated_at.max(set.updated_at());
        title(&mut self.summary, set.summary.as_deref());
        if set.session_id.is_some() {
            // A process that resumes the session rewrites the whole conversation, so nothing was taken back.
            self.rewritten = None;
        }
        let Some(messages) = &set.messages else { return };
        if let Some(target) = &self.rewound_to {
            if let Some(from) = messages.iter().position(|message| *message.id == **target) {
                self.seen.extend(messages[from..].iter().map(|message| message.id.as_ref().to_owned()));
                self.rewound_to = None;
            }
            return;
        }
        if self.conversation.is_none() && self.latest.last_message.is_none() {
            let mut rewritten = Self::default();
            rewritten.latest.text_limit = self.latest.text_limit;
            rewritten.take_document(messages);
            self.conversation = rewritten.has_content.then(|| Box::new(rewritten));
        }
        if self.last.is_some() {
            self.settle();
        } else if self.latest.turn.is_none() && self.rewritten.is_none() {
            let ids = messages.iter().map(|message| message.id.as_ref().to_owned()).collect();
            self.rewritten = Some((ids, set.updated_at()));
        }
    }

    fn take_message(&mut self, message: &Message<'_>) {
        if !KNOWN_TYPES.contains(&message.kind.as_ref()) {
            self.latest.drifted(&message.kind);
        }
        self.latest.updated_at = self.latest.updated_at.max(message.last_at());
        let content = message.content();
        let said = message.said(&content);
        self.has_content |= !matches!(said, Said::Nothing | Said::Error);
        if message.kind == "gemini" {
            self.latest.used(message.model.as_deref());
        }
        if !self.seen.insert(message.id.as_ref().to_owned()) {
            return;
        }
        if let Some(target) = &self.rewound_to {
            if **target == *message.id {
                self.rewound_to = None;
            }
            return;
        }
        if self.latest.last_message.is_none() && message.kind == "gemini" {
            self.latest.said(content.text.as_deref());
        }
        if self.latest.turn.is_none() && said != Said::Nothing {
            self.take_turn(message, said, content.text.as_deref());
        } else if let (Said::Prompt, Some(turn)) = (said, &mut self.latest.turn)
            && turn.began.is_none()
        {
            turn.began = message.at();
        }
    }

    fn take_turn(&mut self, message: &Message<'_>, said: Said, text: Option<&str>) {
        if let Some((ids, at)) = self.rewritten.take()
            && !ids.contains(message.id.as_ref())
            // A reply is never taken back; its conversation was compacted.
            && said != Said::Words
        {
            let mut turn = Turn::new(TurnState::Failed, message.last_at().max(at));
            turn.began = message.at().filter(|_| said == Said::Prompt);
            turn.detail = Some(ROLLED_BACK.to_owned());
            self.latest.turn = Some(turn);
            return;
        }
        let words = message.tool_calls.last().map(super::records::ToolCall::words);
        let error = text.filter(|_| said == Said::Error).map(|text| clean_cut(text, Some(500)));
        let this = Last { said, at: message.at(), newest: message.last_at(), words: error.or(words) };
        match &self.last {
            // An old message that was written again is not the last one; the message before it in the file is
            // newer.
            Some(last) if last.at < this.at => self.last = Some(this),
            Some(_) => {
                self.settle();
                if let (Said::Prompt, Some(turn)) = (said, &mut self.latest.turn)
                    && turn.began.is_none()
                {
                    turn.began = message.at();
                }
            }
            None => self.last = Some(this),
        }
    }
}

fn turn(last: Last) -> Turn {
    let state = match last.said {
        Said::Prompt | Said::ToolAnswer | Said::Call | Said::CallsDone => TurnState::Open,
        Said::CallsRefused => TurnState::Interrupted,
        Said::Error => TurnState::Failed,
        Said::Words | Said::Nothing => TurnState::Finished,
    };
    let mut turn = Turn::new(state, last.newest);
    turn.began = last.at.filter(|_| last.said == Said::Prompt);
    turn.detail = last.words.filter(|_| state != TurnState::Interrupted);
    turn
}

/// Keeps the newest title.
fn title(slot: &mut Option<String>, value: Option<&str>) {
    if slot.is_none() {
        *slot = value.filter(|text| !text.trim().is_empty()).map(|text| clean_cut(text, Some(4096)));
    }
}

impl read::Tail for Tail {
    fn line(&mut self, line: &[u8], _: u64) -> Line {
        Line::is_record(Record::parse(line).inspect(|record| self.take(record)).is_some())
    }

    fn latest(&mut self) -> &mut Latest {
        &mut self.latest
    }
}

#[cfg(test)]
#[path = "tail_tests.rs"]
mod tests;
