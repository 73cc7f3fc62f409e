//! The body of a webhook, as it is on the wire.

use agentctl_model::{DirectoryHolder, Fuse, Meta, Session, SourceReport};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// The flat fields that receivers know, and the whole objects.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Webhook")]
pub struct Payload<'a> {
    /// The type of the event.
    pub hook_type: &'a str,
    pub session_id: Option<&'a str>,
    pub adapter: Option<&'a str>,
    pub duration_seconds: Option<f64>,
    /// How the last turn ended; the code of the process, where somebody saw it, stands in `session.launch`.
    pub exit_status: Option<&'a str>,
    /// What the agent said last; of a session that waits the request, and of a fuse its label.
    pub summary: Option<&'a str>,
    #[schemars(with = "Option<Map<String, Value>>")]
    pub meta: Option<&'a Meta>,
    pub timestamp: Timestamp,
    pub session: Option<&'a Session>,
    pub source: Option<&'a SourceReport>,
    pub fuse: Option<&'a Fuse>,
    pub lock: Option<&'a DirectoryHolder>,
}
