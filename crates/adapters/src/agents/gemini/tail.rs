//! What the end of a session file says, replayed backwards: the turn, the last words, the model. Pure.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use agentctl_model::text::clean_cut;
use agentctl_model::{Turn, TurnState};
use jiff::Timestamp;

use super::records::{KNOWN_TYPES, Message, Record, Said, Set};
use crate::transcript::jsonl::Scan;

/// How far back the last words are looked for once everything else is known.
const WORDS_REACH: u64 = 8 << 20;

/// Why a prompt that was taken back has no better name.
const ROLLED_BACK: &str = "the agent took the prompt back: an error, or it was cancelled";

/// Reads records newest first until nothing more is wanted.
#[derive(Default)]
pub(super) struct Tail {
    text_limit: Option<usize>,
    pub(super) turn: Option<Turn>,
    pub(super) updated_at: Option<Timestamp>,
    pub(super) last_message: Option<String>,
    pub(super) model: Option<String>,
    pub(super) summary: Option<String>,
    pub(super) records: u64,
    pub(super) broken: u64,
    pub(super) drift: BTreeMap<String, u64>,
    /// Something was asked or said, whether it was taken back or not.
    pub(super) has_content: bool,
    /// The newest form of these was read already.
    seen: HashSet<String>,
    /// A rewind: everything is taken back until this message.
    rewound_to: Option<String>,
    /// A rewritten conversation with nothing said after it, by the ids in it. Whether it was taken up again by a new
    /// process or something was taken back shows in what stands before it.
    rewritten: Option<(HashSet<String>, Option<Timestamp>)>,
    /// The newest rewritten conversation that has words in it, for a file that holds them nowhere else.
    conversation: Option<Box<Tail>>,
    /// The message that is last in the conversation so far, and whether an older one confirmed it.
    last: Option<Last>,
}

struct Last {
    said: Said,
    at: Option<Timestamp>,
    newest: Option<Timestamp>,
    words: Option<String>,
}

impl Tail {
    pub(super) fn new(text_limit: Option<usize>) -> Self {
        Self { text_limit, ..Self::default() }
    }

    /// A whole document, oldest message first.
    pub(super) fn take_document(&mut self, messages: &[Message<'_>]) {
        for message in messages.iter().rev() {
            self.take_message(message);
        }
        self.settle();
    }

    /// The file was read to its beginning, or far enough.
    pub(super) fn finish(&mut self) {
        self.settle();
        let Some(rewritten) = self.conversation.take() else { return };
        if !self.has_content {
            self.has_content = true;
            self.turn = rewritten.turn;
        }
        self.last_message = self.last_message.take().or(rewritten.last_message);
        self.model = self.model.take().or(rewritten.model);
        self.updated_at = self.updated_at.max(rewritten.updated_at);
    }

    /// Nothing older can change what was read.
    pub(super) fn settle(&mut self) {
        if self.turn.is_none()
            && let Some(last) = self.last.take()
        {
            self.turn = Some(turn(last));
        }
    }

    fn take(&mut self, record: &Record<'_>) {
        self.records += 1;
        match record {
            Record::Header(header) => {
                self.updated_at = self.updated_at.max(header.updated_at());
                keep(&mut self.summary, header.summary.as_deref());
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
                *self.drift.entry("a record of no known kind".to_owned()).or_default() += 1;
            }
        }
    }

    fn take_set(&mut self, set: &Set<'_>) {
        self.updated_at = self.updated_at.max(set.updated_at());
        keep(&mut self.summary, set.summary.as_deref());
        if set.session_id.is_some() {
            // A process that takes the session up again writes the whole conversation: nothing was taken back.
            self.rewritten = None;
        }
        let Some(messages) = &set.messages else { return };
        if let Some(target) = &self.rewound_to {
            if let Some(from) = messages.iter().position(|message| message.id == *target) {
                self.seen.extend(messages[from..].iter().map(|message| message.id.as_ref().to_owned()));
                self.rewound_to = None;
            }
            return;
        }
        if self.conversation.is_none() && self.last_message.is_none() {
            let mut rewritten = Self::new(self.text_limit);
            rewritten.take_document(messages);
            self.conversation = rewritten.has_content.then(|| Box::new(rewritten));
        }
        if self.last.is_some() {
            self.settle();
        } else if self.turn.is_none() && self.rewritten.is_none() {
            let ids = messages.iter().map(|message| message.id.as_ref().to_owned()).collect();
            self.rewritten = Some((ids, set.updated_at()));
        }
    }

    fn take_message(&mut self, message: &Message<'_>) {
        if !KNOWN_TYPES.contains(&message.kind.as_ref()) {
            *self.drift.entry(clean_cut(&message.kind, Some(60))).or_default() += 1;
        }
        self.updated_at = self.updated_at.max(message.last_at());
        let content = message.content();
        let said = message.said(&content);
        self.has_content |= !matches!(said, Said::Nothing | Said::Error);
        if message.kind == "gemini" {
            keep(&mut self.model, message.model.as_deref());
        }
        if !self.seen.insert(message.id.as_ref().to_owned()) {
            return;
        }
        if let Some(target) = &self.rewound_to {
            if *target == message.id {
                self.rewound_to = None;
            }
            return;
        }
        if self.last_message.is_none() && message.kind == "gemini" {
            self.last_message = content.text.as_ref().map(|text| clean_cut(text, self.text_limit));
        }
        if self.turn.is_none() && said != Said::Nothing {
            self.take_turn(message, said, content.text.as_deref());
        } else if let (Said::Prompt, Some(turn)) = (said, &mut self.turn)
            && turn.began.is_none()
        {
            turn.began = message.at();
        }
    }

    fn take_turn(&mut self, message: &Message<'_>, said: Said, text: Option<&str>) {
        if let Some((ids, at)) = self.rewritten.take()
            && !ids.contains(message.id.as_ref())
            // A reply is not taken back: the conversation behind it was compacted.
            && said != Said::Words
        {
            let mut turn = Turn::new(TurnState::Failed, message.last_at().max(at));
            turn.began = message.at().filter(|_| said == Said::Prompt);
            turn.detail = Some(ROLLED_BACK.to_owned());
            self.turn = Some(turn);
            return;
        }
        let words = message.tool_calls.last().map(super::records::ToolCall::words);
        let error = text.filter(|_| said == Said::Error).map(|text| clean_cut(text, Some(500)));
        let this = Last { said, at: message.at(), newest: message.last_at(), words: error.or(words) };
        match &self.last {
            // An old message that was written again is not the last one: the one before it in the file is newer.
            Some(last) if last.at < this.at => self.last = Some(this),
            Some(_) => {
                self.settle();
                if let (Said::Prompt, Some(turn)) = (said, &mut self.turn)
                    && turn.began.is_none()
                {
                    turn.began = message.at();
                }
            }
            None => self.last = Some(this),
        }
    }

    fn enough(&self, distance: u64) -> bool {
        let spoken = self.last_message.is_some() && self.model.is_some();
        self.turn.is_some() && (spoken || distance > WORDS_REACH)
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

fn keep(slot: &mut Option<String>, value: Option<&str>) {
    if slot.is_none() {
        *slot = value.filter(|text| !text.trim().is_empty()).map(|text| clean_cut(text, Some(4096)));
    }
}

impl Scan for Tail {
    fn line(&mut self, line: &[u8], distance: u64) -> ControlFlow<()> {
        if let Some(record) = Record::parse(line) {
            self.take(&record);
        } else if self.records > 0 {
            self.broken += 1;
        }
        if self.enough(distance) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
#[path = "tail_tests.rs"]
mod tests;
