//! The law: the evidence of the two witnesses, and the one function that turns it into a verdict.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, Fact, Witness};
use crate::launch::exit::LaunchExit;
use crate::process::ProcessRef;
use crate::session::PendingKind;

/// What is true of a session now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// A process is alive and a turn is open.
    Running,
    /// Alive and blocked on a person.
    Waiting,
    /// Alive, ready for the next message.
    Idle,
    /// Nobody runs it.
    Stopped,
    /// It cannot be known now.
    Unknown,
}

impl Status {
    pub const ALL: [Self; 5] = [Self::Running, Self::Waiting, Self::Idle, Self::Stopped, Self::Unknown];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Idle => "idle",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
        }
    }
}

/// How the last turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// By itself.
    Completed,
    /// The agent recorded an error.
    Failed,
    /// A person or a clean signal ended it.
    Interrupted,
    /// The process went away with the turn open.
    Died,
}

impl Outcome {
    pub const ALL: [Self; 4] = [Self::Completed, Self::Failed, Self::Interrupted, Self::Died];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Died => "died",
        }
    }
}

/// The state of the last turn, by the agent's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TurnState {
    NotBegun,
    Open,
    Approval,
    Question,
    Finished,
    Failed,
    Interrupted,
    /// It ended, and the records do not say how.
    Ended,
}

impl TurnState {
    /// The state of a turn that waits for this.
    pub fn waiting_for(kind: PendingKind) -> Self {
        match kind {
            PendingKind::Question => Self::Question,
            PendingKind::Approval | PendingKind::Limit => Self::Approval,
        }
    }

    pub fn describe(self) -> &'static str {
        match self {
            Self::NotBegun => "no turn yet",
            Self::Open => "a turn is open",
            Self::Approval => "waits for an approval",
            Self::Question => "waits for an answer",
            Self::Finished => "the turn ended by itself",
            Self::Failed => "the turn ended with an error",
            Self::Interrupted => "the turn was interrupted",
            Self::Ended => "no turn is open",
        }
    }

    /// The outcome if nothing more happens to the turn. An open turn whose process has exited has died, unless the runner saw
    /// a clean exit, or has yet to write the exit down.
    fn outcome_when_gone(self, exit: Option<&LaunchExit>) -> Option<Outcome> {
        match self {
            Self::NotBegun | Self::Ended => None,
            Self::Open | Self::Approval | Self::Question => match exit {
                Some(LaunchExit::Seen(exit)) if exit.was_clean() => Some(Outcome::Interrupted),
                Some(LaunchExit::Unwritten) => None,
                Some(LaunchExit::Seen(_) | LaunchExit::Unseen) | None => Some(Outcome::Died),
            },
            Self::Finished => Some(Outcome::Completed),
            Self::Failed => Some(Outcome::Failed),
            Self::Interrupted => Some(Outcome::Interrupted),
        }
    }

    fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Approval | Self::Question)
    }
}

/// The last turn, by the agent's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    pub state: TurnState,
    /// When it began, if the records that were read contain it.
    pub began: Option<Timestamp>,
    /// The time of its newest record.
    pub last: Option<Timestamp>,
    /// The agent's text about it, such as the error.
    pub detail: Option<String>,
    /// It failed because the provider refused for a quota.
    pub limit: Option<Limit>,
}

/// The refusal of a provider for a quota, as the agent recorded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// When the quota is free again, where the records say it.
    pub until: Option<Timestamp>,
}

impl Turn {
    pub fn new(state: TurnState, last: Option<Timestamp>) -> Self {
        Self { state, began: None, last, detail: None, limit: None }
    }

    /// Whether all records of the turn are older than this owner.
    fn precedes(&self, owner: &Owner) -> bool {
        match (self.last, owner.started_at) {
            (Some(last), Some(start)) => last < start,
            _ => false,
        }
    }
}

/// A live process that works on a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub process: ProcessRef,
    pub started_at: Option<Timestamp>,
    /// It was started with a prompt and exits when the turn ends.
    pub headless: bool,
    /// The evidence that this process owns the session.
    pub how: Evidence,
}

/// One owner or more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owners {
    pub first: Owner,
    pub rest: Vec<Owner>,
}

impl Owners {
    pub fn iter(&self) -> impl Iterator<Item = &Owner> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// Whether one of the owners is headless.
    fn end_with_the_turn(&self) -> bool {
        self.iter().any(|owner| owner.headless)
    }
}

