//! What a search finds.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::transcript::Role;
use crate::status::Status;

/// One message that fits, with the session that it stands in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    pub session_id: String,
    pub adapter: String,
    pub config_root: String,
    /// The machine that it is on.
    pub host: String,
    /// When it was said; `null` if the agent does not record it.
    pub at: Option<Timestamp>,
    pub role: Role,
    /// The tool's name, for what tools were given and answered.
    pub tool: Option<String>,
    /// Where it stands: `logs ID --at HIT` opens there.
    pub hit: String,
    /// The line that fits, cut around the match if it is long.
    pub line: String,
    /// Where the matches are, in characters of the line.
    pub matches: Vec<(usize, usize)>,
    /// The lines before it, if they were asked for.
    pub before: Vec<String>,
    /// The lines after it, if they were asked for.
    pub after: Vec<String>,
    /// What its session is doing now.
    #[schemars(with = "String")]
    pub status: Status,
    /// The name of its session, or the beginning of its first prompt.
    pub name: Option<String>,
    /// The directory of its session.
    pub cwd: Option<String>,
}
