//! Sends messages and answers to live sessions, where their agent offers a way in.
//!
//! Success means that the agent accepted it. Only the next survey says what the agent did with it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::time::Duration;

use agentctl_adapters::{Answer, Control, Root};
use agentctl_model::{
    Capability, Error, ErrorKind, KernelView, Pending, PendingKind, Session, Status, Surveyed,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::act::offered::unless_offered;
use crate::read::survey::kernel::KernelSnapshot;
use crate::{Fleet, Offer};

/// How long a server may take to accept. One that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What `send`, `approve`, `deny` and `answer` print with --json, and their routes answer. A refusal is an error instead.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Taken")]
pub struct Receipt {
    id: String,
    adapter: String,
    /// By the agent itself.
    accepted: bool,
    /// What was answered, as it was shown; `null` where nothing waited or words were sent.
    answered: Option<Pending>,
    /// The session as it is afterwards; `null` when it could not be looked at again.
    pub session: Option<Session>,
}

impl Receipt {
    /// Returns the same, with what was answered.
    #[must_use]
    pub fn answering(self, answered: Option<Pending>) -> Self {
        Self { answered, ..self }
    }
}

/// Returns the pending request of a session to which this answer goes: the first that it fits.
pub fn answered<'s>(session: &'s Session, answer: &Answer) -> Option<&'s Pending> {
    let fits = |pending: &&Pending| match answer {
        Answer::Approve | Answer::Deny => pending.kind == PendingKind::Approval,
        Answer::Text(_) => pending.kind == PendingKind::Question,
    };
    session.pending.iter().find(fits).or_else(|| session.pending.first())
}

/// What an adapter needs to reach a session. It owns its data, because a late thread may outlive the command.
struct WayIn {
    control: &'static dyn Control,
    root: Root,
    view: KernelView,
    session: Session,
}

impl Fleet {
    /// Sends a message to a live session. If the agent does not answer, the error is of the kind
    /// [`NoAnswer`](ErrorKind::NoAnswer): it is not known whether the agent accepted the message.
    pub fn send(&self, target: &Surveyed, words: &str) -> Result<(), Error> {
        let sent = self.say(target, words);
        sent.map_err(|error| unless_offered(error, &target.key.adapter, Capability::Send))
    }

    /// Answers what a live session waits for; the errors are those of [`Fleet::send`].
    pub fn answer(&self, target: &Surveyed, answer: Answer) -> Result<(), Error> {
        let answered = self.reply(target, answer);
        answered.map_err(|error| unless_offered(error, &target.key.adapter, Capability::Approve))
    }

    fn say(&self, target: &Surveyed, words: &str) -> Result<(), Error> {
        self.refuse_stopped(target)?;
        if let Some(server) = self.server_of(target) {
            return server.send(target, words);
        }
        let words = words.to_owned();
        let way = self.way_in(target)?;
        let said = within(TIMEOUT, &target.key.adapter, move || {
            way.control.send(&way.root, &way.view, &way.session, &words)
        });
        said.map_err(|error| self.with_hint(error, &[Offer::Send], target))
    }

    fn reply(&self, target: &Surveyed, answer: Answer) -> Result<(), Error> {
        self.refuse_stopped(target)?;
        if let Some(server) = self.server_of(target) {
            return server.answer(target, &answer);
        }
        let way = self.way_in(target)?;
        let said = within(TIMEOUT, &target.key.adapter, move || {
            way.control.answer(&way.root, &way.view, &way.session, &answer)
        });
        said.map_err(|error| self.with_hint(error, &[Offer::Approve, Offer::Answer], target))
    }

    /// Adds a hint to a refusal that does not itself say what works instead.
    fn with_hint(&self, error: Error, refused: &[Offer], target: &Surveyed) -> Error {
        if error.kind == ErrorKind::Refused && error.hint.is_none() {
            return error.hint(self.instead_of(refused, target));
        }
        error
    }

    fn refuse_stopped(&self, target: &Surveyed) -> Result<(), Error> {
        if target.session.status != Status::Stopped {
            return Ok(());
        }
        let reason = format!("session {} is stopped, so no process can receive this", target.session.id);
        Err(Error::refused(reason).hint(self.instead_of(&[], target)))
    }

    /// Reports that the agent accepted it, with the session as it is now.
    pub fn receipt(&self, target: &Surveyed) -> Receipt {
        Receipt {
            id: target.key.id.clone(),
            adapter: target.key.adapter.clone(),
            accepted: true,
            answered: None,
            session: self.again(target).map(|now| *now.session),
        }
    }

    fn way_in(&self, target: &Surveyed) -> Result<WayIn, Error> {
        let (source, control) = self.control_of(target)?;
        // The kernel is read anew, because the process that is steered must exist now.
        let snapshot = KernelSnapshot::take(self.kernel.as_ref());
        let view = snapshot.view(self.kernel.as_ref(), source, None, &self.ledger());
        Ok(WayIn { control, root: source.root.clone(), view, session: (*target.session).clone() })
    }
}

/// Runs this on its own thread, so that a server that hangs cannot block us.
fn within(
    timeout: Duration,
    agent: &str,
    speak: impl FnOnce() -> Result<(), Error> + Send + 'static,
) -> Result<(), Error> {
    let (answers, inbox) = channel();
    std::thread::spawn(move || {
        let said = catch_unwind(AssertUnwindSafe(speak));
        // The receiver is gone if the server was late.
        let _ = answers.send(said);
    });
    match inbox.recv_timeout(timeout) {
        Ok(Ok(said)) => said,
        Ok(Err(_)) => Err(Error::no_answer(format!("the adapter of {agent} panicked"))),
        Err(_) => Err(Error::no_answer(format!(
            "{agent} did not answer within {} s; whether it took it is not known",
            timeout.as_secs()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_hangs_or_an_adapter_that_panics_is_no_yes() {
        let long = Duration::from_mins(1);
        assert_eq!(within(long, "x", || Ok(())), Ok(()));
        assert_eq!(within(long, "x", || Err(Error::refused("no"))), Err(Error::refused("no")));
        let silent = |said: Result<(), Error>| said.is_err_and(|error| error.kind == ErrorKind::NoAnswer);
        assert!(silent(within(long, "x", || panic!("broken"))));
        assert!(silent(within(long, "x", || Err(Error::no_answer("connection reset")))));
        // It never answers: the test keeps the other end until it is over.
        let (_kept, never) = channel::<()>();
        assert!(silent(within(Duration::from_millis(50), "x", move || {
            let _ = never.recv();
            Ok(())
        })));
    }
}
