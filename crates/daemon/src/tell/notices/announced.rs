//! Which states of a turn are new. Each is announced once: not again when the turn is retried, seems to have ended for a
//! moment, or is read again.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use agentctl_model::{EventKind, Session, Status};
use jiff::Timestamp;

type Who = (String, String, String);

/// How many sessions are remembered. A session that is forgotten is announced at most once more.
const REMEMBERED: usize = 1024;

#[derive(Default)]
pub(super) struct States {
    announced: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    sessions: BTreeMap<Who, Announced>,
    /// How many events have arrived.
    events: u64,
}

/// What has been announced about one session's turn.
#[derive(Default)]
struct Announced {
    words: Vec<String>,
    /// Since when the turn is open, by the agent's own records.
    turn: Option<Timestamp>,
    /// Since when the session has been waiting in the wait that was announced.
    wait: Option<Timestamp>,
    /// Whether the turn has ended.
    ended: bool,
    /// The session's newest record at the last event.
    newest: Option<Timestamp>,
    /// The number of the last event about the session.
    last: u64,
}

impl Announced {
    /// Forgets the announcements if this is another turn. If the agent does not record when its turn began,
    /// every change to running counts as a new turn: announcing twice is better than never.
    fn turn_to(&mut self, session: &Session) {
        let is_another = match (session.status, self.ended) {
            (Status::Running, _) => session.since.is_none() || session.since != self.turn,
            // Only the same end, seen again, is the same turn: anything the agent has written since was not
            // announced.
            (_, true) => self.newest.is_none() || self.newest != session.updated_at,
            (_, false) => false,
        };
        if is_another {
            *self = Self::default();
        }
        if session.status == Status::Running {
            self.turn = session.since;
        }
        self.ended = false;
        self.newest = session.updated_at;
    }

    /// The states that have not been announced yet: the status, and the outcome of the turn.
    fn new_states(&mut self, session: &Session) -> Vec<String> {
        self.turn_to(session);
        if session.status == Status::Waiting {
            // A second wait is announced again, unless the agent's records show that it is still the first
            // one.
            let since = session.pending.iter().filter_map(|pending| pending.since).min().or(session.since);
            if since.is_none() || since != self.wait {
                self.words.retain(|word| word != Status::Waiting.as_str());
            }
            self.wait = since;
        }
        let words = [Some(session.status.as_str()), session.outcome.map(agentctl_model::Outcome::as_str)];
        let fresh =
            words.into_iter().flatten().filter(|word| !self.words.iter().any(|announced| announced == word));
        let fresh: Vec<String> = fresh.map(str::to_owned).collect();
        self.words.extend(fresh.iter().cloned());
        fresh
    }
}

impl States {
    /// The states of this session that have not been announced yet.
    pub(super) fn new_states(&self, session: &Session, kind: EventKind) -> Vec<String> {
        let who = (session.adapter.clone(), session.config_root.clone(), session.id.clone());
        let mut memory = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        memory.events += 1;
        let events = memory.events;
        let announced = memory.sessions.entry(who.clone()).or_default();
        announced.last = events;
        let fresh = announced.new_states(session);
        match kind {
            EventKind::SessionStopped => announced.ended = true,
            EventKind::SessionGone => drop(memory.sessions.remove(&who)),
            _ => {}
        }
        memory.forget_the_oldest();
        fresh
    }
}

impl Memory {
    fn forget_the_oldest(&mut self) {
        if self.sessions.len() <= REMEMBERED {
            return;
        }
        let oldest =
            self.sessions.iter().min_by_key(|(_, announced)| announced.last).map(|(who, _)| who.clone());
        oldest.map(|who| self.sessions.remove(&who));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str, status: &str, outcome: Option<&str>) -> Session {
        serde_json::from_value(serde_json::json!({
            "id": id, "adapter": "codex", "configRoot": "/r", "status": status, "outcome": outcome, "pending": [],
            "processes": [], "capabilities": [], "evidence": [], "meta": {}
        }))
        .unwrap()
    }

