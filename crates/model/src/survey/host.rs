//! How a machine was heard, as every answer over several machines says it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CoverageKind;

/// The road by which a machine is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Road {
    Local,
    Ssh,
}

impl Road {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Ssh => "ssh",
        }
    }
}

/// One machine. What was not heard of it is `null`: it says nothing about its sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostReport {
    pub name: String,
    pub via: Road,
    #[schemars(with = "String")]
    pub coverage: CoverageKind,
    /// Why it was not heard, or not completely.
    pub error: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Of agentctl there.
    pub version: Option<String>,
    /// How many sessions it told.
    pub sessions: Option<usize>,
    pub live: Option<usize>,
    pub waiting: Option<usize>,
    /// Its own clock when it answered. Times of two machines are never compared.
    pub as_of: Option<Timestamp>,
    pub took_ms: u64,
}
