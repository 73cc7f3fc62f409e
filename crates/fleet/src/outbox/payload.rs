//! The body of a webhook, as it is on the wire.

use agentctl_model::{Session, SourceReport};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::locks::DirectoryHolder;

/// The flat fields that receivers know, and the whole objects.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Webhook")]
pub struct Payload<'a> {
    /// The type of the event.
    pub hook_type: &'a str,
    pub session_id: Option<&'a str>,
    pub adapter: Option<&'a str>,
    pub duration_seconds: Option<f64>,
    pub exit_status: Option<ExitStatus<'a>>,
    /// What the agent said last; of a fuse its label.
    pub summary: Option<&'a str>,
    pub meta: Option<&'a Map<String, Value>>,
    pub timestamp: Timestamp,
    pub session: Option<&'a Session>,
    pub source: Option<&'a SourceReport>,
    pub fuse: Option<&'a Value>,
    pub lock: Option<&'a DirectoryHolder>,
}

/// What the process said with its end, where somebody saw it; else the word for how the last turn ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ExitStatus<'a> {
    Code(i32),
    Outcome(&'a str),
}
