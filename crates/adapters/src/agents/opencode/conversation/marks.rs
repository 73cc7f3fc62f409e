//! What the messages of a session say about its turns and when, for the timeline.

use std::io;
use std::path::Path;

use agentctl_model::TurnState;
use agentctl_model::timeline::{Mark, Step};
use jiff::Timestamp;

use super::records::{Message, Part};
use super::session::{Conversation, RawPart};
use super::turn::turn;
use crate::agents::opencode::storage::database::{Stored, is_tree_file};
use crate::agents::opencode::storage::tree::Tree;
use crate::transcript::marks::{mark, number};
use crate::{ReadError, sqlite};

/// Larger parts are texts, which say nothing about the turn.
const LARGEST_PART: u64 = 1 << 20;
/// The tool that only asks a person. Approvals are not recorded.
const ASKS_A_PERSON: &str = "question";

/// The marks since then, and those of the turn that was open at that moment, oldest message first.
pub(crate) fn read_marks(place: &Path, id: &str, since: Option<Timestamp>) -> Result<Vec<Mark>, ReadError> {
    let failed = |error: io::Error| ReadError::new(place, error);
    if is_tree_file(place) {
        // storage/session/<project>/<id>.json
        let storage = place.ancestors().nth(3).unwrap_or(place);
        return collect(&Tree::new(storage.to_owned()), id, since).map_err(failed);
    }
    sqlite::read(place, |database| collect(&Stored(database.connection), id, since))
        .map_err(|error| failed(io::Error::other(error)))
}

fn collect<C: Conversation>(store: &C, id: &str, since: Option<Timestamp>) -> Result<Vec<Mark>, C::Error> {
    let mut messages: Vec<Vec<Mark>> = Vec::new();
    for message_id in store.newest(id, usize::MAX)? {
        let json = store.message(id, &message_id)?;
        let Some(message) = Message::parse(&json) else { continue };
        if message.is_user() {
            messages.push(mark(message.time.created(), Step::Said));
            if since.is_some_and(|since| message.time.created().is_some_and(|at| at < since)) {
                break;
            }
            continue;
        }
        let raw = store.parts(&message_id, LARGEST_PART)?;
        let parts: Vec<Part<'_>> = raw.iter().filter_map(RawPart::parse).collect();
        messages.push(of_reply(&message, &parts));
    }
    Ok(messages.into_iter().rev().flatten().collect())
}

fn of_reply(message: &Message<'_>, parts: &[Part<'_>]) -> Vec<Mark> {
    let mut marks = mark(message.time.created(), Step::Work);
    for (index, part) in parts.iter().enumerate() {
        let Some(state) = &part.state else { continue };
        let call = index as u64 ^ number(None);
        let asks = part.tool.as_deref() == Some(ASKS_A_PERSON);
        marks.extend(mark(state.time.start(), if asks { Step::Asked(call) } else { Step::Work }));
        if !state.is_at_work() {
            marks.extend(mark(state.time.latest(), Step::Answered(call)));
        }
    }
    let turn = turn(message, parts);
    let step = if turn.state == TurnState::Open { Step::Work } else { Step::Ended };
    marks.extend(mark(turn.last, step));
    marks
}