/// The state that a gateway reports for a session that has no process here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteState {
    Running,
    Ready,
    Ended,
    /// The gateway lists the session and does not say whether a run is active.
    Unsaid,
}

/// Whether a session has a live owner. Every variant contains its evidence, so no verdict can be made without any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Liveness {
    /// These processes own the session.
    Alive(Owners),
    /// No process owns it; the process table was read after the records.
    Gone { looked_at: Timestamp },
    /// A gateway reports its state.
    Remote { state: RemoteState, evidence: Evidence },
    /// The process table could not be read, several processes match, or the platform does not show what is needed. This is
    /// not the same as gone.
    Unobservable { why: String, looked_at: Timestamp },
}

impl Liveness {
    fn evidence(&self) -> Vec<Evidence> {
        match self {
            Self::Alive(owners) => owners.iter().map(|owner| owner.how.clone()).collect(),
            Self::Gone { looked_at } => {
                vec![Evidence::new(Witness::Kernel, Fact::NoProcess, Some(*looked_at))]
            }
            Self::Remote { evidence, .. } => vec![evidence.clone()],
            Self::Unobservable { why, looked_at } => {
                vec![Evidence::said(Witness::Kernel, why.clone(), Some(*looked_at))]
            }
        }
    }
}

/// Which line of the law decided. `explain` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    CannotLook,
    NobodyCarriesIt,
    ExitNotWrittenYet,
    GatewayEnded,
    GatewayRunning,
    GatewayReady,
    GatewayDoesNotSay,
    WaitsForPerson,
    NoTurnYet,
    TurnEnded,
    TurnOpen,
    TurnOlderThanItsOwners,
    HeadlessRunNotEnded,
    HeadlessRunNotOver,
    HeadlessRunAfterError,
    AgentDoesNotSay,
}

impl Rule {
    pub fn describe(self) -> &'static str {
        match self {
            Self::CannotLook => "it cannot be seen who carries the session, so no status is claimed",
            Self::NobodyCarriesIt => {
                "nobody carries the session: stopped, with what the records say of its last turn"
            }
            Self::ExitNotWrittenYet => {
                "nobody carries the session: stopped; how a turn ended that it left open is known once its runner has \
                 written down the exit"
            }
            Self::GatewayEnded => "the gateway says it ended",
            Self::GatewayRunning => "the gateway says a run is active",
            Self::GatewayReady => "the gateway says it is ready for the next message",
            Self::GatewayDoesNotSay => "the gateway lists it and does not say whether a run is active",
            Self::WaitsForPerson => "alive and blocked on a person",
            Self::NoTurnYet => "alive, nothing was asked yet",
            Self::TurnEnded => "alive, the last turn has ended",
            Self::TurnOpen => "alive, and a turn is open",
            Self::TurnOlderThanItsOwners => {
                "the open turn is older than every process that carries the session now: the one that had it died"
            }
            Self::HeadlessRunNotEnded => {
                "a live run with a prompt of its own, whose turn is not recorded as ended"
            }
            Self::HeadlessRunNotOver => {
                "a live run with a prompt of its own: whatever its records say of the turn, it runs until its process ends"
            }
            Self::HeadlessRunAfterError => {
                "a live run with a prompt of its own, whose turn was cut short: until its process ends it may try again"
            }
            Self::AgentDoesNotSay => "alive, but the agent does not say whether a turn is open",
        }
    }
}

/// A status with its reasons. Only [`derive()`] makes one, and its evidence is never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    status: Status,
    outcome: Option<Outcome>,
    rule: Rule,
    evidence: Vec<Evidence>,
}

impl Verdict {
    pub fn status(&self) -> Status {
        self.status
    }

    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    pub fn rule(&self) -> Rule {
        self.rule
    }

    pub fn into_evidence(self) -> Vec<Evidence> {
        self.evidence
    }
}

