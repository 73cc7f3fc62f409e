//! What a record says about the turn and when, for the timeline. Pure. The agent records no request and no approval.

use agentctl_model::TurnState;
use agentctl_model::timeline::{Mark, Step};

use super::records::Record;
use super::turn;
use crate::transcript::marks::mark;

pub(crate) fn marks(line: &[u8]) -> Vec<Mark> {
    let Some(record) = Record::parse(line) else { return Vec::new() };
    let step = match turn::state(&record, false) {
        None => return Vec::new(),
        Some(_) if record.role() == "user" => Step::Said,
        // It tries again by itself, or not.
        Some(TurnState::Failed) => Step::Closing,
        Some(TurnState::Finished | TurnState::Interrupted | TurnState::Ended) => Step::Ended,
        Some(_) => Step::Work,
    };
    mark(record.at(), step)
}
