//! What is done to a session of another machine: its API does it there.

use std::time::Duration;

use agentctl_adapters::Answer;
use agentctl_adapters::hold::Decision;
use agentctl_daemon::{Planned, encode};
use agentctl_fleet::StopOptions;
use agentctl_fleet::act::launch::ResumeRequest;
use agentctl_fleet::act::steer::{AnswerReceipt, InterruptReceipt, SendReceipt, SteerOptions};
use agentctl_fleet::act::stop::StopReport;
use agentctl_fleet::read::groups::GroupLaunch;
use agentctl_fleet::read::inbox::PutAwayReport;
use agentctl_model::{Error, Session, Surveyed};
use serde::Deserialize;
use serde_json::{Value, json};

use super::find::{full, path_of};
use super::host::RosterHost;
use crate::failure::Failure;

/// How long a launch or a resume may take until its turn is seen: trees are made, hooks run, agents start slowly.
const LAUNCH: Duration = Duration::from_mins(10);
/// How long the end of a session may take beyond its grace: processes are looked for again, and an exit is written.
const STOP: Duration = Duration::from_secs(30);

impl RosterHost {
    pub(crate) fn send(
        &self,
        target: &Surveyed,
        words: &str,
        options: SteerOptions,
    ) -> Result<SendReceipt, Failure> {
        let mut body = json!({ "message": words, "timeout": length(options.timeout) });
        if options.as_command {
            body["command"] = Value::Bool(true);
        }
        let mut receipt: SendReceipt = self.steer(target, "/send", &body, options.timeout)?;
        receipt.session = receipt.session.map(|now| self.named(now));
        Ok(receipt)
    }

    pub(crate) fn answer(
        &self,
        target: &Surveyed,
        answer: &Answer,
        options: SteerOptions,
    ) -> Result<AnswerReceipt, Failure> {
        let (decision, text) = match &answer.decision {
            Decision::AllowOnce => (Some("approve"), None),
            Decision::AllowAlways => (Some("approve-always"), None),
            Decision::Deny { reason } => (Some("deny"), reason.as_deref()),
            Decision::Text(text) => (None, Some(text.as_str())),
        };
        let body = json!({
            "request": answer.request, "decision": decision, "text": text, "timeout": length(options.timeout),
        });
        let mut receipt: AnswerReceipt = self.steer(target, "/answer", &body, options.timeout)?;
        receipt.session = receipt.session.map(|now| self.named(now));
        Ok(receipt)
    }

    pub(crate) fn interrupt(
        &self,
        target: &Surveyed,
        options: SteerOptions,
    ) -> Result<InterruptReceipt, Failure> {
        let body = json!({ "timeout": length(options.timeout) });
        let mut receipt: InterruptReceipt = self.steer(target, "/interrupt", &body, options.timeout)?;
        receipt.session = receipt.session.map(|now| self.named(now));
        Ok(receipt)
    }

    pub(crate) fn stop(&self, target: &Surveyed, options: StopOptions) -> Result<StopReport, Failure> {
        #[derive(Deserialize)]
        struct Stopped {
            sessions: [StopReport; 1],
        }
        let body = json!({ "grace": length(options.grace), "force": options.force });
        let Stopped { sessions: [mut report] } = self.steer(target, "/stop", &body, options.grace + STOP)?;
        report.session = report.session.map(|now| self.named(now));
        Ok(report)
    }

    pub(crate) fn resume(
        &self,
        target: &Surveyed,
        words: &str,
        request: &ResumeRequest,
    ) -> Result<Session, Failure> {
        let body = json!({
            "message": words, "fork": request.fork, "model": request.model,
            "permissionMode": request.permission, "onComplete": request.on_complete,
            "timeout": request.stay.timeout.map(length), "hold": request.stay.hold,
            "idleTimeout": request.stay.idle_timeout.map(length), "terminal": request.stay.terminal,
        });
        let session = self.steer(target, "/resume", &body, LAUNCH)?;
        Ok(self.named(session))
    }

    /// Plans to resume it there at a time.
    pub(crate) fn plan(&self, path: &str, body: &Value) -> Result<Planned, Failure> {
        self.done(("POST", path), body, Duration::ZERO)
    }

    /// Marks its failure as done until its next turn.
    pub(crate) fn put_away(&self, target: &Surveyed) -> Result<PutAwayReport, Failure> {
        let path = path_of(target, "/done", []).replacen("/v1/sessions/", "/v1/inbox/", 1);
        self.done(("POST", &path), &json!({}), Duration::ZERO)
    }

    /// Launches there; the body is that of the API.
    pub(crate) fn launch(&self, body: &Value) -> Result<Session, Failure> {
        let session = self.done(("POST", "/v1/sessions"), body, LAUNCH)?;
        Ok(self.named(session))
    }

    /// Launches several there, side by side.
    pub(crate) fn launch_group(&self, body: &Value) -> Result<GroupLaunch, Failure> {
        let mut launched: GroupLaunch = self.done(("POST", "/v1/groups"), body, LAUNCH)?;
        launched.sessions = launched.sessions.into_iter().map(|session| self.named(session)).collect();
        Ok(launched)
    }

    /// A session of this machine is known by the name under which it was asked, whatever it calls itself.
    pub(crate) fn named(&self, mut session: Session) -> Session {
        session.host = self.known_as();
        session
    }

    fn steer<T: serde::de::DeserializeOwned>(
        &self,
        target: &Surveyed,
        what: &str,
        body: &Value,
        longer: Duration,
    ) -> Result<T, Failure> {
        let done = self.done(("POST", &path_of(target, what, [])), body, longer);
        done.map_err(|failure| self.typed_here(failure, &target.key.id))
    }

    /// The commands of a hint there name the session as it is typed here.
    fn typed_here(&self, failure: Failure, id: &str) -> Failure {
        match failure {
            Failure::Said(Error { hint: Some(hint), kind, message }) => {
                let hint = hint.replace(&format!(" {id}"), &format!(" {}", full(Some(self), id)));
                Failure::Said(Error { hint: Some(hint), kind, message })
            }
            other => other,
        }
    }
}

/// The path under which a resume is planned. An adapter that was named is the way to go on.
pub(crate) fn plan_path(target: &Surveyed, adapter: Option<&str>) -> String {
    let path = path_of(target, "/resume-at", []);
    match adapter {
        Some(via) if via != target.key.adapter => path.replacen(
            &format!("adapter={}", encode(&target.key.adapter)),
            &format!("adapter={}", encode(via)),
            1,
        ),
        _ => path,
    }
}

/// A length of time as the API takes it.
pub(crate) fn length(length: Duration) -> String {
    format!("{}ms", length.as_millis())
}
