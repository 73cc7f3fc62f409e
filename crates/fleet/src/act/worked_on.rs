//! Whether an agent works on a message that it took.
//!
//! Codex and OpenCode take a message in the very moment in which a turn ends, and OpenCode just after a first turn was
//! interrupted: it is then in their records, and nobody works on it until the next message comes.

use std::time::{Duration, Instant};

use agentctl_model::{Entry, EntryKind, Error, Role, Status, Surveyed};

use crate::Fleet;

/// How long the end of a turn that was open is waited for, and the beginning of one where none was. A turn that goes on
/// for longer has taken the message up.
const LONGEST_END: Duration = Duration::from_secs(1);
const LONGEST_BEGINNING: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);
/// The message is among the newest entries.
const NEWEST: usize = 50;

impl Fleet {
    /// Looks whether the message was taken up: in a turn that was open, or in one that it began.
    pub(super) fn is_worked_on(&self, target: &Surveyed, words: &str) -> Result<(), Error> {
        if target.session.status == Status::Idle {
            self.has_begun(target, words)
        } else {
            self.has_not_ended_without(target, words)
        }
    }

    fn has_begun(&self, target: &Surveyed, words: &str) -> Result<(), Error> {
        let until = Instant::now() + LONGEST_BEGINNING;
        loop {
            let is_idle = self.again(target).is_some_and(|now| now.session.status == Status::Idle);
            let is_left = is_idle && self.answered(target, words) == Some(false);
            if !is_left {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(left(&target.key.adapter, &target.key.id));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn has_not_ended_without(&self, target: &Surveyed, words: &str) -> Result<(), Error> {
        let until = Instant::now() + LONGEST_END;
        let mut was_idle = false;
        loop {
            // What is read must not be older than the end of the turn.
            let is_idle = self.again(target).is_some_and(|now| now.session.status == Status::Idle);
            match self.answered(target, words) {
                Some(true) => return Ok(()),
                // Between two turns a session may be idle for a moment.
                Some(false) if is_idle && was_idle => return Err(left(&target.key.adapter, &target.key.id)),
                _ if Instant::now() >= until => return Ok(()),
                _ => {}
            }
            was_idle = is_idle;
            std::thread::sleep(PAUSE);
        }
    }

    fn answered(&self, target: &Surveyed, words: &str) -> Option<bool> {
        after(&self.read(target, NEWEST).unwrap_or_default(), words)
    }
}

/// Whether the agent said or did anything after these words of a person; `None` if they are not there.
fn after(entries: &[Entry], words: &str) -> Option<bool> {
    let is_it = |entry: &Entry| {
        entry.role == Role::User && entry.kind == EntryKind::Message && entry.text.trim() == words.trim()
    };
    let at = entries.iter().rposition(is_it)?;
    Some(entries[at..].iter().any(|entry| entry.role != Role::User))
}

fn left(adapter: &str, id: &str) -> Error {
    let message = format!("{adapter} recorded the message and does not work on it");
    Error::no_answer(message)
        .hint(format!("the model reads it with the next message: `agentctl send {id} \"go on\"`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(role: Role, text: &str) -> Entry {
        Entry { at: None, role, kind: EntryKind::Message, text: text.to_owned(), tool: None }
    }

    #[test]
    fn a_message_is_worked_on_when_the_agent_goes_on_after_it() {
        let (user, agent) = (|text| entry(Role::User, text), |text| entry(Role::Agent, text));
        let entries = [user("one"), agent("done"), user("two ")];
        assert_eq!(after(&entries, "one"), Some(true));
        assert_eq!(after(&entries, "two"), Some(false));
        assert_eq!(after(&entries, "three"), None);
        // The last of several is meant.
        let again = [user("one"), agent("done"), user("one")];
        assert_eq!(after(&again, "one"), Some(false));
    }
}
