//! What agentctl writes down about a launch: what was asked for, and what became of it. Never what is true of the session.

use std::collections::BTreeMap;
use std::path::PathBuf;

use agentctl_adapters::gateway::Addressee;
use agentctl_model::{Conversation, EndedBy, Intent, Permission, ProcessRef};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::worktree::Made;

/// The form of `launch.json`.
pub const VERSION: u32 = 1;

/// `launch.json`. Written before anything starts, and again whenever the runner learns something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub version: u32,
    pub id: String,
    pub launched_at: Timestamp,
    pub order: LaunchOrder,
    /// The agent's own id, once it is known.
    pub session_id: Option<String>,
    /// A survey has shown the turn: the launch is done, what follows is the session's life.
    pub settled: bool,
    /// What was made for this launch and is removed when it fails.
    pub made: Option<Made>,
    /// The process that was started. Who it is now is for the kernel to say.
    pub process: Option<ProcessMark>,
}

/// All that a launch is to do, as the user asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchOrder {
    pub adapter: String,
    /// The config root that the session will be stored under.
    pub root: String,
    pub conversation: Conversation,
    pub cwd: PathBuf,
    /// Somebody named the folder; otherwise it is only where the command was typed.
    #[serde(default)]
    pub cwd_is_chosen: bool,
    pub worktree: Option<WorktreeOrder>,
    pub model: Option<String>,
    pub permission: Option<Permission>,
    pub system_prompt: Option<String>,
    /// An id for agents that take one.
    pub fresh_id: String,
    /// The program to start instead of the agent's usual name.
    pub program: Option<PathBuf>,
    /// Variables for the agent. A value may be a secret, and only the start needs it: from then on it is `null`.
    pub env: BTreeMap<String, Option<String>>,
    pub group: Option<String>,
    /// What it is called in its group.
    #[serde(default)]
    pub slot: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub spec: Option<PathBuf>,
    pub files: Vec<PathBuf>,
    pub on_create: Option<String>,
    pub on_complete: Option<String>,
    /// Who is told when it is over.
    #[serde(default)]
    pub callback: Option<CallbackOrder>,
    pub timeout_ms: Option<u64>,
    /// Arguments for the agent's program, as they are.
    #[serde(default)]
    pub args: Vec<String>,
    /// Whatever holds the directory.
    pub force: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorktreeOrder {
    pub repository: PathBuf,
    pub branch: String,
    pub base: Option<String>,
}

/// Somebody in a gateway who is told how a session ended. The address of the gateway only: what opens it is looked up when
/// it is needed, and never written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallbackOrder {
    pub adapter: String,
    pub root: String,
    pub to: Addressee,
}

/// `callback.json`: how far the telling has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Callback {
    pub delivered_at: Option<Timestamp>,
    /// Why the last try failed.
    pub error: Option<String>,
    /// Nobody tries any more.
    pub given_up: bool,
}

/// A process identity on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessMark {
    pub pid: u32,
    pub start: u64,
    /// In hexadecimal: JSON has no numbers of this size.
    pub boot: String,
}

/// `exit.json`: how the process ended, as its parent saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exit {
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// `null` where nobody saw it: the runner was gone before.
    pub exited_at: Option<Timestamp>,
    /// It was ended because its time was up.
    pub timed_out: bool,
    /// Somebody had asked agentctl to end it.
    #[serde(default)]
    pub asked: bool,
    /// Why agentctl ended it. Older records say only that it did.
    #[serde(default)]
    pub ended_by: Option<EndedBy>,
    /// When it was found gone, for records that nobody closed.
    pub found_gone_at: Option<Timestamp>,
}

/// `failed.json`: why there is no session. Whoever asked for the launch reads it and removes the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    pub refused: bool,
    pub message: String,
    pub hint: Option<String>,
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
    /// No runner works on it: its session lives in a server, whose ends are its own and may be many.
    pub fn lives_in_a_server(&self) -> bool {
        let known = agentctl_adapters::registry().into_iter();
        let mut of_agent = known.filter(|adapter| adapter.card().name == self.order.adapter);
        of_agent.any(|adapter| adapter.gateway().is_some())
    }
}

impl LaunchOrder {
    /// What the adapter is to plan, once it is known where.
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
        }
    }

    /// The agent was started: of its variables only the names stay.
    pub fn forget_values(&mut self) {
        self.env.values_mut().for_each(|value| *value = None);
    }

    pub fn is_new(&self) -> bool {
        self.conversation == Conversation::New
    }
}
