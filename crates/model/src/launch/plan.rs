//! How an intent is carried out: which process is started, and how a session is ended. Plans are data: adapters make them,
//! and one executor carries them out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A process to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpawnPlan {
    /// The name of the program, to be found on the `PATH`, or a path.
    pub program: String,
    pub args: Vec<String>,
    /// Variables to set. What agents leave in the environment of their children is removed for every launch.
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    pub stdin: Stdin,
    pub id: IdSource,
}

/// What the process reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stdin {
    /// The words, from a file.
    Words,
    /// Nothing: the words are in the arguments.
    Nothing,
    /// A person's keys: the process has a terminal, and the first words are in the arguments.
    Terminal,
}

/// Where the session's id comes from. It is always the agent's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdSource {
    /// The agent is told which one, or goes on with one that it has.
    Known(String),
    /// The agent says it in its first words.
    FirstWords,
    /// The agent says it only when it is done: a survey shows which session its process has begun.
    Seen,
}

/// The output of a started process so far.
#[derive(Debug, Clone, Copy)]
pub struct FirstWords<'a> {
    pub stdout: &'a str,
    pub stderr: &'a str,
}

/// The clean way to end a session, which is tried before a harder one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopWay {
    /// A signal to its owner.
    Signal(CleanSignal),
    /// A command of the agent.
    Run(SpawnPlan),
    /// A request to the server that runs it. The server also runs other sessions and is never signalled.
    Ask,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanSignal {
    Interrupt,
    Terminate,
}
