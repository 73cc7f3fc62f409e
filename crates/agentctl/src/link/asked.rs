//! Who asked for a deed: a program, on whose behalf it was done, and in which session. The daemon makes an event of it.

use agentctl_adapters::control::LAUNCH_MARK;
use agentctl_model::event::{Action, ActionVerb};
use agentctl_model::{Error, text};
use serde_json::json;

use super::client::Ask;
use crate::surroundings::Surroundings;

/// The longest id of a session that is passed on.
const LONGEST: usize = 200;

/// A program that asks for deeds.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    via: &'static str,
    client: Option<String>,
    /// The calling session, where the environment names it.
    by: Option<String>,
}

impl Asked {
    pub(crate) fn by(via: &'static str, client: Option<&str>, surroundings: &Surroundings) -> Self {
        let marks = agentctl_adapters::registry().into_iter().flat_map(|adapter| adapter.card().id_marks);
        let named = marks.copied().chain([LAUNCH_MARK]).find_map(|mark| surroundings.environ.text(mark));
        let short = |words: &str| text::one_line(words).chars().take(LONGEST).collect();
        Self { via, client: client.map(short), by: named.map(short) }
    }

    /// The same, to be kept with a launch.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (String, String)> {
        let known =
            [("via", Some(self.via.to_owned())), ("client", self.client.clone()), ("by", self.by.clone())];
        known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)))
    }

    /// Tells the daemon what was done, or refused, to a session by its adapter and id. Without a daemon nobody listens, and
    /// nothing is lost.
    pub(crate) fn tell<T>(
        &self,
        verb: ActionVerb,
        target: Option<(&str, &str)>,
        done: &Result<T, Error>,
        surroundings: &Surroundings,
    ) {
        let Some(client) = surroundings.client() else { return };
        let error =
            done.as_ref().err().map(|error| agentctl_daemon::Problem::from(error.clone()).code.clone());
        let action = Action {
            verb,
            via: self.via.to_owned(),
            client: self.client.clone(),
            by: self.by.clone(),
            error,
        };
        let body = json!({
            "adapter": target.map(|(adapter, _)| adapter),
            "sessionId": target.map(|(_, id)| id),
            "action": action,
        });
        let _ = client.ask(Ask::write("POST", "/v1/actions", &body.to_string()));
    }
}
