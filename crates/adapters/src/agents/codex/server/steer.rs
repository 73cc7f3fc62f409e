//! Sends messages to a thread that an app-server owns, answers its pending requests, and interrupts its turn.
//!
//! The server obeys every client, and sends its unanswered requests to every client that joins a thread. No
//! action here counts as done before the server has confirmed it.

use std::io;
use std::path::Path;
use std::time::Duration;

use agentctl_model::Error;
use agentctl_model::text::{clean_cut, one_line};
use serde_json::{Value, json};

use super::Server;
use super::requests::{self, Asked, CHANGE, COMMAND, ELICITATION, PERMISSIONS, QUESTION};
use crate::Answer;
use crate::control::{LiveSession, ReasonLeft};
use crate::hold::{Acceptance, Decision};

/// Long enough for a machine under load; it covers the whole exchange, not one answer.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(20);
/// A turn may end between two requests about it.
const TRIES: usize = 3;

/// One thread of one server.
pub(crate) struct Steered<'t> {
    server: Server,
    thread: &'t str,
}

/// The state of a thread as the server reports it.
enum State {
    Idle,
    Active {
        waits: bool,
    },
    /// Nobody was connected to it for a while, or another process has it.
    Unloaded,
}

impl<'t> Steered<'t> {
    pub(crate) fn reach(socket: &Path, thread: &'t str) -> Result<Self, Error> {
        let server = Server::connect(socket, EXCHANGE_TIMEOUT).map_err(|error| {
            Error::no_answer(format!("the app-server at {} did not answer: {error}", socket.display()))
        })?;
        Ok(Self { server, thread })
    }

    /// Returns whether a turn was open.
    fn break_off(&mut self) -> Result<bool, Error> {
        let mut refused = String::new();
        for _ in 0..TRIES {
            // The server never answers a request about a turn that is over, so only an open turn is
            // interrupted.
            match self.state()? {
                State::Active { .. } => {}
                State::Idle => return Ok(false),
                State::Unloaded => return Err(self.let_go()),
            }
            let Some(turn) = self.open_turn()? else { return Ok(false) };
            let interrupt = json!({"threadId": self.thread, "turnId": turn});
            match self.call("turn/interrupt", &interrupt)? {
                Ok(_) => return Ok(true),
                Err(words) => refused = words,
            }
        }
        Err(said("turn/interrupt", &refused))
    }

    fn state(&mut self) -> Result<State, Error> {
        let question = json!({"threadId": self.thread, "includeTurns": false});
        let read = self.call("thread/read", &question)?.map_err(|words| said("thread/read", &words))?;
        let status = &read["thread"]["status"];
        match status["type"].as_str() {
            Some("active") => {
                let flags = status["activeFlags"].as_array();
                Ok(State::Active { waits: flags.is_some_and(|flags| !flags.is_empty()) })
            }
            Some("idle" | "systemError") => Ok(State::Idle),
            Some("notLoaded") => Ok(State::Unloaded),
            _ => Err(self.let_go()),
        }
    }

    fn let_go(&self) -> Error {
        Error::refused(format!("the app-server has let go of {}", self.thread))
    }

    /// Loads the thread again. The server refuses one that another process has taken.
    fn load(&mut self) -> Result<(), Error> {
        let join = json!({"threadId": self.thread, "excludeTurns": true});
        self.call("thread/resume", &join)?.map(drop).map_err(|words| said("thread/resume", &words))
    }

    fn open_turn(&mut self) -> Result<Option<String>, Error> {
        let question = json!({"threadId": self.thread, "limit": 1});
        let turns = self.call("thread/turns/list", &question)?;
        let turns = turns.map_err(|words| said("thread/turns/list", &words))?;
        let last = &turns["data"][0];
        Ok(last["id"].as_str().filter(|_| last["status"] == "inProgress").map(str::to_owned))
    }

    /// Adds words to an open turn. Returns whether it took them.
    fn add(&mut self, turn: Option<&str>, words: &str) -> Result<bool, Error> {
        let Some(turn) = turn else { return Ok(false) };
        let input = json!([{"type": "text", "text": words}]);
        let steer = json!({"threadId": self.thread, "expectedTurnId": turn, "input": input});
        Ok(self.call("turn/steer", &steer)?.is_ok())
    }

    /// The result of a request, or the server's own error message.
    fn call(&mut self, method: &str, params: &Value) -> Result<Result<Value, String>, Error> {
        self.server.ask(method, params).map_err(|error| self.silent(&error))
    }

    fn receive_until(&mut self, wanted: impl Fn(&Value) -> bool) -> Result<Value, Error> {
        loop {
            let message = self.server.receive().map_err(|error| silent(self.thread, &error))?;
            if wanted(&message) {
                return Ok(message);
            }
        }
    }

    fn silent(&self, error: &io::Error) -> Error {
        silent(self.thread, error)
    }
}

