//! Reads the beginning of a session file: its session, when it started, the first prompt. Pure.

use super::records::{Header, Message, Record, Said, directory_in_context};
use crate::transcript::read::{self, First, Line};

/// Reads records oldest first until the first prompt is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    pub(super) first: First,
    pub(super) session_id: Option<String>,
    pub(super) is_subagent: bool,
    /// The parent session of a sub-agent, where the record names it.
    pub(super) parent: Option<String>,
    /// The directory that the context of the session names.
    pub(super) directory: Option<String>,
}

impl read::Head for Head {
    fn line(&mut self, line: &[u8]) -> Line {
        match Record::parse(line) {
            Some(Record::Header(header)) => self.take_header(&header),
            Some(Record::Message(message)) => self.take_message(&message),
            Some(Record::Set(set)) => {
                set.messages.iter().flatten().for_each(|message| self.take_message(message));
            }
            Some(Record::RewindTo(_) | Record::Other) => {}
            None => return Line::Broken,
        }
        Line::Record
    }

    fn first(&mut self) -> &mut First {
        &mut self.first
    }

    fn is_known(&mut self) -> bool {
        self.first.prompt.is_some() && self.session_id.is_some()
    }
}

impl Head {
    fn take_header(&mut self, header: &Header<'_>) {
        if self.session_id.is_none() {
            let id = |id: Option<&str>| id.filter(|id| !id.is_empty()).map(str::to_owned);
            self.session_id = id(header.session_id.as_deref());
            self.is_subagent = header.kind.as_deref() == Some("subagent");
            self.parent = id(header.parent_session_id.as_deref()).filter(|_| self.is_subagent);
        }
        self.first.started(header.started_at());
        for message in &header.messages {
            self.take_message(message);
        }
    }

    fn take_message(&mut self, message: &Message<'_>) {
        if self.directory.is_none() {
            self.directory = directory_in_context(message);
        }
        if self.first.prompt.is_none() {
            let content = message.content();
            let is_prompt = message.said(&content) == Said::Prompt;
            self.first.asked(content.text.filter(|_| is_prompt));
        }
    }
}
