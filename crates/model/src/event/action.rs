//! What a program asked for, and by whom.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ActionVerb {
    Launch,
    Send,
    Answer,
    Interrupt,
    Stop,
    /// A mode or a model was chosen.
    Choose,
}

/// A deed that a program asked for, whether it was done or refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Action {
    /// What was asked for.
    pub verb: ActionVerb,
    /// By which road: mcp or acp.
    #[schemars(length(min = 1, max = 20))]
    pub via: String,
    /// What the program calls itself; `null` if it does not say.
    pub client: Option<String>,
    /// The session that the program belongs to, where its environment names it.
    pub by: Option<String>,
    /// Why it was not done, as the code of a problem; `null` if it was.
    pub error: Option<String>,
}