impl LiveSession for Steered<'_> {
    /// A running turn takes up the message; an idle thread begins a new turn with it.
    fn send(&mut self, words: &str) -> Result<Acceptance, Error> {
        let input = json!([{"type": "text", "text": words}]);
        let state = self.state()?;
        if let State::Unloaded = state {
            self.load()?;
        }
        if let State::Active { .. } = state {
            let turn = self.open_turn()?;
            if self.add(turn.as_deref(), words)? {
                return Ok(Acceptance::Now);
            }
            // The turn ended in between or cannot be added to; otherwise the next request returns the reason.
        }
        let start = json!({"threadId": self.thread, "input": input});
        self.call("turn/start", &start)?.map_err(|words| said("turn/start", &words))?;
        Ok(Acceptance::Now)
    }

    /// Interrupts the turn and ends the commands that it left running.
    fn interrupt(&mut self) -> Result<Acceptance, Error> {
        let was_open = self.break_off()?;
        // Servers that do not know this request end their commands by themselves.
        let clean = json!({"threadId": self.thread});
        let _ = self.call("thread/backgroundTerminals/clean", &clean)?;
        // Those that do not know this one have no queue.
        let queue = self.call("thread/queue/list", &clean)?.unwrap_or_default();
        let still_queued = queue["data"].as_array().map_or(0, Vec::len);
        Ok(Acceptance::Interrupted { was_open, still_queued })
    }

    /// Without the id of a request, the first one that waits is answered.
    fn answer(&mut self, answer: &Answer) -> Result<ReasonLeft, Error> {
        if !matches!(self.state()?, State::Active { waits: true }) {
            return Err(Error::refused(format!("{} waits for nothing", self.thread)));
        }
        let waiting = requests::join(&mut self.server, self.thread).map_err(|error| self.silent(&error))?;
        let waiting = waiting.map_err(|words| said("thread/resume", &words))?;
        let is_meant = |asked: &&Asked| answer.request.as_ref().is_none_or(|request| asked.id() == *request);
        let asked = waiting.iter().find(is_meant).ok_or_else(|| {
            let named = answer.request.as_deref().unwrap_or("anything");
            Error::refused(format!("{} does not wait for an answer to {named} any more", self.thread))
        })?;
        let reply = reply(asked, answer)?;
        // A reason that came after the answer could come as the turn ends, and nobody would read it then. While the
        // request waits, the open turn takes it up.
        let reason = reason_of(&answer.decision);
        let left = match &reason {
            None => ReasonLeft::Nothing,
            Some(reason) if self.add(asked.params()["turnId"].as_str(), reason)? => ReasonLeft::Sent,
            Some(reason) => ReasonLeft::Unsent(reason.clone()),
        };
        let number = &asked.message["id"];
        self.server.reply(number, &reply).map_err(|error| self.silent(&error))?;
        self.receive_until(|message| {
            message["method"] == "serverRequest/resolved" && message["params"]["requestId"] == *number
        })?;
        Ok(left)
    }
}

fn reason_of(decision: &Decision) -> Option<String> {
    match decision {
        Decision::Deny { reason } => reason.clone(),
        Decision::AllowOnce | Decision::AllowAlways | Decision::Text(_) => None,
    }
}

pub(super) fn silent(thread: &str, error: &io::Error) -> Error {
    Error::no_answer(format!("the app-server stopped talking about {thread}: {error}"))
}

pub(super) fn said(method: &str, words: &str) -> Error {
    let words = clean_cut(&one_line(words), Some(300));
    Error::refused(format!("the app-server refused {method}: {words}"))
}

/// The reply to one of the server's requests. Pure.
fn reply(asked: &Asked, answer: &Answer) -> Result<Value, Error> {
    let params = asked.params();
    let id = params["threadId"].as_str().unwrap_or("ID");
    match (asked.method(), &answer.decision) {
        (COMMAND | CHANGE, Decision::AllowOnce) => Ok(json!({"decision": "accept"})),
        // Kept in the memory of the thread. The rule that the server suggests would be written into its settings.
        (COMMAND | CHANGE, Decision::AllowAlways) => Ok(json!({"decision": "acceptForSession"})),
        // The other way to refuse would interrupt the whole turn.
        (COMMAND | CHANGE, Decision::Deny { .. }) => Ok(json!({"decision": "decline"})),
        (PERMISSIONS, Decision::AllowOnce) => Ok(json!({"permissions": params["permissions"]})),
        (PERMISSIONS, Decision::AllowAlways) => {
            Ok(json!({"permissions": params["permissions"], "scope": "session"}))
        }
        (PERMISSIONS, Decision::Deny { .. }) => Ok(json!({"permissions": {}})),
        (ELICITATION, Decision::Deny { .. }) => Ok(json!({"action": "decline"})),
        (QUESTION, Decision::Text(text)) => {
            let asked: Vec<&str> = params["questions"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|q| q["id"].as_str())
                .collect();
            let answers = crate::control::one_for_each(text, asked.len())?;
            let pairs =
                asked.iter().zip(answers).map(|(id, text)| ((*id).to_owned(), json!({"answers": [text]})));
            Ok(json!({"answers": pairs.collect::<serde_json::Map<_, _>>()}))
        }
        (QUESTION, _) => Err(Error::refused("it asks a question, which yes or no does not answer")
            .hint(format!("`agentctl answer {id} TEXT` answers it"))),
        (method, Decision::Text(_)) if method.ends_with("requestApproval") => {
            Err(Error::refused("it waits for an approval")
                .hint(format!("`agentctl approve {id}` or `agentctl deny {id}`")))
        }
        (method, _) => Err(Error::refused(format!(
            "it waits for {}, which can only be answered where it runs",
            clean_cut(&one_line(method), Some(80))
        ))),
    }
}

#[cfg(test)]
#[path = "steer_tests.rs"]
mod tests;
