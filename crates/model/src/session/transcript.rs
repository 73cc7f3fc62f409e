//! What `peek` and `logs` show: a conversation as entries, oldest first.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who said or did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    User,
    Agent,
    Tool,
    System,
}

impl Role {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Agent => "agent",
            Self::Tool => "tool",
            Self::System => "system",
        }
    }
}

/// What it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    Message,
    ToolCall,
    ToolResult,
    Error,
    Notice,
}

/// One thing that was said or done in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    pub at: Option<Timestamp>,
    pub role: Role,
    pub kind: EntryKind,
    pub text: String,
    /// The tool's name, for calls and results.
    pub tool: Option<String>,
}
