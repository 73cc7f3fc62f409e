//! One session: its identity, what its agent has stored about it, and the object that users see.

pub mod transcript;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::evidence::Evidence;
use crate::launch::exit::EndedBy;
use crate::status::{Outcome, Status, Turn};
use crate::usage::Call;

/// The identity of a session: the agent's own id within one config root.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionKey {
    pub adapter: String,
    pub root: String,
    pub id: String,
    /// Distinguishes two sessions with the same id, for agents that allow this (Pi: one per directory).
    #[serde(rename = "slot")]
    pub variant: Option<String>,
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

/// What kind of answer a session waits for.
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
    /// What kind of answer it needs.
    pub kind: PendingKind,
    /// The request, in the words of the agent.
    pub summary: Option<String>,
    /// Waits since; `null` if the agent does not say.
    pub since: Option<Timestamp>,
    /// Whether `approve`, `deny` or `answer` would be taken now.
    pub answerable: bool,
    /// The agent's own id of the request, which never names two requests of one session; `null` if it has none.
    pub id: Option<String>,
    /// What the agent offers to choose from.
    pub options: Vec<PendingOption>,
    /// When a limit ends, where the agent's records say it; else `null`.
    #[serde(rename = "limitedUntil", default)]
    pub limited_until: Option<Timestamp>,
}

impl Pending {
    /// A request that is known only by its kind and its words.
    pub fn new(kind: PendingKind, summary: Option<String>, since: Option<Timestamp>) -> Self {
        Self { kind, summary, since, answerable: false, id: None, options: Vec::new(), limited_until: None }
    }

    #[must_use]
    pub fn answerable(self, answerable: bool) -> Self {
        Self { answerable, ..self }
    }

    /// Whether a person who has read one of the two has read the other: it is about the same thing in the same words. Since
    /// when it waits is told differently by records and by who holds the agent, and only the latter knows its id.
    pub fn is_same_request(&self, other: &Self) -> bool {
        let is_other = self.id.is_some() && other.id.is_some() && self.id != other.id;
        !is_other && self.kind == other.kind && self.summary == other.summary
    }
}

/// One way to answer a request, as the agent offers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PendingOption {
    /// The agent's own id of the option.
    pub id: String,
    /// The agent's words for it.
    pub label: String,
    pub kind: OptionKind,
    pub scope: OptionScope,
}

/// What choosing an option means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OptionKind {
    AllowOnce,
    AllowAlways,
    Deny,
    DenyAlways,
    Other,
}

/// How far the choice of an option reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OptionScope {
    Once,
    Session,
    Project,
    User,
    Unknown,
}

/// How a session came from another.
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

    pub fn as_str(self) -> &'static str {
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

/// What the agent has stored about a session. `None` means that the agent does not say.
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
    /// Every model call, where calls were asked for and the agent tells them apart.
    pub calls: Option<Arc<[Call]>>,
    pub parent: Option<Parent>,
    pub meta: Meta,
}

/// Extras of one adapter. What agentctl itself goes by has a field of its own; as a map these are the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Box<NativeSession>>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// The session of another agent that a gateway runs behind one of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeSession {
    pub adapter: String,
    pub id: String,
    /// The config root that it lives in, where the gateway says so.
    pub root: Option<String>,
}

impl From<Map<String, Value>> for Meta {
    fn from(others: Map<String, Value>) -> Self {
        Self { native: None, others }
    }
}

impl Deref for Meta {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.others
    }
}

impl DerefMut for Meta {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.others
    }
}

/// The state of a file when it was read: equal stamps mean that nothing was written since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub size: u64,
    pub modified: Option<Timestamp>,
}

/// One stored session.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub id: String,
    pub variant: Option<String>,
    /// The file or database that contains it: `peek` reads it and `explain` names it.
    pub place: PathBuf,
    /// The state of `place` when it was read, for agents that have one file per session.
    pub stamp: Option<Stamp>,
    pub facts: Facts,
    /// The evidence of the records about the turn, strongest first. May be empty, because the kernel's evidence is added.
    pub evidence: Vec<Evidence>,
}

/// The role of a process in a session. Stops depend on it: a wrapper is never taken for the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessRole {
    /// It runs the session.
    Agent,
    /// It started the agent and waits for it.
    Wrapper,
    /// It runs the session, and may run others.
    Server,
    /// A process of the session started it.
    Tool,
    /// It belongs to agentctl and waits for the agent of a launch.
    Runner,
    /// It still runs although its session is over.
    Orphan,
}

