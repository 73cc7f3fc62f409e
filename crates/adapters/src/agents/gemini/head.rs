//! What the beginning of a session file says: whose it is, when it started, the first prompt. Pure.

use std::ops::ControlFlow;

use agentctl_model::text::clean_cut;
use jiff::Timestamp;

use super::records::{Header, Message, Record, Said, directory_in_context};

/// The first prompt stands near the beginning; a file without one is not read to its end for it.
const LINES: u32 = 60;

/// Reads records oldest first until the first prompt is known.
#[derive(Default)]
pub(super) struct Head {
    text_limit: Option<usize>,
    pub(super) session_id: Option<String>,
    pub(super) is_subagent: bool,
    pub(super) started_at: Option<Timestamp>,
    pub(super) prompt: Option<String>,
    /// Named in the context of the session.
    pub(super) directory: Option<String>,
    lines: u32,
}

impl Head {
    pub(super) fn new(text_limit: Option<usize>) -> Self {
        Self { text_limit, ..Self::default() }
    }

    pub(super) fn line(&mut self, line: &[u8]) -> ControlFlow<()> {
        self.lines += 1;
        match Record::parse(line) {
            Some(Record::Header(header)) => self.take_header(&header),
            Some(Record::Message(message)) => self.take_message(&message),
            Some(Record::Set(set)) => {
                set.messages.iter().flatten().for_each(|message| self.take_message(message));
            }
            Some(Record::RewindTo(_) | Record::Other) | None => {}
        }
        let known = self.prompt.is_some() && self.session_id.is_some();
        if known || self.lines >= LINES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    pub(super) fn take_header(&mut self, header: &Header<'_>) {
        if self.session_id.is_none() {
            let id = header.session_id.as_deref().filter(|id| !id.is_empty());
            self.session_id = id.map(str::to_owned);
            self.is_subagent = header.kind.as_deref() == Some("subagent");
        }
        self.started_at = self.started_at.or_else(|| header.started_at());
        for message in &header.messages {
            self.take_message(message);
        }
    }

    fn take_message(&mut self, message: &Message<'_>) {
        if self.directory.is_none() {
            self.directory = directory_in_context(message);
        }
        if self.prompt.is_none() {
            let content = message.content();
            if message.said(&content) == Said::Prompt {
                self.prompt = content.text.map(|text| clean_cut(&text, self.text_limit));
            }
        }
    }
}
