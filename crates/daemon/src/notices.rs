//! `[notify]`: a command of the user hears when a session begins to wait, fails, or whatever was asked for. Once per
//! change: the same word about the same turn is not said twice.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use agentctl_model::{Outcome, Session, Status};

use crate::commands::{Commands, about};
use crate::events::Event;
use crate::settings::Settings;

type Who = (String, String, String);

#[derive(Default)]
pub(crate) struct Notices {
    /// The words that were said of a session since it last ran.
    said: Mutex<BTreeMap<Who, Vec<String>>>,
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

    /// What is new to say of this session: its status, and how its turn ended.
    fn fresh_words(&self, session: &Session, kind: &str) -> Vec<String> {
        let who = (session.adapter.clone(), session.config_root.clone(), session.id.clone());
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if session.status == Status::Running {
            said.remove(&who);
        }
        let before = said.entry(who.clone()).or_default();
        let words = [Some(session.status.word()), session.outcome.map(Outcome::word)];
        let fresh: Vec<String> =
            words.into_iter().flatten().map(str::to_owned).filter(|word| !before.contains(word)).collect();
        // A second wait is a second notice; the outcome of one turn is said once.
        before.retain(|word| Outcome::ALL.iter().any(|outcome| outcome.word() == word));
        before.extend(fresh.iter().cloned());
        if matches!(kind, "session.stopped" | "session.gone") {
            said.remove(&who);
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(status: &str, outcome: Option<&str>) -> Session {
        serde_json::from_value(serde_json::json!({
            "id": "a", "adapter": "codex", "configRoot": "/r", "status": status, "outcome": outcome, "pending": [],
            "processes": [], "capabilities": [], "evidence": [], "meta": {}
        }))
        .unwrap()
    }

    #[test]
    fn each_change_is_said_once() {
        let notices = Notices::default();
        let say = |status: &str, outcome: Option<&str>| {
            notices.fresh_words(&session(status, outcome), &format!("session.{status}"))
        };
        assert_eq!(say("running", None), ["running"]);
        assert_eq!(say("waiting", None), ["waiting"]);
        assert_eq!(say("idle", Some("failed")), ["idle", "failed"]);
        assert_eq!(say("waiting", Some("failed")), ["waiting"], "it waits again");
        assert_eq!(say("stopped", Some("failed")), ["stopped"], "that it failed was said");
        assert!(notices.said.lock().unwrap().is_empty(), "nothing grows");
        assert_eq!(say("running", None), ["running"]);
        assert_eq!(say("stopped", Some("failed")), ["stopped", "failed"]);
    }
}
