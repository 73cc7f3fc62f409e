//! What agentctl writes down about a launch: what was asked for, and what became of it. It never contains what is true
//! of the session.

use std::collections::BTreeMap;
use std::path::PathBuf;

use agentctl_adapters::gateway::Addressee;
use agentctl_model::{Capability, Conversation, EndedBy, Error, ErrorKind, Intent, Permission, ProcessRef};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::worktree::Made;

/// The version of the format of `launch.json`.
pub const VERSION: u32 = 1;

/// `launch.json`. It is written before anything starts, and again whenever the runner learns something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub version: u32,
    pub id: String,
    pub launched_at: Timestamp,
    pub order: LaunchOrder,
    /// The agent's own id, once it is known. An agent may go on in another session (`/clear`); then it is that one's.
    pub session_id: Option<String>,
    /// A survey has shown the turn: the launch itself is done, and what follows belongs to the session.
    pub settled: bool,
    /// What was made for this launch and is removed if it fails.
    pub made: Option<Made>,
    /// The process that was started. Only the kernel can say what this pid is now.
    pub process: Option<ProcessMark>,
}

/// Everything a launch is asked to do, as the user requested it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct LaunchOrder {
    pub adapter: String,
    /// The adapter over which it is started, if that is another way than the agent's own: `acp:NAME`.
    #[serde(default)]
    pub via: Option<String>,
    /// The config root that the session will be stored under.
    pub root: String,
    pub conversation: Conversation,
    pub cwd: PathBuf,
    /// The user named the directory; otherwise it is only where the command was typed.
    #[serde(default)]
    pub cwd_is_chosen: bool,
    pub worktree: Option<WorktreeOrder>,
    pub model: Option<String>,
    pub permission: Option<Permission>,
    pub system_prompt: Option<String>,
    /// A new id for agents that accept one.
    pub fresh_id: String,
    /// The program to start instead of the agent's usual one.
    pub program: Option<PathBuf>,
    /// Variables for the agent. A value may be a secret and only the start needs it, so after the start it is `null`.
    pub env: BTreeMap<String, Option<String>>,
    pub group: Option<String>,
    /// Its name in its group.
    #[serde(default)]
    pub slot: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub spec: Option<PathBuf>,
    pub files: Vec<PathBuf>,
    pub on_create: Option<String>,
    pub on_complete: Option<String>,
    /// Who in a gateway is notified when it is over.
    #[serde(default)]
    pub callback: Option<CallbackOrder>,
    pub timeout_ms: Option<u64>,
    /// The session stays after its first turn and can be spoken with.
    #[serde(default)]
    pub hold: bool,
    /// How long a held session may be idle before it is ended.
    #[serde(default)]
    pub idle_timeout_ms: Option<u64>,
    /// The agent shows its own screen, in a terminal that a person can open.
    #[serde(default)]
    pub terminal: bool,
    /// Arguments that are passed to the agent's program unchanged.
    #[serde(default)]
    pub args: Vec<String>,
    /// Launch even if the directory is held.
    pub force: bool,
    /// Resume only if the directory is free, as for a new session.
    #[serde(default)]
    pub unshared: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorktreeOrder {
    pub repository: PathBuf,
    pub branch: String,
    pub base: Option<String>,
}

/// The recipient in a gateway who is notified how a session ended. Only the address of the gateway is stored; its keys
/// are looked up when needed and never written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallbackOrder {
    pub adapter: String,
    pub root: String,
    pub to: Addressee,
}

/// `callback.json`: how far the notification has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Callback {
    pub delivered_at: Option<Timestamp>,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// There will be no further attempt.
    pub given_up: bool,
}

/// A process identity on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessMark {
    pub pid: u32,
    pub start: u64,
    /// In hexadecimal, because JSON numbers cannot hold this size.
    pub boot: String,
}

/// `exit.json`: how the process ended, as its parent saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exit {
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// `null` if the exit was not seen because the runner was gone before.
    pub exited_at: Option<Timestamp>,
    /// It was ended because its time was up.
    pub timed_out: bool,
    /// agentctl had been asked to end it.
    #[serde(default)]
    pub asked: bool,
    /// Why agentctl ended it. Older records only say that it did.
    #[serde(default)]
    pub ended_by: Option<EndedBy>,
    /// When the process was found gone, for records that no runner completed.
    pub found_gone_at: Option<Timestamp>,
}

/// `failed.json`: why there is no session. The caller of the launch reads it and removes the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    pub refused: bool,
    pub message: String,
    pub hint: Option<String>,
}

impl From<Error> for Failed {
    fn from(Error { kind, message, hint }: Error) -> Self {
        let refused = matches!(kind, ErrorKind::Refused | ErrorKind::Unsupported);
        Self { refused, message, hint }
    }
}

impl From<Failed> for Error {
    fn from(Failed { refused, message, hint }: Failed) -> Self {
        let kind = if refused { ErrorKind::Refused } else { ErrorKind::AgentFailed };
        Self { kind, message, hint }
    }
}

impl ProcessMark {
    pub fn of(process: ProcessRef) -> Self {
        Self { pid: process.pid, start: process.start, boot: format!("{:032x}", process.boot) }
    }

    pub fn process(&self) -> Option<ProcessRef> {
        let boot = u128::from_str_radix(&self.boot, 16).ok()?;
        Some(ProcessRef { pid: self.pid, start: self.start, boot })
    }
}

impl Exit {
    /// Why agentctl ended it, if it did.
    pub fn ended_by(&self) -> Option<EndedBy> {
        match &self.ended_by {
            Some(by) => Some(by.clone()),
            None if self.timed_out => Some(EndedBy::timeout(None)),
            None => self.asked.then(EndedBy::stop),
        }
    }
}

impl Record {
    /// No runner works on it: its session lives in a server, where it may end many times.
    pub fn lives_in_a_server(&self) -> bool {
        let known = agentctl_adapters::registry().into_iter();
        let mut of_agent = known.filter(|adapter| adapter.card().name == self.order.adapter);
        of_agent.any(|adapter| adapter.gateway().is_some())
    }
}

impl LaunchOrder {
    /// Returns the capability that the agent must have; every agent that can be launched can begin a new conversation.
    pub(crate) fn capability(&self) -> Option<Capability> {
        match &self.conversation {
            Conversation::New => None,
            Conversation::Stored { .. } => Some(Capability::Resume),
            Conversation::ForkOf { .. } => Some(Capability::Fork),
        }
    }

    /// Returns the intent for the adapter, once the directory is known.
    pub fn intent(&self, words: String, cwd: PathBuf) -> Intent {
        Intent {
            conversation: self.conversation.clone(),
            words,
            cwd,
            model: self.model.clone(),
            permission: self.permission,
            system_prompt: self.system_prompt.clone(),
            fresh_id: self.fresh_id.clone(),
            more: self.args.clone(),
            store: None,
        }
    }

    /// Forgets the values of the agent's variables after the start; only the names stay.
    pub fn forget_values(&mut self) {
        self.env.values_mut().for_each(|value| *value = None);
    }

    pub fn is_new(&self) -> bool {
        self.conversation == Conversation::New
    }
}
