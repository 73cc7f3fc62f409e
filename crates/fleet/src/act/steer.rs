//! Sends messages and answers to live sessions, where their agent offers a way in.
//!
//! Success means that the agent accepted it. Only the next survey says what the agent did with it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::time::Duration;

use agentctl_adapters::gateway::ServerError;
use agentctl_adapters::{Answer, Control, Root};
use agentctl_model::{KernelView, Pending, PendingKind, Refusal, Session, Status, Surveyed};
use schemars::JsonSchema;
use serde::Serialize;

use crate::read::survey::kernel::KernelSnapshot;
use crate::{Fleet, Offer};

/// How long a server may take to accept. One that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why the agent did not say yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpeakError {
    /// There is no way in, or the agent said no.
    Refused(Refusal),
    /// It did not answer: whether it took the words is not known.
    Silent(String),
}

impl From<Refusal> for SpeakError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ServerError> for SpeakError {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Refused(refusal) => Self::Refused(refusal),
            ServerError::Unheard(why) => Self::Silent(why),
        }
    }
}

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
    /// Says something to a live session.
    pub fn send(&self, target: &Surveyed, words: &str) -> Result<(), SpeakError> {
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

    /// Answers what a live session waits for.
    pub fn answer(&self, target: &Surveyed, answer: Answer) -> Result<(), SpeakError> {
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
    fn with_hint(&self, error: SpeakError, refused: &[Offer], target: &Surveyed) -> SpeakError {
        match error {
            SpeakError::Refused(refusal) if refusal.hint.is_none() => {
                SpeakError::Refused(refusal.hint(self.instead_of(refused, target)))
            }
            error => error,
        }
    }

    fn refuse_stopped(&self, target: &Surveyed) -> Result<(), Refusal> {
        if target.session.status != Status::Stopped {
            return Ok(());
        }
        let reason = format!("session {} is stopped: nobody is there to hear it", target.session.id);
        Err(Refusal::new(reason).hint(self.instead_of(&[], target)))
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

    fn way_in(&self, target: &Surveyed) -> Result<WayIn, Refusal> {
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
    speak: impl FnOnce() -> Result<(), ServerError> + Send + 'static,
) -> Result<(), SpeakError> {
    let (answers, inbox) = channel();
    std::thread::spawn(move || {
        let said = catch_unwind(AssertUnwindSafe(speak));
        // The receiver is gone if the server was late.
        let _ = answers.send(said);
    });
    match inbox.recv_timeout(timeout) {
        Ok(Ok(said)) => Ok(said?),
        Ok(Err(_)) => Err(SpeakError::Silent(format!("the adapter of {agent} panicked"))),
        Err(_) => Err(SpeakError::Silent(format!(
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
        let refusal = Refusal::new("no");
        assert_eq!(within(long, "x", || Err(Refusal::new("no").into())), Err(SpeakError::Refused(refusal)));
        let silent = |said: Result<(), SpeakError>| matches!(said, Err(SpeakError::Silent(_)));
        assert!(silent(within(long, "x", || panic!("broken"))));
        assert!(silent(within(long, "x", || Err(ServerError::Unheard("connection reset".into())))));
        // It never answers: the test keeps the other end until it is over.
        let (_kept, never) = channel::<()>();
        assert!(silent(within(Duration::from_millis(50), "x", move || {
            let _ = never.recv();
            Ok(())
        })));
    }
}
