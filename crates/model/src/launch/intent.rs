//! What a user wants an agent to do, as data. An adapter turns it into a plan.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much an agent may do without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// As the agent itself decides.
    Default,
    /// Look and plan, change nothing.
    Plan,
    /// Edit files without asking.
    AcceptEdits,
    /// Do everything without asking.
    Bypass,
}

impl Permission {
    pub const ALL: [Self; 4] = [Self::Default, Self::Plan, Self::AcceptEdits, Self::Bypass];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Plan => "plan",
            Self::AcceptEdits => "accept-edits",
            Self::Bypass => "bypass",
        }
    }
}

/// The conversation to which the prompt goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conversation {
    /// A new one.
    New,
    /// A stored one: its id and where its records are.
    #[serde(rename = "resume")]
    Stored { id: String, place: PathBuf },
    /// A new one that begins as a copy of a stored one.
    #[serde(rename = "fork")]
    ForkOf { id: String, place: PathBuf },
}

/// One headless turn: the agent exits when it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    pub conversation: Conversation,
    /// The prompt.
    pub words: String,
    pub cwd: PathBuf,
    pub model: Option<String>,
    pub permission: Option<Permission>,
    /// Instructions that are appended to the agent's own system prompt.
    pub system_prompt: Option<String>,
    /// An unused UUID, for agents that let the caller choose the id.
    pub fresh_id: String,
    /// Further arguments for the agent's program, passed on unchanged.
    pub more: Vec<String>,
    /// The folder that the agent must be told, for an agent that otherwise keeps nothing of such a session.
    pub store: Option<PathBuf>,
}