impl ProcessRole {
    pub const ALL: [Self; 6] =
        [Self::Agent, Self::Wrapper, Self::Server, Self::Tool, Self::Runner, Self::Orphan];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Wrapper => "wrapper",
            Self::Server => "server",
            Self::Tool => "tool",
            Self::Runner => "runner",
            Self::Orphan => "orphan",
        }
    }
}

impl fmt::Display for ProcessRole {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A process of a session, as users see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessEntry {
    /// Its number now.
    pub pid: u32,
    /// When it started.
    pub started_at: Option<Timestamp>,
    /// What it is for the session: agent, wrapper, tool, ...
    #[schemars(with = "String")]
    pub role: ProcessRole,
    /// The name of its program.
    pub command: String,
}

/// What agentctl knows of a session because it started it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LaunchInfo {
    /// The id of the launch.
    pub id: String,
    /// When it was launched.
    pub launched_at: Option<Timestamp>,
    /// What was said to the agent.
    pub prompt: Option<String>,
    /// The group it was launched in.
    pub group: Option<String>,
    /// What the launcher wrote on it.
    pub labels: Map<String, Value>,
    /// The working tree that was made for it.
    pub worktree: Option<String>,
    /// The branch of that working tree.
    pub branch: Option<String>,
    /// The specification that went along.
    pub spec: Option<String>,
    /// The files that went along.
    pub files: Vec<String>,
    /// With which code the agent exited.
    pub exit_code: Option<i32>,
    /// Which signal ended the agent.
    pub exit_signal: Option<i32>,
    /// When the agent exited.
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
    /// Which agent it is of.
    pub adapter: String,
    /// The folder in which its agent keeps it, or the address of its gateway.
    pub config_root: String,
    /// The machine it is on, by the name under which that machine was asked.
    #[serde(default)]
    pub host: String,
    /// What is true of it now.
    pub status: Status,
    /// How its last turn ended; `null` while one is open, and where nobody says.
    pub outcome: Option<Outcome>,
    /// Words for a person: what it waits for, why it failed, why it is unknown.
    pub status_detail: Option<String>,
    /// In this status since, by the agent's own records.
    pub since: Option<Timestamp>,
    /// What it waits for a person to do.
    pub pending: Vec<Pending>,
    /// What the agent or a person called it.
    pub name: Option<String>,
    /// The first user prompt; cut to 200 characters in lists.
    pub prompt: Option<String>,
    /// The last text of the agent; cut to 200 characters in lists.
    pub last_message: Option<String>,
    /// The folder it works in.
    pub cwd: Option<String>,
    /// The git branch it works on, where its agent wrote it down.
    pub branch: Option<String>,
    /// The model that answered last.
    pub model: Option<String>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When something was last written of it.
    pub updated_at: Option<Timestamp>,
    /// When it stopped, where that is known.
    pub stopped_at: Option<Timestamp>,
    /// What it has used, where its agent says so; in lists only where that is quickly known.
    pub tokens: Option<Tokens>,
    /// US dollars, only if the agent says it or the price is known.
    pub cost: Option<f64>,
    /// The main process, `null` when there is none.
    pub pid: Option<u32>,
    /// All processes that carry it, the main one first.
    pub processes: Vec<ProcessEntry>,
    /// The session it came from.
    pub parent_id: Option<String>,
    /// How it came from its parent.
    pub relation: Option<Relation>,
    /// The group it was launched in.
    pub group: Option<String>,
    /// What agentctl knows because it launched it; `null` for all others.
    pub launch: Option<LaunchInfo>,
    /// What can be done with it now.
    pub capabilities: Vec<Capability>,
    /// Why this status, strongest first; never empty.
    pub evidence: Vec<Evidence>,
    /// Extras of one adapter.
    #[schemars(with = "Map<String, Value>")]
    pub meta: Meta,
}

impl Session {
    /// Whether a plain list shows the session: it is running, waiting, unknown, or idle in a local process.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_the_same_word_on_the_wire_and_on_the_screen() {
        for role in ProcessRole::ALL {
            let wire = serde_json::to_value(role).unwrap();
            assert_eq!(wire, role.as_str());
            assert_eq!(serde_json::from_value::<ProcessRole>(wire).unwrap(), role);
        }
    }
}
