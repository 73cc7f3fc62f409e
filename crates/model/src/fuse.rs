//! A limit that the user set on a directory or a session. Data only: the daemon keeps fuses and acts on them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::SessionKey;

/// How far a fuse has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    Set,
    /// Four fifths of a session's limit are used.
    Warned,
    /// The limit was reached, and whoever is to hear of it is told.
    Reached,
    /// The session was asked to break off.
    Interrupted,
    /// What happens at the end is happening.
    Firing,
}

/// What happens when a fuse expires, beside the event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OnExpire {
    /// A command line of the shell, run in the directory.
    pub script: Option<String>,
    /// An address that is told.
    pub webhook: Option<String>,
    /// A name for whoever reads the event.
    pub event: Option<String>,
}

/// One fuse, as it is shown and as it lies on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fuse {
    pub id: String,
    /// Of a directory's fuse.
    pub directory: Option<String>,
    /// Of a session's fuse.
    pub session_id: Option<String>,
    pub adapter: Option<String>,
    pub config_root: Option<String>,
    /// What tells two sessions of one id apart, where an agent lets one stand twice.
    #[serde(rename = "slot")]
    pub variant: Option<String>,
    pub label: Option<String>,
    pub set_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub max_tokens: Option<u64>,
    pub max_cost: Option<f64>,
    pub on_expire: OnExpire,
    pub stage: Stage,
    /// When that stage was reached.
    pub stage_at: Timestamp,
}

impl Fuse {
    pub fn session(&self) -> Option<SessionKey> {
        Some(SessionKey {
            adapter: self.adapter.clone()?,
            root: self.config_root.clone()?,
            id: self.session_id.clone()?,
            variant: self.variant.clone(),
        })
    }

    /// Whether both are on the same directory or session.
    pub fn is_about(&self, other: &Self) -> bool {
        match &self.directory {
            Some(directory) => other.directory.as_ref() == Some(directory),
            None => self.session() == other.session(),
        }
    }
}
