//! Whether an agent works on a message that it took in the middle of a turn.
//!
//! Codex and OpenCode take a message in the very moment in which a turn ends: it is then in their records, and nobody
//! works on it until the next message comes.

use std::time::{Duration, Instant};

use agentctl_model::{Entry, EntryKind, Error, Role, Status, Surveyed};

use crate::Fleet;

/// How long the end of the turn is waited for. A turn that goes on for longer has taken the message up.
const LONGEST: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);
/// A message in mid-turn is among the newest entries.
const NEWEST: usize = 50;

impl Fleet {
    /// Looks, for a message that was taken while a turn was open, whether that turn ended without it.
    pub(super) fn is_worked_on(&self, target: &Surveyed, words: &str) -> Result<(), Error> {
        if target.session.status == Status::Idle {
            return Ok(());
        }
        let until = Instant::now() + LONGEST;
        let mut was_idle = false;
        loop {
            // What is read must not be older than the end of the turn.
            let is_idle = self.again(target).is_some_and(|now| now.session.status == Status::Idle);
            match after(&self.read(target, NEWEST).unwrap_or_default(), words) {
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
    let message = format!("{adapter} recorded the message as its turn ended, and does not work on it");
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
