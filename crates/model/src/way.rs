//! Where a session of an agent can be spoken with, and what works there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Capability;

/// One way to speak with sessions of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Way {
    pub place: Place,
    /// What it goes over, and which sessions have it.
    pub over: &'static str,
    /// The commands that work there.
    pub commands: &'static [Command],
    /// How a held session takes them; `null` where nobody holds it.
    pub manners: Option<Manners>,
}

/// Where a session is spoken with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The runner of its launch keeps the agent's two-way line.
    Held,
    /// An agent's own server that a launch started for this session alone; it outlives the runner.
    PrivateServer,
    /// An agent's server that somebody else started.
    Server,
    /// A gateway, in which the session lives.
    Gateway,
    /// The agent's own screen in tmux, for a person.
    Terminal,
}

/// A command that reaches a live session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    Send,
    Approve,
    Deny,
    Answer,
    Interrupt,
    Attach,
}

/// What is peculiar to an agent that is held, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Manners {
    /// What becomes of a message in the middle of a turn.
    pub mid_turn: &'static str,
    /// Whether `approve --always` works for the session.
    pub always: &'static str,
    /// Where the reason of a denial goes.
    pub reason: Reason,
    /// Whether the agent asks questions that can be answered.
    pub questions: &'static str,
    /// What happens when the runner dies.
    pub without_runner: &'static str,
}

/// Where the reason of a denial goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    WithAnswer,
    AsMessage,
}

/// What can be done with every session that is held: each two-way protocol has words for it.
pub const OF_HELD_SESSIONS: [Capability; 3] = [Capability::Send, Capability::Approve, Capability::Interrupt];

impl Way {
    /// What this way makes possible, in the vocabulary of a session.
    pub fn gives(&self, capability: Capability) -> bool {
        let needed = match capability {
            Capability::Send => Command::Send,
            Capability::Approve => Command::Approve,
            Capability::Interrupt => Command::Interrupt,
            Capability::Peek | Capability::Stop | Capability::Resume | Capability::Fork => return false,
        };
        self.commands.contains(&needed)
    }
}

impl Place {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::PrivateServer => "private server",
            Self::Server => "server",
            Self::Gateway => "gateway",
            Self::Terminal => "terminal",
        }
    }

    /// Whether a launch with `--hold` makes such sessions.
    pub fn is_held(self) -> bool {
        matches!(self, Self::Held | Self::PrivateServer)
    }
}

impl Command {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Approve => "approve",
            Self::Deny => "deny",
            Self::Answer => "answer",
            Self::Interrupt => "interrupt",
            Self::Attach => "attach",
        }
    }
}

impl Reason {
    pub fn words(self) -> &'static str {
        match self {
            Self::WithAnswer => "with the answer",
            Self::AsMessage => "as the next message",
        }
    }
}
