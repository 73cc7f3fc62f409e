//! What happened: one type from the comparison of two surveys to the stream, the webhook and the command of the user.

mod action;
mod view;

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::directory::DirectoryHolder;
use crate::fuse::Fuse;
use crate::session::{Session, SessionKey};
use crate::status::Status;
use crate::survey::SourceReport;

pub use action::{Action, ActionVerb};
pub use view::View;

/// Every type of event.
// The variants have ordinary comments: a doc comment would turn the flat list of names in the published schema into a list
// of alternatives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum EventKind {
    // A process owns the session now, and none did in the survey before.
    #[serde(rename = "session.started")]
    SessionStarted,
    #[serde(rename = "session.running")]
    SessionRunning,
    #[serde(rename = "session.waiting")]
    SessionWaiting,
    #[serde(rename = "session.idle")]
    SessionIdle,
    #[serde(rename = "session.stopped")]
    SessionStopped,
    // The session was live, and its agent keeps no record of it.
    #[serde(rename = "session.gone")]
    SessionGone,
    #[serde(rename = "lock.acquired")]
    LockAcquired,
    #[serde(rename = "lock.released")]
    LockReleased,
    #[serde(rename = "fuse.set")]
    FuseSet,
    #[serde(rename = "fuse.extended")]
    FuseExtended,
    #[serde(rename = "fuse.warned")]
    FuseWarned,
    #[serde(rename = "fuse.expired")]
    FuseExpired,
    #[serde(rename = "source.failed")]
    SourceFailed,
    #[serde(rename = "source.recovered")]
    SourceRecovered,
    #[serde(rename = "launch.exited")]
    LaunchExited,
    // A program asked for something to be done, and it was done or refused.
    #[serde(rename = "action.done")]
    ActionDone,
    // A reader of the stream missed events.
    #[serde(rename = "reset")]
    Reset,
    // The state of everything, for a reader that begins.
    #[serde(rename = "snapshot")]
    Snapshot,
}

impl EventKind {
    /// What can happen, without the two kinds that belong to the stream itself.
    pub const HAPPENINGS: [Self; 16] = [
        Self::SessionStarted,
        Self::SessionRunning,
        Self::SessionWaiting,
        Self::SessionIdle,
        Self::SessionStopped,
        Self::SessionGone,
        Self::LockAcquired,
        Self::LockReleased,
        Self::FuseSet,
        Self::FuseExtended,
        Self::FuseWarned,
        Self::FuseExpired,
        Self::SourceFailed,
        Self::SourceRecovered,
        Self::LaunchExited,
        Self::ActionDone,
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStarted => "session.started",
            Self::SessionRunning => "session.running",
            Self::SessionWaiting => "session.waiting",
            Self::SessionIdle => "session.idle",
            Self::SessionStopped => "session.stopped",
            Self::SessionGone => "session.gone",
            Self::LockAcquired => "lock.acquired",
            Self::LockReleased => "lock.released",
            Self::FuseSet => "fuse.set",
            Self::FuseExtended => "fuse.extended",
            Self::FuseWarned => "fuse.warned",
            Self::FuseExpired => "fuse.expired",
            Self::SourceFailed => "source.failed",
            Self::SourceRecovered => "source.recovered",
            Self::LaunchExited => "launch.exited",
            Self::ActionDone => "action.done",
            Self::Reset => "reset",
            Self::Snapshot => "snapshot",
        }
    }

    /// The names of everything that can happen.
    pub fn names() -> [&'static str; 16] {
        Self::HAPPENINGS.map(Self::as_str)
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::HAPPENINGS.into_iter().chain([Self::Reset, Self::Snapshot]).find(|kind| kind.as_str() == name)
    }

    /// Whether it is about a session's status.
    pub fn is_of_session(self) -> bool {
        matches!(
            self,
            Self::SessionStarted
                | Self::SessionRunning
                | Self::SessionWaiting
                | Self::SessionIdle
                | Self::SessionStopped
                | Self::SessionGone
        )
    }

    /// The event that a session with this status causes; a status that is not known causes none.
    fn of(status: Status) -> Option<Self> {
        match status {
            Status::Running => Some(Self::SessionRunning),
            Status::Waiting => Some(Self::SessionWaiting),
            Status::Idle => Some(Self::SessionIdle),
            Status::Stopped => Some(Self::SessionStopped),
            Status::Unknown => None,
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// One thing that happened: to a session, a source, a fuse or a lock.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// What happened. The message on the wire has it in its own place.
    #[serde(skip)]
    pub kind: EventKind,
    pub adapter: Option<String>,
    pub session_id: Option<String>,
    /// The status before, if it was known.
    pub previous: Option<Status>,
    /// The session now; as it was last seen when it is gone.
    pub session: Option<Box<Session>>,
    /// Of `source.*`: its health.
    pub source: Option<SourceReport>,
    /// Of `fuse.*`: the fuse.
    pub fuse: Option<Box<Fuse>>,
    /// Of `lock.*`: who holds the directory, or held it.
    pub lock: Option<Box<DirectoryHolder>>,
    /// Of `action.done`: what was asked for, and by whom.
    pub action: Option<Box<Action>>,
    /// Which session it is about.
    #[serde(skip)]
    pub key: Option<SessionKey>,
    /// When the first of the processes was started that owned the session before this.
    #[serde(skip)]
    pub owned_since: Option<Timestamp>,
}

impl Event {
    /// An event that is about nothing in particular yet.
    pub fn new(kind: EventKind) -> Self {
        Self {
            kind,
            adapter: None,
            session_id: None,
            previous: None,
            session: None,
            source: None,
            fuse: None,
            lock: None,
            action: None,
            key: None,
            owned_since: None,
        }
    }

    /// The end of a launched session, as its runner and the daemon tell it.
    pub fn stopped(adapter: &str, id: &str, session: Option<&Session>) -> Self {
        Self {
            adapter: Some(adapter.to_owned()),
            session_id: Some(id.to_owned()),
            session: session.cloned().map(Box::new),
            ..Self::new(EventKind::SessionStopped)
        }
    }

    fn of_session(kind: EventKind, key: &SessionKey, previous: Option<Status>, session: &Session) -> Self {
        Self {
            adapter: Some(key.adapter.clone()),
            session_id: Some(key.id.clone()),
            previous,
            session: Some(Box::new(session.clone())),
            key: Some(key.clone()),
            ..Self::new(kind)
        }
    }

    fn of_source(kind: EventKind, report: &SourceReport) -> Self {
        Self { adapter: Some(report.adapter.clone()), source: Some(report.clone()), ..Self::new(kind) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_one_name_everywhere() {
        for kind in EventKind::HAPPENINGS.into_iter().chain([EventKind::Reset, EventKind::Snapshot]) {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
            assert_eq!(EventKind::parse(kind.as_str()), Some(kind));
            assert_eq!(kind.is_of_session(), kind.as_str().starts_with("session."));
        }
        assert_eq!(EventKind::parse("session.asleep"), None);
    }

    #[test]
    fn the_schema_is_a_flat_list_of_names() {
        let schema = schemars::schema_for!(EventKind);
        assert_eq!(
            schema.get("enum").and_then(|names| names.as_array()).map(Vec::len),
            Some(18),
            "{schema:?}"
        );
    }
}
