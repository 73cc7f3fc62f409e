//! Sends messages and answers to live sessions, where their agent offers a way in.
//!
//! Success means that the agent accepted it. Only the next survey says what the agent did with it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::time::Duration;

use agentctl_adapters::hold::{About, Acceptance, Decision, Preference, Verb};
use agentctl_adapters::{Answer, Control, ReasonLeft, Root};
use agentctl_model::{
    Capability, Entry, EntryKind, Error, ErrorKind, KernelView, OptionKind, OptionScope, Pending,
    PendingKind, Role, Session, SessionKey, Status, Surveyed, text,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::act::asker::Asker;
use crate::act::offered::unless_offered;
use crate::hold::Held;
use crate::keep::kernel_lock::KernelLock;
use crate::read::survey::kernel::KernelSnapshot;
use crate::{Fleet, Offer};

/// How long a server may take to accept. One that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How many of the newest entries are searched for words that were just sent.
const NEWEST: usize = 20;

/// Who steers, and how long the agent may take.
#[derive(Debug, Clone, Copy)]
pub struct SteerOptions {
    pub asker: Asker,
    /// How long the agent may take to accept.
    pub timeout: Duration,
    /// A message is meant as a command of the agent.
    pub as_command: bool,
}

impl Default for SteerOptions {
    fn default() -> Self {
        Self { asker: Asker::default(), timeout: TIMEOUT, as_command: false }
    }
}

/// What `send --json` prints, and its route answers. A refusal is an error instead.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendReceipt {
    id: String,
    adapter: String,
    /// By the agent itself.
    pub accepted: Accepted,
    /// The session as it is afterwards; `null` when it could not be looked at again.
    pub session: Option<Session>,
}

/// How the agent took a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Accepted {
    // It works on it, or takes it into the open turn.
    Now,
    // Its own queue has it.
    Queued,
}

/// What `approve`, `deny` and `answer` print with --json, and their route answers. A refusal is an error instead.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerReceipt {
    id: String,
    adapter: String,
    /// The agent's own id of the request; `null` if it has none.
    request: Option<String>,
    decision: DecisionKind,
    /// Where the reason of a denial went; `null` where none was given.
    message: Option<ReasonWay>,
    /// What was answered, as it was shown; `null` where nothing was seen to wait.
    pub answered: Option<Pending>,
    /// The session as it is afterwards; `null` when it could not be looked at again.
    pub session: Option<Session>,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DecisionKind {
    AllowOnce,
    AllowAlways,
    Deny,
    Answer,
}

/// Where the reason of a denial went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReasonWay {
    // The protocol has a place for it in the answer.
    WithAnswer,
    // It was sent as the next message.
    AsMessage,
}

/// What `interrupt --json` prints, and its route answers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptReceipt {
    id: String,
    adapter: String,
    /// False: no turn was open.
    pub interrupted: bool,
    /// Messages that stay in the agent's own queue.
    pub still_queued: usize,
    /// The session as it is afterwards; `null` when it could not be looked at again.
    pub session: Option<Session>,
}

impl From<&Decision> for DecisionKind {
    fn from(decision: &Decision) -> Self {
        match decision {
            Decision::AllowOnce => Self::AllowOnce,
            Decision::AllowAlways => Self::AllowAlways,
            Decision::Deny { .. } => Self::Deny,
            Decision::Text(_) => Self::Answer,
        }
    }
}

