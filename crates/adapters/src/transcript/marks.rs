//! The marks of a conversation: what its records say about its turns, and when. A file of JSON lines is read from its end
//! back to the turn in which the asked time begins; nothing older is read.

use std::io;
use std::ops::ControlFlow;

use agentctl_model::timeline::{Mark, Step};
use agentctl_model::{Entry, EntryKind, Role};
use jiff::Timestamp;

use crate::agents::codex::Unpacked;
use crate::search::Conversation;
use crate::transcript::jsonl::open::open_regular;
use crate::transcript::jsonl::whole::scan_regions;
use crate::transcript::jsonl::{Scan, scan_back};
use crate::transcript::read::hash_of;
use crate::{Progress, ReadError};

/// The marks that one line makes. Pure.
pub type ParseMarks = fn(&[u8]) -> Vec<Mark>;

/// The number of a request or a call with this id.
pub(crate) fn number(id: Option<&str>) -> u64 {
    hash_of(&id)
}

/// One mark, if its record has a time.
pub(crate) fn mark(at: Option<Timestamp>, step: Step) -> Vec<Mark> {
    at.map(|at| Mark { at, step }).into_iter().collect()
}

/// The marks of a conversation since then, with what is needed of the turn that was open at that moment, in the order of
/// the records.
pub fn marks(
    conversation: &Conversation<'_>,
    since: Option<Timestamp>,
    progress: &Progress,
) -> Result<Vec<Mark>, ReadError> {
    match conversation {
        Conversation::Nothing => Ok(Vec::new()),
        Conversation::Records { read, marks } => match marks {
            Some(marks) => marks(since),
            None => Ok(read(&|_| true)?.entries.iter().filter_map(|(_, entry)| of_entry(entry)).collect()),
        },
        Conversation::Lines { path, marks, compressed, .. } => {
            let failed = |error: io::Error| ReadError::new(path, error);
            let opened = match open_regular(path) {
                Ok(opened) => opened,
                // Deleted since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(failed(error)),
            };
            if *compressed {
                let unpacked = Unpacked::open(opened.file, opened.size).map_err(failed)?;
                let mut all = Vec::new();
                let take = |region: &[u8], _| {
                    for line in region.split(|byte| *byte == b'\n') {
                        all.extend(decoded(*marks, line));
                    }
                };
                scan_regions(&unpacked, take).map_err(failed)?;
                return Ok(all);
            }
            let mut newest = Newest { parse: *marks, since, progress, marks: Vec::new() };
            scan_back(&opened.file, opened.size, &mut newest).map_err(failed)?;
            newest.marks.reverse();
            Ok(newest.marks)
        }
    }
}

/// A line that is not UTF-8 is read once more, with every invalid byte replaced.
fn decoded(parse: ParseMarks, line: &[u8]) -> Vec<Mark> {
    let marks = parse(line);
    if marks.is_empty() && std::str::from_utf8(line).is_err() {
        parse(String::from_utf8_lossy(line).as_bytes())
    } else {
        marks
    }
}

/// What an entry says, where the agent records no ends of turns.
fn of_entry(entry: &Entry) -> Option<Mark> {
    let is_said = entry.role == Role::User && entry.kind == EntryKind::Message;
    let step = if is_said { Step::Said } else { Step::Work };
    entry.at.map(|at| Mark { at, step })
}

/// Collects marks, newest first, until the turn in which the time begins is there.
struct Newest<'p> {
    parse: ParseMarks,
    since: Option<Timestamp>,
    progress: &'p Progress,
    marks: Vec<Mark>,
}

impl Scan for Newest<'_> {
    fn line(&mut self, line: &[u8], _: u64) -> ControlFlow<()> {
        self.progress.tick();
        let found = decoded(self.parse, line);
        let is_enough = found.iter().any(|mark| {
            let is_edge =
                !matches!(mark.step, Step::Work | Step::Asked(_) | Step::Answered(_) | Step::Closing);
            is_edge && self.since.is_some_and(|since| mark.at < since)
        });
        self.marks.extend(found.into_iter().rev());
        if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
