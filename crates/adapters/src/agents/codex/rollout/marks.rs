//! What a record says about the turn and when, for the timeline. Pure. The agent records no request and no approval.

use agentctl_model::timeline::{Mark, Step};

use super::records::{Record, Said, beginning};
use crate::transcript::marks::{mark, number};

pub(crate) fn marks(line: &[u8]) -> Vec<Mark> {
    let whole = line.last() == Some(&b'}');
    if let Some(beginning) = beginning(line).filter(|beginning| whole && beginning.is_bulk()) {
        return mark(beginning.time(), Step::Work);
    }
    let Some(record) = Record::parse(line) else { return Vec::new() };
    let step = match record.said(&record.payload()) {
        Said::TurnBegan => Step::Began,
        Said::TurnEnded { .. } => Step::Ended,
        Said::Prompt(_) => Step::Said,
        Said::Reply(_) | Said::Call { .. } | Said::Work => Step::Work,
        Said::Output { id } => Step::Answered(number(id.as_deref())),
        // A total may be written outside turns, and a context when a thread is opened.
        Said::Total { .. } | Said::Context { .. } | Said::Nothing | Said::Unknown(_) => return Vec::new(),
    };
    mark(record.at(), step)
}