/// Returns the pending request of a session to which this answer goes. One that is named must be there; of several that
/// fit, one must be named.
pub fn answered<'s>(session: &'s Session, answer: &Answer) -> Result<Option<&'s Pending>, Error> {
    if let Some(id) = &answer.request {
        let named = session.pending.iter().find(|pending| pending.id.as_ref() == Some(id));
        return named.map(Some).ok_or_else(|| {
            Error::refused(format!("session {} does not wait for an answer to {id} any more", session.id))
                .hint("`agentctl inbox` shows what waits now")
        });
    }
    let kind = match answer.decision {
        Decision::AllowOnce | Decision::AllowAlways | Decision::Deny { .. } => PendingKind::Approval,
        Decision::Text(_) => PendingKind::Question,
    };
    let fitting: Vec<&Pending> = session.pending.iter().filter(|pending| pending.kind == kind).collect();
    match (fitting.as_slice(), session.pending.as_slice()) {
        ([one], _) => Ok(Some(*one)),
        ([], [one]) => Ok(Some(one)),
        ([], _) => Ok(None),
        // Older requests without an id are answered in the agent's own order.
        ([first, ..], _) if first.id.is_none() => Ok(Some(first)),
        (several, _) => {
            let lines = several.iter().map(|pending| {
                let id = pending.id.as_deref().unwrap_or("?");
                let summary = pending.summary.as_deref().unwrap_or_default();
                format!("  {} {}", text::one_line(id), text::clean_cut(&text::one_line(summary), Some(100)))
            });
            let lines: Vec<String> = lines.collect();
            let message = format!("session {} waits for several answers:\n{}", session.id, lines.join("\n"));
            Err(Error::new(ErrorKind::Ambiguous, message).hint("name one of them with --request"))
        }
    }
}

