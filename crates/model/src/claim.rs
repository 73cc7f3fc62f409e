//! What joining the two witnesses gives: which process says it carries which session.

use jiff::Timestamp;

use crate::evidence::Evidence;
use crate::process::{ProcessHead, ProcessRef};
use crate::session::{Found, Pending};
use crate::status::{Owner, Turn};

/// How firmly a process is tied to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tie {
    /// The agent itself says so: its registry, its lock, its argv.
    Exact,
    /// Nothing ties them, but there is exactly one process and one session that fit.
    OnlyCandidate,
    /// Nothing ties them and several fit: the session may or may not be carried.
    OneOfSeveral,
}

/// What a live owner itself says of the session at this moment; it stands above older records.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveReport {
    pub turn: Option<Turn>,
    pub detail: Option<String>,
    pub pending: Vec<Pending>,
    pub since: Option<Timestamp>,
    pub evidence: Vec<Evidence>,
}

/// One process says it carries one session.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub id: String,
    /// Tells apart two sessions that share an id (see `SessionKey::slot`).
    pub slot: Option<String>,
    pub owner: Owner,
    pub tie: Tie,
    /// "agent", or what else the process is to the session ("wrapper", "server").
    pub role: &'static str,
    pub command: String,
    pub testimony: Option<LiveReport>,
    /// What is known of a session that has no storage yet (an agent at its empty prompt).
    pub found: Option<Found>,
}

/// A live agent process that belongs to no stored session: an ephemeral run, or one just starting.
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

/// The answer of a join: claims, and the processes that nothing could be said of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Joined {
    pub claims: Vec<Claim>,
    pub strays: Vec<Stray>,
    /// A live process is not where the agent's notes say (it may be starting or stopping): read once more.
    pub unsettled: bool,
    /// A witness that this agent's sessions need is missing here: nobody may be called stopped.
    pub blind: Option<String>,
}
