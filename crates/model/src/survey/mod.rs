//! Surveys, which may be partial, and the only two ways to prove that a session has ended.

pub mod host;
pub(crate) mod twins;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::claim::{LiveReport, Stray, Tie};
use crate::evidence::Evidence;
use crate::process::{PidNamespace, ProcessRef};
use crate::session::{Found, ProcessRole, Session, SessionKey};
use crate::status::{RemoteState, Rule, Status};
use crate::usage::Call;

/// How completely a source was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coverage {
    Complete,
    /// Some files or rows could not be read; the warnings name them.
    Partial,
    TimedOut {
        after_ms: u64,
    },
    Failed {
        error: String,
    },
    NotInstalled,
}

/// The same as users see it, without the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoverageKind {
    Complete,
    Partial,
    TimedOut,
    Failed,
    NotInstalled,
}

impl CoverageKind {
    pub const ALL: [Self; 5] =
        [Self::Complete, Self::Partial, Self::TimedOut, Self::Failed, Self::NotInstalled];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::TimedOut => "timed-out",
            Self::Failed => "failed",
            Self::NotInstalled => "not-installed",
        }
    }

    /// Whether a session that this source does not mention does not exist.
    pub fn proves_absence(self) -> bool {
        matches!(self, Self::Complete | Self::NotInstalled)
    }
}

impl fmt::Display for CoverageKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl Coverage {
    pub fn kind(&self) -> CoverageKind {
        match self {
            Self::Complete => CoverageKind::Complete,
            Self::Partial => CoverageKind::Partial,
            Self::TimedOut { .. } => CoverageKind::TimedOut,
            Self::Failed { .. } => CoverageKind::Failed,
            Self::NotInstalled => CoverageKind::NotInstalled,
        }
    }

    pub fn error(&self) -> Option<String> {
        match self {
            Self::TimedOut { after_ms } => Some(format!("no answer for {after_ms} ms")),
            Self::Failed { error } => Some(error.clone()),
            Self::Complete | Self::Partial | Self::NotInstalled => None,
        }
    }
}

/// How the kernel can identify the process that owns a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerIdentity {
    /// The agent's note contains its pid and start time, and both must match. Some notes also contain the pid namespace.
    Process { pid: u32, start: u64, namespace: Option<PidNamespace> },
    /// The owner is the process that holds a lock on this file.
    Lock { device: u64, inode: u64 },
    /// The agent wrote its pid at this moment, so the process with that pid must have been running then.
    Since { pid: u32, at: Timestamp },
    /// The owner has this pid, if that process has this file open.
    OpenFile { pid: u32, path: PathBuf },
}

/// The agent's own note about which process owns a session. It proves nothing until the kernel confirms the owner.
#[derive(Debug, Clone, PartialEq)]
pub struct Registration {
    pub id: String,
    pub variant: Option<String>,
    pub holder: OwnerIdentity,
    /// The file with the note, for evidence.
    pub place: PathBuf,
    pub headless: bool,
    /// What the live owner reports about the session now.
    pub live_report: Option<LiveReport>,
    /// What the note itself contains about a session that has no records yet.
    pub found: Option<Found>,
}

/// The state that a gateway reports for one of its sessions. There is no process here, so this report decides.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteReport {
    pub id: String,
    pub variant: Option<String>,
    pub state: RemoteState,
    /// What the gateway reported, and when it was read.
    pub evidence: Evidence,
    /// What else it reports about the session now, such as pending requests.
    pub live_report: LiveReport,
}

/// What one source returned.
#[derive(Debug, Clone, PartialEq)]
pub struct Harvest {
    pub found: Vec<Found>,
    /// The agent's notes about its live processes, including stale ones.
    pub registrations: Vec<Registration>,
    /// What a gateway reports about its sessions, for which the kernel shows no process.
    pub remote: Vec<RemoteReport>,
    pub coverage: Coverage,
    pub warnings: Vec<String>,
    /// Record types that the adapter does not know, with their counts: `doctor` shows them as format drift.
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

