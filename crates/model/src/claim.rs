//! The result of joining the two witnesses: which process owns which session.

use jiff::Timestamp;

use crate::evidence::Evidence;
use crate::process::{ProcessHead, ProcessRef};
use crate::session::{Found, Pending, ProcessRole};
use crate::status::{Owner, Turn};

/// How firmly a process is tied to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tie {
    /// The agent's own registry, lock or arguments name the process or the session.
    Exact,
    /// Nothing names the other, but exactly one process and one session match.
    OnlyCandidate,
    /// Nothing names the other and several match: the session may or may not have an owner.
    OneOfSeveral,
}

/// What a live owner reports about the session now. It takes precedence over older records.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveReport {
    pub turn: Option<Turn>,
    pub detail: Option<String>,
    pub pending: Vec<Pending>,
    pub since: Option<Timestamp>,
    pub evidence: Vec<Evidence>,
}

/// The statement that one process owns one session.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub id: String,
    /// Distinguishes two sessions that share an id (see `SessionKey::variant`).
    pub variant: Option<String>,
    pub owner: Owner,
    pub tie: Tie,
    /// The role of the process in the session: agent, wrapper or server.
    pub role: ProcessRole,
    pub command: String,
    pub live_report: Option<LiveReport>,
    /// What is known about a session that is not stored yet (an agent at its empty prompt).
    pub found: Option<Found>,
}

/// A live agent process that belongs to no stored session, because its run is not stored or it is just starting.
#[derive(Debug, Clone, PartialEq)]
pub struct Stray {
    pub process: ProcessRef,
    pub command: String,
    pub cwd: Option<String>,
    pub started_at: Option<Timestamp>,
}

impl Stray {
    pub fn of(head: &ProcessHead, cwd: Option<String>) -> Self {
        Self { process: head.process, command: head.program().to_owned(), cwd, started_at: head.started_at }
    }
}

/// The result of a join: the claims, and the processes without a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Joined {
    pub claims: Vec<Claim>,
    pub strays: Vec<Stray>,
    /// A live process does not match the agent's notes, perhaps because it is starting or stopping: read both again.
    pub unsettled: bool,
    /// Why the kernel cannot show what this agent's sessions need; then no session may be called stopped.
    pub blind: Option<String>,
}
