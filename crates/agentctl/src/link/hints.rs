//! Hints from a daemon that something changed. A hint is only a reason to survey again. A command without
//! hints surveys as often as if there were no daemon, and a daemon that goes away in the middle has no other
//! effect.

use std::io;
use std::time::Duration;

use agentctl_daemon::{DaemonStatus, encode, joined};
use agentctl_model::{SourceReport, Surveyed};

use crate::link::Link;
use crate::link::client::{Ask, Client, Stream};

/// How long to wait for one hint, and so how soon Ctrl-C or a reader that left is noticed.
pub(crate) const HINT_TIMEOUT: Duration = Duration::from_millis(50);

/// How many hints are passed over at once.
const MOST: usize = 100_000;

#[derive(Default)]
pub(crate) struct Hints(Option<Stream>);

impl Hints {
    /// Hints of any change that the daemon sees.
    pub(crate) fn of_changes(link: &Link) -> Self {
        Self::from(link.daemon.as_ref(), "/v1/events")
    }

    /// Hints of changes to these sessions; none if the daemon does not watch all of their sources.
    pub(crate) fn of_sessions(link: &Link, sessions: &[Surveyed]) -> Self {
        let answering = link.daemon.as_ref().filter(|daemon| !daemon.is_silent());
        let watched = answering.and_then(watched).unwrap_or_default();
        let is_watched = |session: &Surveyed| {
            let key = &session.key;
            watched.iter().any(|source| source.adapter == key.adapter && source.root == key.root)
        };
        if sessions.iter().all(is_watched) { Self::of_changes(link) } else { Self::default() }
    }

    /// Hints of new entries in a conversation, and of its end.
    pub(crate) fn of_messages(link: &Link, session: &Surveyed) -> Self {
        let key = &session.key;
        let narrow =
            [("limit", "0".to_owned()), ("adapter", key.adapter.clone()), ("root", key.root.clone())];
        let target = format!("/v1/sessions/{}/messages/stream?{}", encode(&key.id), joined(&narrow));
        Self::from(link.daemon.as_ref(), &target)
    }

    fn from(daemon: Option<&Client>, target: &str) -> Self {
        let daemon = daemon.filter(|daemon| !daemon.is_silent());
        let stream = daemon.and_then(|daemon| daemon.listen(target, None).ok());
        Self(stream.and_then(|mut stream| stream.wait_at_most(HINT_TIMEOUT).is_ok().then_some(stream)))
    }

    /// The same hints for a caller that has nothing else to do meanwhile.
    pub(crate) fn patient(mut self, within: Duration) -> Self {
        let is_patient = self.0.as_mut().is_some_and(|stream| stream.wait_at_most(within).is_ok());
        if is_patient { self } else { Self(None) }
    }

    pub(crate) fn are_given(&self) -> bool {
        self.0.is_some()
    }

    /// The kind of the next hint, if one arrives within the timeout. Without a daemon this does not wait.
    pub(crate) fn next(&mut self) -> Option<String> {
        match self.0.as_mut().map(Stream::next)? {
            Ok(Some(event)) if event.kind != "error" => Some(event.kind),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            _ => {
                self.0 = None;
                None
            }
        }
    }

    /// Passes over the hints that have come already, because the next survey is an answer to all of them. With a survey for
    /// each, a storm of changes would be surveyed long after it is over.
    pub(crate) fn pass_over(&mut self) {
        let set_waiting = |hints: &mut Self, waits: bool| {
            if hints.0.as_mut().is_some_and(|stream| stream.set_waiting(waits).is_err()) {
                hints.0 = None;
            }
        };
        set_waiting(self, false);
        for _ in 0..MOST {
            if self.next().is_none() {
                break;
            }
        }
        set_waiting(self, true);
    }
}

/// The sources whose changes the daemon announces.
fn watched(daemon: &Client) -> Option<Vec<SourceReport>> {
    let answer = daemon.ask(Ask::get("/v1/daemon")).ok()?;
    serde_json::from_slice::<DaemonStatus>(&answer.body).ok().map(|status| status.sources)
}