    fn at(second: i64) -> Option<Timestamp> {
        Timestamp::from_second(second).ok()
    }

    fn say(notices: &States, session: &Session) -> Vec<String> {
        notices
            .new_states(session, EventKind::parse(&format!("session.{}", session.status.as_str())).unwrap())
    }

    /// An agent that records when its turn began and when it wrote last.
    fn told(notices: &States, status: &str, outcome: Option<&str>, turn: i64, newest: i64) -> Vec<String> {
        let since = at(turn).filter(|_| status == "running");
        say(notices, &Session { since, updated_at: at(newest), ..session("a", status, outcome) })
    }

    #[test]
    fn each_change_is_said_once() {
        let notices = States::default();
        let say = |status: &str, outcome: Option<&str>| say(&notices, &session("a", status, outcome));
        assert_eq!(say("running", None), ["running"]);
        assert_eq!(say("waiting", None), ["waiting"]);
        assert_eq!(say("idle", Some("failed")), ["idle", "failed"]);
        assert_eq!(say("waiting", Some("failed")), ["waiting"], "it waits again");
        assert_eq!(say("stopped", Some("failed")), ["stopped"], "that it failed was announced");
        assert_eq!(say("running", None), ["running"]);
        assert_eq!(say("stopped", Some("failed")), ["stopped", "failed"]);
    }

    #[test]
    fn one_failure_is_one_notice_however_often_it_is_tried_again() {
        let notices = States::default();
        let say =
            |status: &str, outcome: Option<&str>, turn, newest| told(&notices, status, outcome, turn, newest);
        assert_eq!(say("running", None, 100, 100), ["running"]);
        assert_eq!(say("idle", Some("failed"), 100, 101), ["idle", "failed"]);
        assert!(say("running", None, 100, 102).is_empty(), "the same turn");
        assert!(say("idle", Some("failed"), 100, 103).is_empty());
        assert_eq!(say("stopped", Some("failed"), 100, 103), ["stopped"]);
        // The same end is seen again, and then once more in the same turn.
        assert!(say("idle", Some("failed"), 100, 103).is_empty());
        assert!(say("running", None, 100, 103).is_empty());
        assert!(say("stopped", Some("failed"), 100, 103).is_empty());
        // The next turn is announced again.
        assert_eq!(say("running", None, 200, 200), ["running"]);
        assert_eq!(say("stopped", Some("failed"), 200, 201), ["stopped", "failed"]);
        // A turn began and failed between two surveys.
        assert_eq!(say("idle", Some("failed"), 300, 301), ["idle", "failed"]);
    }

    #[test]
    fn one_wait_is_one_notice_and_the_next_is_another() {
        let notices = States::default();
        let waits = |since| say(&notices, &Session { since, ..session("a", "waiting", None) });
        assert_eq!(waits(at(5)), ["waiting"]);
        told(&notices, "running", None, 1, 5);
        assert_eq!(waits(at(5)), ["waiting"], "a turn of which nothing was announced yet");
        assert!(told(&notices, "running", None, 1, 5).is_empty());
        assert!(waits(at(5)).is_empty(), "it only looked as if it went on");
        assert_eq!(waits(at(9)), ["waiting"]);
        assert_eq!(waits(None), ["waiting"], "it does not say since when");
    }

    #[test]
    fn only_so_many_are_remembered() {
        let notices = States::default();
        for number in 0..2 * REMEMBERED {
            say(&notices, &session(&number.to_string(), "stopped", Some("failed")));
        }
        assert_eq!(notices.announced.lock().unwrap().sessions.len(), REMEMBERED);
        notices.new_states(&session("2047", "stopped", Some("failed")), EventKind::SessionGone);
        assert_eq!(
            notices.announced.lock().unwrap().sessions.len(),
            REMEMBERED - 1,
            "of what is gone nothing is kept"
        );
    }
}
