//! Who holds a directory: a person who locked it, or a live session that works there.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::Status;
use crate::text;

/// Whether a person said so, or a live session shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LockType {
    Manual,
    Auto,
}

/// One who holds a directory, with the evidence: who locked it and why, or which process of which session is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DirectoryHolder {
    #[serde(rename = "type")]
    pub lock_type: LockType,
    /// What is held: the locked directory, or the git working tree (outside of git the directory) the session works in.
    pub directory: String,
    pub by: Option<String>,
    pub reason: Option<String>,
    /// When it was locked, or when the process started.
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub session_id: Option<String>,
    pub adapter: Option<String>,
    pub config_root: Option<String>,
    pub cwd: Option<String>,
    pub pid: Option<u32>,
    pub status: Option<Status>,
    /// The machine on which it is held.
    #[serde(default)]
    pub host: String,
}

/// For refusals: "locked by ann (deploying) until …", "claude-code session 5f0c… works there (running, pid 4242)".
impl fmt::Display for DirectoryHolder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = text::one_line(&self.directory);
        if let (Some(id), Some(adapter)) = (&self.session_id, &self.adapter) {
            write!(out, "{adapter} session {} works in {directory}", text::one_line(id))?;
            let status = self.status.map_or("unknown", Status::as_str);
            let pid = self.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
            return write!(out, " ({status}{pid})");
        }
        write!(
            out,
            "{directory} is locked by {}",
            self.by.as_deref().map_or_else(|| "somebody".into(), text::one_line)
        )?;
        if let Some(reason) = &self.reason {
            write!(out, " ({})", text::one_line(reason))?;
        }
        self.until.map_or(Ok(()), |until| write!(out, " until {until:.0}"))
    }
}
