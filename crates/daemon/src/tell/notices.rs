//! `[notify]`: a command of the user hears when a session begins to wait, fails, or whatever was asked for. One need is
//! told once: what was said of a turn is not said again when the turn is tried again, looks for a moment as if it had ended,
//! or is looked at anew.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use agentctl_model::{Session, Status};
use jiff::Timestamp;

use crate::settings::Settings;
use crate::tell::commands::{Commands, about};
use crate::tell::events::Event;

type Who = (String, String, String);

/// Of how many sessions is remembered what was said. Whoever is forgotten is told of once more at most.
const REMEMBERED: usize = 1024;

#[derive(Default)]
pub(crate) struct Notices {
    said: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    sessions: BTreeMap<Who, Said>,
    /// How many events were heard.
    heard: u64,
}

/// What was said of one session's turn.
#[derive(Default)]
struct Said {
    words: Vec<String>,
    /// Since when the turn is open, by the agent's own records.
    turn: Option<Timestamp>,
    /// Since when it waits for what was told.
    wait: Option<Timestamp>,
    /// It has ended.
    ended: bool,
    /// Its newest record, as it was told last.
    newest: Option<Timestamp>,
    /// The number of the last event about it.
    last: u64,
}

impl Said {
    /// Forgets what was said if this is about another turn. Where the agent does not say since when its turn is open, every
    /// run is a new one: rather twice than never.
    fn turn_to(&mut self, session: &Session) {
        let is_another = match (session.status, self.ended) {
            (Status::Running, _) => session.since.is_none() || session.since != self.turn,
            // Only its own end, seen again, is the same: whatever it wrote since then was not told.
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

    /// What is new to say: its status, and how its turn ended.
    fn fresh_words(&mut self, session: &Session) -> Vec<String> {
        self.turn_to(session);
        if session.status == Status::Waiting {
            // A second wait is a second notice, unless the agent says that it is the first one still.
            let since = session.pending.iter().filter_map(|pending| pending.since).min().or(session.since);
            if since.is_none() || since != self.wait {
                self.words.retain(|word| word != Status::Waiting.as_str());
            }
            self.wait = since;
        }
        let words = [Some(session.status.as_str()), session.outcome.map(agentctl_model::Outcome::as_str)];
        let fresh = words.into_iter().flatten().filter(|word| !self.words.iter().any(|said| said == word));
        let fresh: Vec<String> = fresh.map(str::to_owned).collect();
        self.words.extend(fresh.iter().cloned());
        fresh
    }
}

impl Notices {
    pub(crate) fn told(&self, event: &Event, settings: &dyn Settings, commands: &Commands) {
        // A start is followed by a status, and the exit of a launch by the end of its session.
        let is_change = event.kind.starts_with("session.") && event.kind != "session.started";
        let Some(session) = event.session.as_deref().filter(|_| is_change) else { return };
        for word in self.fresh_words(session, &event.kind) {
            let wanted = settings.notify().filter(|notify| notify.on.contains(&word));
            if let Some(notify) = wanted {
                let mut variables = about(Some(session));
                variables.push(("AGENTCTL_EVENT", event.kind.clone()));
                let what = format!("notify {word} of {}", session.id);
                commands.run(&what, &notify.command, session.cwd.as_deref().map(AsRef::as_ref), variables);
            }
        }
    }

    /// What is new to say of this session.
    fn fresh_words(&self, session: &Session, kind: &str) -> Vec<String> {
        let who = (session.adapter.clone(), session.config_root.clone(), session.id.clone());
        let mut memory = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        memory.heard += 1;
        let heard = memory.heard;
        let said = memory.sessions.entry(who.clone()).or_default();
        said.last = heard;
        let fresh = said.fresh_words(session);
        match kind {
            "session.stopped" => said.ended = true,
            "session.gone" => drop(memory.sessions.remove(&who)),
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
        let oldest = self.sessions.iter().min_by_key(|(_, said)| said.last).map(|(who, _)| who.clone());
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

    fn say(notices: &Notices, session: &Session) -> Vec<String> {
        notices.fresh_words(session, &format!("session.{}", session.status.as_str()))
    }

    /// As an agent tells it that says since when its turn is open, and when it wrote last.
    fn told(notices: &Notices, status: &str, outcome: Option<&str>, turn: i64, newest: i64) -> Vec<String> {
        let since = at(turn).filter(|_| status == "running");
        say(notices, &Session { since, updated_at: at(newest), ..session("a", status, outcome) })
    }

    #[test]
    fn each_change_is_said_once() {
        let notices = Notices::default();
        let say = |status: &str, outcome: Option<&str>| say(&notices, &session("a", status, outcome));
        assert_eq!(say("running", None), ["running"]);
        assert_eq!(say("waiting", None), ["waiting"]);
        assert_eq!(say("idle", Some("failed")), ["idle", "failed"]);
        assert_eq!(say("waiting", Some("failed")), ["waiting"], "it waits again");
        assert_eq!(say("stopped", Some("failed")), ["stopped"], "that it failed was said");
        assert_eq!(say("running", None), ["running"]);
        assert_eq!(say("stopped", Some("failed")), ["stopped", "failed"]);
    }

    #[test]
    fn one_failure_is_one_notice_however_often_it_is_tried_again() {
        let notices = Notices::default();
        let say =
            |status: &str, outcome: Option<&str>, turn, newest| told(&notices, status, outcome, turn, newest);
        assert_eq!(say("running", None, 100, 100), ["running"]);
        assert_eq!(say("idle", Some("failed"), 100, 101), ["idle", "failed"]);
        assert!(say("running", None, 100, 102).is_empty(), "the same turn");
        assert!(say("idle", Some("failed"), 100, 103).is_empty());
        assert_eq!(say("stopped", Some("failed"), 100, 103), ["stopped"]);
        // Seen again as it was, and once more in the same turn.
        assert!(say("idle", Some("failed"), 100, 103).is_empty());
        assert!(say("running", None, 100, 103).is_empty());
        assert!(say("stopped", Some("failed"), 100, 103).is_empty());
        // The next turn is another need.
        assert_eq!(say("running", None, 200, 200), ["running"]);
        assert_eq!(say("stopped", Some("failed"), 200, 201), ["stopped", "failed"]);
        // One that began and failed between two looks.
        assert_eq!(say("idle", Some("failed"), 300, 301), ["idle", "failed"]);
    }

    #[test]
    fn one_wait_is_one_notice_and_the_next_is_another() {
        let notices = Notices::default();
        let waits = |since| say(&notices, &Session { since, ..session("a", "waiting", None) });
        assert_eq!(waits(at(5)), ["waiting"]);
        told(&notices, "running", None, 1, 5);
        assert_eq!(waits(at(5)), ["waiting"], "a turn of which nothing was said yet");
        assert!(told(&notices, "running", None, 1, 5).is_empty());
        assert!(waits(at(5)).is_empty(), "it only looked as if it went on");
        assert_eq!(waits(at(9)), ["waiting"]);
        assert_eq!(waits(None), ["waiting"], "it does not say since when");
    }

    #[test]
    fn only_so_many_are_remembered() {
        let notices = Notices::default();
        for number in 0..2 * REMEMBERED {
            say(&notices, &session(&number.to_string(), "stopped", Some("failed")));
        }
        assert_eq!(notices.said.lock().unwrap().sessions.len(), REMEMBERED);
        notices.fresh_words(&session("2047", "stopped", Some("failed")), "session.gone");
        assert_eq!(
            notices.said.lock().unwrap().sessions.len(),
            REMEMBERED - 1,
            "of what is gone nothing is kept"
        );
    }
}
