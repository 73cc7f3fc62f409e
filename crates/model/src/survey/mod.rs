//! Answers that may be partial, and the only two roads to a proof that a session ended.

pub(crate) mod twins;

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::claim::{LiveReport, Stray, Tie};
use crate::evidence::Evidence;
use crate::process::{PidNamespace, ProcessRef};
use crate::session::{Found, Session, SessionKey};
use crate::status::{RemoteState, Rule, Status};

/// How much of a source was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coverage {
    Complete,
    /// A file or row had to be left out; the warnings name it.
    Partial,
    TimedOut {
        after_ms: u64,
    },
    Failed {
        error: String,
    },
    NotInstalled,
}

impl Coverage {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::TimedOut { .. } => "timed-out",
            Self::Failed { .. } => "failed",
            Self::NotInstalled => "not-installed",
        }
    }

    /// Whether silence of this source means absence.
    pub fn proves_absence(&self) -> bool {
        matches!(self, Self::Complete | Self::NotInstalled)
    }

    pub fn error(&self) -> Option<String> {
        match self {
            Self::TimedOut { after_ms } => Some(format!("no answer for {after_ms} ms")),
            Self::Failed { error } => Some(error.clone()),
            Self::Complete | Self::Partial | Self::NotInstalled => None,
        }
    }
}

/// By what the kernel can tell that a process carries a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerIdentity {
    /// The agent wrote down pid and start time; both must match. Some write down where the pid counts, too.
    Process { pid: u32, start: u64, namespace: Option<PidNamespace> },
    /// Whoever holds a lock on this file.
    Lock { device: u64, inode: u64 },
    /// The agent wrote down its pid at this moment: whoever has it now must have been running by then.
    Since { pid: u32, at: Timestamp },
    /// This pid, if it holds this file open.
    OpenFile { pid: u32, path: PathBuf },
}

/// The agent's own note of who carries a session. Worth nothing until the kernel confirms the holder.
#[derive(Debug, Clone, PartialEq)]
pub struct Registration {
    pub id: String,
    pub slot: Option<String>,
    pub holder: OwnerIdentity,
    /// The file that says so, for evidence.
    pub place: PathBuf,
    pub headless: bool,
    /// What the live holder says of the session now.
    pub testimony: Option<LiveReport>,
    /// What the note itself says of a session that has no records yet.
    pub found: Option<Found>,
}

/// A gateway's word about one session that lives in it. There is no process to look for: this decides.
#[derive(Debug, Clone, PartialEq)]
pub struct Remote {
    pub id: String,
    pub slot: Option<String>,
    pub word: RemoteState,
    /// Its words, and when they were heard.
    pub evidence: Evidence,
    /// What else it says of the session at this moment, such as what it waits for.
    pub testimony: LiveReport,
}

/// What one source gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Harvest {
    pub found: Vec<Found>,
    /// Notes of the agent itself about live processes, stale ones included.
    pub registrations: Vec<Registration>,
    /// What a gateway says of the sessions that live in it; of those the kernel knows nothing.
    pub remote: Vec<Remote>,
    pub coverage: Coverage,
    pub warnings: Vec<String>,
    /// Record types the adapter does not know, with how often they were seen: format drift, for `doctor`.
    pub drift: BTreeMap<String, u64>,
}

impl Harvest {
    pub fn complete(found: Vec<Found>) -> Self {
        Self { found, ..Self::nothing(Coverage::Complete) }
    }

    pub fn nothing(coverage: Coverage) -> Self {
        Self {
            found: Vec::new(),
            registrations: Vec::new(),
            remote: Vec::new(),
            coverage,
            warnings: Vec::new(),
            drift: BTreeMap::new(),
        }
    }

    /// Something had to be left out: the source is partial and says what.
    pub fn left_out(&mut self, warning: String) {
        if self.coverage == Coverage::Complete {
            self.coverage = Coverage::Partial;
        }
        self.warnings.push(warning);
    }
}

/// The health of one source, part of every answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceReport {
    /// The agent whose source it is.
    pub adapter: String,
    /// The folder or address that was asked.
    pub root: String,
    /// How much of it was heard.
    #[schemars(extend("enum" = ["complete", "partial", "timed-out", "failed", "not-installed"]))]
    pub coverage: String,
    /// Why it could not be heard.
    pub error: Option<String>,
    /// What was left out, and why.
    pub warnings: Vec<String>,
    /// How many sessions it gave (sub-agents included); `null` when it gave no answer.
    pub sessions: Option<usize>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

