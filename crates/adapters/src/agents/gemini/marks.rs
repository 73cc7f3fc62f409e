//! What a message says about the turn and when, for the timeline. Pure. The agent records no request and no approval.

use agentctl_model::timeline::{Mark, Step};

use super::records::{Record, Said};
use crate::transcript::marks::mark;

pub(super) fn marks(line: &[u8]) -> Vec<Mark> {
    let Some(Record::Message(message)) = Record::parse(line) else { return Vec::new() };
    let content = message.content();
    match message.said(&content) {
        Said::Nothing => Vec::new(),
        Said::Prompt => mark(message.at(), Step::Said),
        Said::ToolAnswer | Said::Call => mark(message.at(), Step::Work),
        // Words are written again once their tools are done, and after an error it may try again.
        Said::Words | Said::Error => mark(message.at(), Step::Closing),
        Said::CallsDone => mark(message.last_at(), Step::Work),
        Said::CallsRefused => mark(message.last_at(), Step::Ended),
    }
}