    /// Records that something could not be read: the coverage becomes partial, and the warning says what is missing.
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
    /// The machine that it is on.
    #[serde(default)]
    pub host: String,
    /// How much of it was heard.
    #[schemars(with = "String", extend("enum" = ["complete", "partial", "timed-out", "failed", "not-installed"]))]
    pub coverage: CoverageKind,
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
        self.coverage.proves_absence()
    }

    /// Whether the source returned nothing at all.
    pub fn failed(&self) -> bool {
        matches!(self.coverage, CoverageKind::Failed | CoverageKind::TimedOut)
    }

    /// Whether something is missing, which the user should know.
    pub fn is_incomplete(&self) -> bool {
        !self.proves_absence()
    }
}

/// A session with what the survey knows beyond the public object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Surveyed {
    pub key: SessionKey,
    /// Boxed, because lists of thousands are sorted and filtered.
    pub session: Box<Session>,
    /// Where its records are.
    pub place: PathBuf,
    /// Which rule of the law decided.
    pub rule: Rule,
    /// Its owners, in the order of `session.processes`. A caller that acts on them inspects them again first.
    #[serde(skip)]
    pub owners: Vec<OwnerProcess>,
    /// As in [`crate::Facts::calls`].
    #[serde(skip)]
    pub calls: Option<Arc<[Call]>>,
}

impl AsRef<Session> for Surveyed {
    fn as_ref(&self) -> &Session {
        &self.session
    }
}

/// A process that owns a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerProcess {
    pub process: ProcessRef,
    /// As in [`crate::Claim::role`].
    pub role: ProcessRole,
    pub tie: Tie,
}

/// One whole answer: every session that was found, and how completely each source was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Survey {
    pub sessions: Vec<Surveyed>,
    pub sources: Vec<SourceReport>,
    /// Live agent processes that belong to no stored session, by adapter.
    pub strays: Vec<(String, Stray)>,
    /// Unknown record types with their counts, by adapter, for `doctor`.
    pub drift: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Proof that a session has ended. Only [`Survey::prove_ended`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended(SessionKey);

impl Ended {
    pub fn key(&self) -> &SessionKey {
        &self.0
    }
}

impl Survey {
    /// Combines this survey with a later one that read fewer sessions more closely. The coverage of a source is complete only
    /// if it was complete both times.
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

    /// The session has ended if it was seen stopped, or if it is absent although its source was read completely. Absence from
    /// a failed, late or partial source proves nothing. Call this only on a survey of everything that is stored.
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
        SessionKey { adapter: "a".into(), root: "/r".into(), id: id.into(), variant: None }
    }

    fn report(coverage: &Coverage) -> SourceReport {
        SourceReport {
            adapter: "a".into(),
            host: String::new(),
            root: "/r".into(),
            coverage: coverage.kind(),
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
        /// A source that was late or failed must never prove that its sessions have ended: agentctl exists because of
        /// this bug.
        #[test]
        fn silence_proves_nothing(seen in coverage()) {
            let survey = Survey { sources: vec![report(&seen)], ..Survey::default() };
            let proof = survey.prove_ended(&key("x"));
            prop_assert_eq!(proof.is_some(), matches!(seen, Coverage::Complete | Coverage::NotInstalled));
        }
    }

    #[test]
    fn coverage_is_the_same_word_on_the_wire_and_on_the_screen() {
        for kind in CoverageKind::ALL {
            let wire = serde_json::to_value(kind).unwrap();
            assert_eq!(wire, kind.as_str());
            assert_eq!(serde_json::from_value::<CoverageKind>(wire).unwrap(), kind);
        }
    }

    #[test]
    fn a_source_that_was_not_asked_proves_nothing() {
        assert_eq!(Survey::default().prove_ended(&key("x")), None);
    }
}
