//! What a webhook says. Pure.

use agentctl_model::{Outcome, Session, SourceReport};
use jiff::Timestamp;
use serde_json::Value;

use super::payload::{ExitStatus, Payload};
use crate::locks::DirectoryHolder;

/// Something that happened, to be told: the flat fields that receivers know, and the whole objects.
#[derive(Debug, Clone, Copy)]
pub struct Telling<'a> {
    /// The type of the event.
    pub kind: &'a str,
    pub at: Timestamp,
    pub session_id: Option<&'a str>,
    pub adapter: Option<&'a str>,
    pub session: Option<&'a Session>,
    pub source: Option<&'a SourceReport>,
    pub fuse: Option<&'a Value>,
    pub lock: Option<&'a DirectoryHolder>,
    /// What the process said with its end, where somebody saw it; otherwise the session's own launch says it.
    pub exit_code: Option<i32>,
}

impl Telling<'_> {
    /// The body, as it is sent.
    pub fn body(&self) -> String {
        let session = self.session;
        let exit = self.exit_code.or_else(|| session.and_then(|session| session.launch.as_ref()?.exit_code));
        let outcome = session.and_then(|session| session.outcome).map(Outcome::word);
        let label = self.fuse.and_then(|fuse| fuse.get("label")?.as_str());
        let value = Payload {
            hook_type: self.kind,
            session_id: self.session_id,
            adapter: self.adapter,
            duration_seconds: session.and_then(duration),
            exit_status: exit.map(ExitStatus::Code).or(outcome.map(ExitStatus::Outcome)),
            summary: session.and_then(|session| session.last_message.as_deref()).or(label),
            meta: session.map(|session| &session.meta),
            timestamp: self.at,
            session,
            source: self.source,
            fuse: self.fuse,
            lock: self.lock,
        };
        let mut bytes = Vec::new();
        // Plain data: it can always be written, and the writer makes text.
        let _ = agentctl_model::json::write(&mut bytes, &value);
        String::from_utf8(bytes).unwrap_or_default()
    }
}

/// How long a session lasted, by its own records.
pub fn duration(session: &Session) -> Option<f64> {
    let end = session.stopped_at.or(session.updated_at)?;
    Some(end.duration_since(session.started_at?).as_secs_f64().max(0.0))
}