impl SourceReport {
    pub fn proves_absence(&self) -> bool {
        matches!(self.coverage.as_str(), "complete" | "not-installed")
    }

    /// It gave no answer at all.
    pub fn failed(&self) -> bool {
        matches!(self.coverage.as_str(), "failed" | "timed-out")
    }

    /// Not everything was heard, and the user should know.
    pub fn is_incomplete(&self) -> bool {
        !self.proves_absence()
    }
}

/// A session with what a survey knows beyond the public object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Surveyed {
    pub key: SessionKey,
    /// Boxed, since lists of thousands are sorted and narrowed.
    pub session: Box<Session>,
    /// Where its records are.
    pub place: PathBuf,
    /// Which line of the law decided.
    pub rule: Rule,
    /// The processes that carry it, in the order of `session.processes`. Whoever acts on them looks for himself.
    #[serde(skip)]
    pub carriers: Vec<OwnerProcess>,
}

/// A process that carries a session, by its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerProcess {
    pub process: ProcessRef,
    /// As in [`crate::Claim::role`].
    pub role: &'static str,
    pub tie: Tie,
}

/// One whole answer: every session that was found, and how well each source was heard.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Survey {
    pub sessions: Vec<Surveyed>,
    pub sources: Vec<SourceReport>,
    /// Live agent processes that belong to no stored session, by adapter.
    pub strays: Vec<(String, Stray)>,
    /// Unknown record types by adapter, for `doctor`.
    pub drift: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Proof that a session ended. It cannot be made by hand: only [`Survey::prove_ended`] gives one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended(SessionKey);

impl Ended {
    pub fn key(&self) -> &SessionKey {
        &self.0
    }
}

impl Survey {
    /// This answer, completed by a later and closer one. A source is heard completely only if it was both times.
    #[must_use]
    pub fn and(mut self, closer: Self) -> Self {
        for report in closer.sources {
            match self.sources.iter_mut().find(|old| old.adapter == report.adapter && old.root == report.root)
            {
                Some(old) if old.proves_absence() => *old = report,
                Some(_) => {}
                None => self.sources.push(report),
            }
        }
        self.sessions.retain(|old| !closer.sessions.iter().any(|new| new.key == old.key));
        self.sessions.extend(closer.sessions);
        self
    }

    /// The session was seen stopped, or is absent from an answer that was complete. Silence of a failed,
    /// late or partial source proves nothing. Only meaningful for a survey of everything stored.
    pub fn prove_ended(&self, key: &SessionKey) -> Option<Ended> {
        if let Some(seen) = self.sessions.iter().find(|surveyed| surveyed.key == *key) {
            return (seen.session.status == Status::Stopped).then(|| Ended(key.clone()));
        }
        let source =
            self.sources.iter().find(|source| source.adapter == key.adapter && source.root == key.root)?;
        source.proves_absence().then(|| Ended(key.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(id: &str) -> SessionKey {
        SessionKey { adapter: "a".into(), root: "/r".into(), id: id.into(), slot: None }
    }

    fn report(coverage: &Coverage) -> SourceReport {
        SourceReport {
            adapter: "a".into(),
            root: "/r".into(),
            coverage: coverage.as_str().into(),
            error: coverage.error(),
            warnings: vec![],
            sessions: None,
            took_ms: 1,
        }
    }

    fn coverage() -> impl Strategy<Value = Coverage> {
        prop_oneof![
            Just(Coverage::Complete),
            Just(Coverage::Partial),
            (0u64..9000).prop_map(|after_ms| Coverage::TimedOut { after_ms }),
            ".*".prop_map(|error| Coverage::Failed { error }),
            Just(Coverage::NotInstalled),
        ]
    }

    proptest! {
        /// The founding bug: a source that was late or failed must never prove that its sessions ended.
        #[test]
        fn silence_proves_nothing(seen in coverage()) {
            let survey = Survey { sources: vec![report(&seen)], ..Survey::default() };
            let proof = survey.prove_ended(&key("x"));
            prop_assert_eq!(proof.is_some(), matches!(seen, Coverage::Complete | Coverage::NotInstalled));
        }
    }

    #[test]
    fn a_source_that_was_not_asked_proves_nothing() {
        assert_eq!(Survey::default().prove_ended(&key("x")), None);
    }
}