/// The whole policy about status. `exit` is how the process ended that wrote the last records, as far as it is known;
/// `heard` is the evidence of the records, strongest first.
pub fn derive(
    turn: Option<&Turn>,
    liveness: &Liveness,
    exit: Option<&LaunchExit>,
    heard: Vec<Evidence>,
) -> Verdict {
    use {Rule as R, Status as S, TurnState as T};

    let state = turn.map(|turn| turn.state);
    let when_gone = state.and_then(|state| state.outcome_when_gone(exit));
    let (status, outcome, rule) = match (liveness, state) {
        (Liveness::Unobservable { .. }, _) => (S::Unknown, None, R::CannotLook),
        (Liveness::Gone { .. }, _) if exit == Some(&LaunchExit::Unwritten) => {
            (S::Stopped, when_gone, R::ExitNotWrittenYet)
        }
        (Liveness::Gone { .. }, _) => (S::Stopped, when_gone, R::NobodyCarriesIt),
        (Liveness::Remote { state: RemoteState::Ended, .. }, _) => (S::Stopped, when_gone, R::GatewayEnded),
        (Liveness::Remote { state: RemoteState::Unsaid, .. }, _) => (S::Unknown, None, R::GatewayDoesNotSay),
        (Liveness::Alive(owners), _) if not_theirs(turn, owners) => match state {
            _ if owners.end_with_the_turn() => (S::Running, None, R::HeadlessRunNotEnded),
            Some(open) if open.is_open() => (S::Idle, when_gone, R::TurnOlderThanItsOwners),
            Some(T::NotBegun) => (S::Idle, None, R::NoTurnYet),
            _ => (S::Idle, when_gone, R::TurnEnded),
        },
        (_, Some(T::Approval | T::Question)) => (S::Waiting, None, R::WaitsForPerson),
        (Liveness::Remote { state: RemoteState::Running, .. }, _) => (S::Running, None, R::GatewayRunning),
        (Liveness::Remote { state: RemoteState::Ready, .. }, _) => (S::Idle, when_gone, R::GatewayReady),
        (Liveness::Alive(owners), None | Some(T::NotBegun)) if owners.end_with_the_turn() => {
            (S::Running, None, R::HeadlessRunNotEnded)
        }
        // After a record that the turn has ended the agent may still try again; only its exit is final.
        (Liveness::Alive(owners), Some(T::Finished | T::Ended)) if owners.end_with_the_turn() => {
            (S::Running, None, R::HeadlessRunNotOver)
        }
        (Liveness::Alive(owners), Some(T::Failed | T::Interrupted)) if owners.end_with_the_turn() => {
            (S::Running, None, R::HeadlessRunAfterError)
        }
        (Liveness::Alive(_), Some(T::NotBegun)) => (S::Idle, None, R::NoTurnYet),
        (Liveness::Alive(_), Some(T::Finished | T::Failed | T::Interrupted | T::Ended)) => {
            (S::Idle, when_gone, R::TurnEnded)
        }
        (Liveness::Alive(_), Some(T::Open)) => (S::Running, None, R::TurnOpen),
        (Liveness::Alive(_), None) => (S::Unknown, None, R::AgentDoesNotSay),
    };
    let mut evidence = heard;
    let was_left_open = state.is_some_and(TurnState::is_open)
        && matches!(outcome, Some(Outcome::Died | Outcome::Interrupted));
    match exit {
        // The exit is evidence only if it adds to the records: how an open turn ended, or that agentctl ended the process.
        Some(LaunchExit::Seen(exit)) if was_left_open || (status == S::Stopped && exit.by.is_some()) => {
            evidence.push(Evidence::said(Witness::Launch, exit.describe(), Some(exit.at)));
        }
        Some(LaunchExit::Unwritten) if status == S::Stopped => {
            evidence.push(Evidence::said(Witness::Launch, LaunchExit::UNWRITTEN, None));
        }
        _ => {}
    }
    evidence.extend(liveness.evidence());
    Verdict { status, outcome, rule, evidence }
}

/// Chooses between the turn in the records and the turn that a live owner reports. The report is newer and counts, except
/// that "no turn is open" does not say how the last turn ended: then the records count, unless they show that turn as open.
pub fn prevailing(recorded: Option<Turn>, reported: Option<Turn>, owners: &Owners) -> Option<Turn> {
    match (recorded, reported) {
        (recorded, None) => recorded,
        (Some(recorded), Some(reported)) if reported.state == TurnState::Ended => {
            let left_open_by_these = recorded.state.is_open() && !not_theirs(Some(&recorded), owners);
            Some(if left_open_by_these { reported } else { recorded })
        }
        (_, reported) => reported,
    }
}

/// Whether all records of the turn are older than every process that owns the session now.
fn not_theirs(turn: Option<&Turn>, owners: &Owners) -> bool {
    turn.is_some_and(|turn| owners.iter().all(|owner| turn.precedes(owner)))
}

#[cfg(test)]
mod tests;