/// Refuses a permission for always that the agent does not offer, or that would reach further than the session.
fn check_always(pending: &Pending, adapter: &str) -> Result<(), Error> {
    let always = || pending.options.iter().filter(|option| option.kind == OptionKind::AllowAlways);
    if always().any(|option| option.scope <= OptionScope::Session) {
        return Ok(());
    }
    let Some(option) = always().next() else {
        return Err(Error::refused(format!("{adapter} does not offer to allow this always"))
            .hint("`agentctl approve` without --always allows it once"));
    };
    let label = text::clean_cut(&text::one_line(&option.label), Some(100));
    Err(Error::refused(format!("{adapter} offers \"{label}\", which reaches further than this session"))
        .hint("allow it once here, or choose that in the agent itself"))
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
    pub fn send(&self, target: &Surveyed, words: &str, options: SteerOptions) -> Result<SendReceipt, Error> {
        let sent = self.say(target, words, options);
        let how =
            sent.map_err(|error| unless_offered(error, &target.session.capabilities, Capability::Send))?;
        let accepted = if how == Acceptance::Queued { Accepted::Queued } else { Accepted::Now };
        let SessionKey { id, adapter, .. } = target.key.clone();
        Ok(SendReceipt { id, adapter, accepted, session: self.now(target) })
    }

    /// Answers what a live session waits for; the errors are those of [`Fleet::send`].
    pub fn answer(
        &self,
        target: &Surveyed,
        answer: Answer,
        options: SteerOptions,
    ) -> Result<AnswerReceipt, Error> {
        self.refuse_self(target, options.asker)?;
        let pending = answered(&target.session, &answer)?.cloned();
        let request = answer.request.clone().or_else(|| pending.as_ref()?.id.clone());
        // Nothing was shown, so what a held agent asks in this very moment was decided by nobody.
        let is_shown = pending.is_some() || request.is_some();
        if !is_shown && self.was_held(target) && target.session.status != Status::Stopped {
            return Err(Error::refused("it waits for nothing").hint("`agentctl inbox` shows what waits"));
        }
        if let (Decision::AllowAlways, Some(pending)) = (&answer.decision, &pending) {
            check_always(pending, &target.key.adapter)?;
        }
        let answer = Answer { request: request.clone(), ..answer };
        let decision = DecisionKind::from(&answer.decision);
        let answered = self.reply(target, answer, options);
        let message = answered
            .map_err(|error| unless_offered(error, &target.session.capabilities, Capability::Approve))?;
        let SessionKey { id, adapter, .. } = target.key.clone();
        Ok(AnswerReceipt {
            id,
            adapter,
            request,
            decision,
            message,
            answered: pending,
            session: self.now(target),
        })
    }

    /// Ends the open turn and keeps the session, where its agent offers that.
    pub fn interrupt_turn(
        &self,
        target: &Surveyed,
        options: SteerOptions,
    ) -> Result<InterruptReceipt, Error> {
        self.refuse_self(target, options.asker)?;
        let done = self.break_off(target, options);
        let how =
            done.map_err(|error| unless_offered(error, &target.session.capabilities, Capability::Interrupt))?;
        let (interrupted, still_queued) = match how {
            Acceptance::Interrupted { was_open, still_queued } => (was_open, still_queued),
            Acceptance::Now | Acceptance::Queued | Acceptance::Answered | Acceptance::Chosen => (true, 0),
        };
        let SessionKey { id, adapter, .. } = target.key.clone();
        Ok(InterruptReceipt { id, adapter, interrupted, still_queued, session: self.now(target) })
    }

    /// What the holder of a session knows beside its turns: mode and model, and what can be chosen; `None` where nobody
    /// holds it, or its agent says nothing.
    pub fn about(&self, target: &Surveyed) -> Option<About> {
        self.holder(target)?.about()
    }

    /// Chooses a mode or model for the rest of a held session; the errors are those of [`Fleet::send`].
    pub fn choose(
        &self,
        target: &Surveyed,
        (what, id): (Preference, &str),
        options: SteerOptions,
    ) -> Result<(), Error> {
        self.refuse_self(target, options.asker)?;
        self.refuse_stopped(target)?;
        let held = self.holder(target).ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "a mode or model can be chosen only while agentctl holds the session",
            )
        })?;
        held.tell(&Verb::Choose { what, id: id.to_owned() }, options).map(drop)
    }

    /// The session as it is now; `None` when it cannot be looked at.
    fn now(&self, target: &Surveyed) -> Option<Session> {
        self.again(target).map(|now| *now.session)
    }

    fn say(&self, target: &Surveyed, words: &str, options: SteerOptions) -> Result<Acceptance, Error> {
        self.refuse_stopped(target)?;
        if let Some(server) = self.server_of(target) {
            return server.send(target, words).map(|()| Acceptance::Now);
        }
        let words = words.to_owned();
        if let Some(held) = self.holder(target) {
            return held.say(&words, options, &|words| self.times_recorded(target, words));
        }
        if options.as_command {
            return Err(Error::refused("only a held session can be sent a command of its agent"));
        }
        let way = self.way_in(target)?;
        let given = words.clone();
        let said = within(options.timeout, &target.key.adapter, move || {
            way.control.send(&way.root, &way.view, &way.session, &given)
        });
        let how = said.map_err(|error| self.with_hint(error, &[Offer::Send], target))?;
        self.is_worked_on(target, &words).map(|()| how)
    }

    fn reply(
        &self,
        target: &Surveyed,
        answer: Answer,
        options: SteerOptions,
    ) -> Result<Option<ReasonWay>, Error> {
        self.refuse_stopped(target)?;
        if let Some(held) = self.holder(target) {
            let options = SteerOptions { as_command: false, ..options };
            return held.answer(answer, options, &|words| self.times_recorded(target, words));
        }
        let reason = match &answer.decision {
            Decision::Deny { reason } => reason.clone(),
            Decision::AllowOnce | Decision::AllowAlways | Decision::Text(_) => None,
        };
        let has_reason = reason.is_some();
        let left = if let Some(server) = self.server_of(target) {
            server.answer(target, &answer)?;
            reason.map_or(ReasonLeft::Nothing, ReasonLeft::Unsent)
        } else {
            let alone = self.answer_alone(target, options.timeout)?;
            let way = self.way_in(target)?;
            let said = within(options.timeout, &target.key.adapter, move || {
                let _alone = alone;
                way.control.answer(&way.root, &way.view, &way.session, &answer)
            });
            said.map_err(|error| self.with_hint(error, &[Offer::Approve, Offer::Answer], target))?
        };
        let reason = match left {
            ReasonLeft::Nothing => return Ok(has_reason.then_some(ReasonWay::WithAnswer)),
            ReasonLeft::Sent => return Ok(Some(ReasonWay::AsMessage)),
            ReasonLeft::Unsent(reason) => reason,
        };
        let told = self.say(target, &reason, options);
        told.map(|_| Some(ReasonWay::AsMessage)).map_err(|error| Error {
            message: format!("the denial was accepted, its reason was not: {}", error.message),
            ..error
        })
    }

    /// Whether its last launch was a held one.
    fn was_held(&self, target: &Surveyed) -> bool {
        let key = &target.key;
        self.ledger().newest(&key.adapter, &key.root, &key.id).is_some_and(|(_, record)| record.order.hold)
    }

    /// Keeps other callers from answering at the same time. Only a session that was launched here has a place for that.
    fn answer_alone(&self, target: &Surveyed, timeout: Duration) -> Result<Option<KernelLock>, Error> {
        let (key, ledger) = (&target.key, self.ledger());
        let Some((folder, _)) = ledger.newest(&key.adapter, &key.root, &key.id) else { return Ok(None) };
        let failed = |error: io::Error| Error::no_answer(format!("{}: {error}", folder.path().display()));
        match folder.answer_alone(timeout).map_err(failed)? {
            Some(alone) => Ok(Some(alone)),
            None => {
                Err(Error::new(ErrorKind::TimedOut, "somebody else is answering it; this was not delivered"))
            }
        }
    }

    fn break_off(&self, target: &Surveyed, options: SteerOptions) -> Result<Acceptance, Error> {
        self.refuse_stopped(target)?;
        if let Some(server) = self.server_of(target) {
            let still_queued = 0;
            return server
                .interrupt(target)
                .map(|()| Acceptance::Interrupted { was_open: true, still_queued });
        }
        if let Some(held) = self.holder(target) {
            return held.tell(&Verb::Interrupt, options);
        }
        let way = self.way_in(target)?;
        let done = within(options.timeout, &target.key.adapter, move || {
            way.control.interrupt(&way.root, &way.view, &way.session)
        });
        done.map_err(|error| self.with_hint(error, &[], target))
    }

    /// How often the agent's newest records have these words of a person.
    fn times_recorded(&self, target: &Surveyed, words: &str) -> usize {
        let is_it = |entry: &Entry| {
            entry.role == Role::User && entry.kind == EntryKind::Message && entry.text.trim() == words.trim()
        };
        let entries = self.read(target, NEWEST).unwrap_or_default();
        entries.into_iter().filter(is_it).count()
    }

    /// The holder of a session, if one holds it now.
    pub(crate) fn holder(&self, target: &Surveyed) -> Option<Held> {
        let key = &target.key;
        let ledger = self.ledger();
        let folder = ledger.holder_of(&key.adapter, &key.root, &key.id)?;
        Some(Held::at(folder.path()))
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

    fn way_in(&self, target: &Surveyed) -> Result<WayIn, Error> {
        let (source, control) = self.control_of(target)?;
        // The kernel is read anew, because the process that is steered must exist now.
        let snapshot = KernelSnapshot::take(self.kernel.as_ref());
        let view = snapshot.view(self.kernel.as_ref(), source, None, &self.ledger());
        Ok(WayIn { control, root: source.root.clone(), view, session: (*target.session).clone() })
    }
}

/// Runs this on its own thread, so that a server that hangs cannot block us.
fn within<T: Send + 'static>(
    timeout: Duration,
    agent: &str,
    speak: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
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
        assert_eq!(within::<()>(long, "x", || Err(Error::refused("no"))), Err(Error::refused("no")));
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
