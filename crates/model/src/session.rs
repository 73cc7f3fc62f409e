//! One session: its identity, what the disk says of it, and the object users see.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::evidence::Evidence;
use crate::exit::EndedBy;
use crate::status::{Outcome, Status, Turn};

/// The agent's own identity of a session: its id within one config root.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionKey {
    pub adapter: String,
    pub root: String,
    pub id: String,
    /// Only where an agent lets one id stand twice (Pi: one per folder): what tells the two apart.
    pub slot: Option<String>,
}

/// Tokens of one session. A part the agent does not report is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// Input neither read from nor written to a cache.
    #[serde(rename = "in")]
    pub input: Option<u64>,
    #[serde(rename = "out")]
    pub output: Option<u64>,
    pub cache_read: Option<u64>,
    pub cache_write: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PendingKind {
    Approval,
    Question,
    Limit,
}

/// What a session waits for a person to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pending {
    pub kind: PendingKind,
    pub summary: Option<String>,
    pub since: Option<Timestamp>,
    /// Whether `approve`, `deny` or `answer` can reach it.
    pub answerable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    Subagent,
    Fork,
}

/// The session this one came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    pub id: String,
    pub relation: Relation,
}

/// What can be done with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    Peek,
    Stop,
    Resume,
    Send,
    Approve,
    Interrupt,
    Fork,
}

impl Capability {
    pub const ALL: [Self; 7] =
        [Self::Peek, Self::Stop, Self::Resume, Self::Send, Self::Approve, Self::Interrupt, Self::Fork];

    pub fn word(self) -> &'static str {
        match self {
            Self::Peek => "peek",
            Self::Stop => "stop",
            Self::Resume => "resume",
            Self::Send => "send",
            Self::Approve => "approve",
            Self::Interrupt => "interrupt",
            Self::Fork => "fork",
        }
    }
}

/// What the agent's storage says of a session. `None` = it does not say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    pub turn: Option<Turn>,
    pub name: Option<String>,
    pub prompt: Option<String>,
    pub last_message: Option<String>,
    pub cwd: Option<String>,
    pub branch: Option<String>,
    pub model: Option<String>,
    pub started_at: Option<Timestamp>,
    pub updated_at: Option<Timestamp>,
    pub stopped_at: Option<Timestamp>,
    pub tokens: Option<Tokens>,
    pub cost: Option<f64>,
    pub parent: Option<Parent>,
    pub meta: Map<String, Value>,
}

/// A file as it was when it was read: equal stamps mean that nothing was written since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub size: u64,
    pub modified: Option<Timestamp>,
}

/// One session seen on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub id: String,
    pub slot: Option<String>,
    /// The file or database that holds it: where `peek` reads and `explain` points.
    pub place: PathBuf,
    /// The state of `place` when it was read, where it is one file per session.
    pub stamp: Option<Stamp>,
    pub facts: Facts,
    /// What the records said about the turn, strongest first. May be empty: the kernel always testifies too.
    pub evidence: Vec<Evidence>,
}

/// A process of a session, as users see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessEntry {
    pub pid: u32,
    pub started_at: Option<Timestamp>,
    pub role: String,
    pub command: String,
}

/// What agentctl knows of a session because it started it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LaunchInfo {
    pub id: String,
    pub launched_at: Option<Timestamp>,
    pub prompt: Option<String>,
    pub group: Option<String>,
    pub labels: Map<String, Value>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    pub spec: Option<String>,
    pub files: Vec<String>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    pub exited_at: Option<Timestamp>,
    /// Why agentctl ended the process; `null` where it did not, or the process has not ended.
    #[serde(default)]
    pub ended_by: Option<EndedBy>,
}

/// The session object: the same in the CLI, over HTTP, in events and in webhooks.
/// Keys are always there; unknown is `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The agent's own id.
    pub id: String,
    pub adapter: String,
    pub config_root: String,
    pub status: Status,
    pub outcome: Option<Outcome>,
    /// Words for a person: what it waits for, why it failed, why it is unknown.
    pub status_detail: Option<String>,
    /// In this status since, by the agent's own records.
    pub since: Option<Timestamp>,
    pub pending: Vec<Pending>,
    pub name: Option<String>,
    /// The first user prompt; cut to 200 characters in lists.
    pub prompt: Option<String>,
    /// The last text of the agent; cut to 200 characters in lists.
    pub last_message: Option<String>,
    pub cwd: Option<String>,
    pub branch: Option<String>,
    pub model: Option<String>,
    pub started_at: Option<Timestamp>,
    pub updated_at: Option<Timestamp>,
    pub stopped_at: Option<Timestamp>,
    pub tokens: Option<Tokens>,
    /// US dollars, only if the agent says it or the price is known.
    pub cost: Option<f64>,
    /// The main process, `null` when there is none.
    pub pid: Option<u32>,
    pub processes: Vec<ProcessEntry>,
    pub parent_id: Option<String>,
    pub relation: Option<Relation>,
    pub group: Option<String>,
    pub launch: Option<LaunchInfo>,
    pub capabilities: Vec<Capability>,
    /// Why this status, strongest first; never empty.
    pub evidence: Vec<Evidence>,
    /// Extras of one adapter.
    pub meta: Map<String, Value>,
}

impl Session {
    /// Running, waiting, unknown, or idle in a local process: what a plain list shows.
    pub fn is_live(&self) -> bool {
        match self.status {
            Status::Running | Status::Waiting | Status::Unknown => true,
            Status::Idle => self.pid.is_some(),
            Status::Stopped => false,
        }
    }

    pub fn is_subagent(&self) -> bool {
        self.relation == Some(Relation::Subagent)
    }
}
