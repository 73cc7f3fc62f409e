//! Controls a session that a listening OpenCode process runs: send a message, answer a request, interrupt its turn.
//!
//! Only the process that runs the turn may be asked. Any other process accepts everything and does nothing.

use agentctl_model::Error;
use agentctl_model::text::{clean_cut, one_line};
use serde_json::{Value, json};

use super::ask::{Request, ServerReport, report_at};
use super::http::{ACTION_TIMEOUT, Door, Reply, post};
use crate::Answer;
use crate::control::{LiveSession, ReasonLeft};
use crate::hold::{Acceptance, Decision};
use crate::wire::http::escaped;

/// One session of one server.
pub(crate) struct Steered {
    door: Door,
    directory: String,
    id: String,
    report: ServerReport,
}

impl Steered {
    /// Connects to the first of the doors behind which OpenCode's own server answers.
    pub(crate) fn reach(doors: &[Door], directory: &str, id: &str) -> Result<Self, Error> {
        let report_of = |door: &Door| Some((door.clone(), report_at(door, directory, ACTION_TIMEOUT)?));
        let answering = doors.iter().find_map(report_of);
        let (door, report) = answering.ok_or_else(|| {
            let places: Vec<String> = doors.iter().map(ToString::to_string).collect();
            Error::no_answer(format!(
                "the server at {} does not answer as one of OpenCode; one that wants a password can only be used where that is known",
                places.join(", ")
            ))
        })?;
        Ok(Self { door, directory: directory.to_owned(), id: id.to_owned(), report })
    }

    /// The same with a server that was started for this session alone.
    pub(crate) fn private(mut self, is_private: bool) -> Self {
        self.report.is_private = is_private;
        self
    }

    fn permit(&self, asked: &Request, reply: &Value) -> Result<(), Error> {
        self.post(&format!("/permission/{}/reply", escaped(asked.id())), reply)
    }

    fn post(&self, path: &str, body: &Value) -> Result<(), Error> {
        let target = format!("{path}?directory={}", escaped(&self.directory));
        let door = &self.door;
        match post(door, &target, &body.to_string()) {
            Ok(Reply { status: 200..300, .. }) => Ok(()),
            Ok(Reply { status, body }) => {
                let words = clean_cut(&one_line(&String::from_utf8_lossy(&body)), Some(300));
                Err(Error::refused(format!("the server at {door} refused {path}: {status} {words}")))
            }
            Err(error) => Err(Error::no_answer(format!("the server at {door} did not answer: {error}"))),
        }
    }
}

impl LiveSession for Steered {
    /// The server keeps the message until the session processes it.
    fn send(&mut self, words: &str) -> Result<Acceptance, Error> {
        let prompt = json!({"parts": [{"type": "text", "text": words}]});
        self.post(&format!("/session/{}/prompt_async", escaped(&self.id)), &prompt)?;
        Ok(if self.report.works_on(&self.id) { Acceptance::Queued } else { Acceptance::Now })
    }

    fn interrupt(&mut self) -> Result<Acceptance, Error> {
        let was_open = self.report.works_on(&self.id);
        if was_open {
            self.post(&format!("/session/{}/abort", escaped(&self.id)), &json!({}))?;
        }
        // The server drops what is queued.
        Ok(Acceptance::Interrupted { was_open, still_queued: 0 })
    }

    fn answer(&mut self, answer: &Answer) -> Result<ReasonLeft, Error> {
        let (approval, question) = self.report.waiting(&self.id, answer.request.as_deref());
        if let (None, None, Some(gone)) = (approval, question, &answer.request) {
            let reason = format!("{} does not wait for an answer to {gone} any more", self.id);
            return Err(Error::refused(reason));
        }
        match (approval, question, &answer.decision) {
            (Some(asked), _, Decision::AllowOnce) => self.permit(asked, &json!({"reply": "once"})),
            (Some(asked), _, Decision::AllowAlways) if self.report.is_private => {
                self.permit(asked, &json!({"reply": "always"}))
            }
            (_, _, Decision::AllowAlways) => {
                Err(Error::refused("an approval for always reaches every session of this server"))
            }
            // With a reason the model goes on; without one the turn ends.
            (Some(asked), _, Decision::Deny { reason: Some(reason) }) => {
                self.permit(asked, &json!({"reply": "reject", "message": reason}))
            }
            (Some(asked), _, Decision::Deny { reason: None }) => {
                self.permit(asked, &json!({"reply": "reject"}))
            }
            (_, Some(asked), Decision::Text(text)) => {
                let answers = crate::control::one_for_each(text, asked.questions())?;
                let answers: Vec<Value> = answers.into_iter().map(|answer| json!([answer])).collect();
                self.post(&format!("/question/{}/reply", escaped(asked.id())), &json!({"answers": answers}))
            }
            (None, Some(asked), Decision::Deny { reason }) => {
                self.post(&format!("/question/{}/reject", escaped(asked.id())), &json!({}))?;
                return Ok(reason.clone().map_or(ReasonLeft::Nothing, ReasonLeft::Unsent));
            }
            (None, Some(_), Decision::AllowOnce) => {
                Err(Error::refused("it asks a question, which yes or no does not answer")
                    .hint(format!("`agentctl answer {} TEXT` answers it", self.id)))
            }
            (Some(_), None, Decision::Text(_)) => Err(Error::refused("it waits for an approval")
                .hint(format!("`agentctl approve {0}` or `agentctl deny {0}`", self.id))),
            (None, None, _) => Err(Error::refused(format!("{} waits for nothing", self.id))),
        }?;
        Ok(ReasonLeft::Nothing)
    }
}

#[cfg(test)]
#[path = "steer_tests.rs"]
mod tests;
