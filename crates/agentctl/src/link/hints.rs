//! A daemon's word that something changed: a hint to look again, and no more. Whoever gets none looks by himself, as often as
//! if there were no daemon; one that goes away in the middle changes nothing but that.

use std::io;
use std::time::Duration;

use agentctl_daemon::{DaemonStatus, encode, joined};
use agentctl_model::{SourceReport, Surveyed};

use crate::link::Asking;
use crate::link::client::{Ask, Client, Stream};

/// How long one hint is waited for: so soon Ctrl-C or a reader that left is noticed.
pub(crate) const BREATH: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(crate) struct Hints(Option<Stream>);

impl Hints {
    /// Of any change that the daemon sees.
    pub(crate) fn of_changes(asking: &Asking) -> Self {
        Self::from(asking.daemon.as_ref(), "/v1/events")
    }

    /// Of changes of these sessions; none if the daemon does not watch where all of them are.
    pub(crate) fn of_sessions(asking: &Asking, sessions: &[Surveyed]) -> Self {
        let answering = asking.daemon.as_ref().filter(|daemon| !daemon.is_silent());
        let watched = answering.and_then(watched).unwrap_or_default();
        let is_watched = |session: &Surveyed| {
            let key = &session.key;
            watched.iter().any(|source| source.adapter == key.adapter && source.root == key.root)
        };
        if sessions.iter().all(is_watched) { Self::of_changes(asking) } else { Self::default() }
    }

    /// Of what is added to a conversation, and of its end.
    pub(crate) fn of_messages(asking: &Asking, session: &Surveyed) -> Self {
        let key = &session.key;
        let narrow =
            [("limit", "0".to_owned()), ("adapter", key.adapter.clone()), ("root", key.root.clone())];
        let target = format!("/v1/sessions/{}/messages/stream?{}", encode(&key.id), joined(&narrow));
        Self::from(asking.daemon.as_ref(), &target)
    }

    fn from(daemon: Option<&Client>, target: &str) -> Self {
        let daemon = daemon.filter(|daemon| !daemon.is_silent());
        let stream = daemon.and_then(|daemon| daemon.listen(target, None).ok());
        Self(stream.and_then(|mut stream| stream.wait_at_most(BREATH).is_ok().then_some(stream)))
    }

    pub(crate) fn are_given(&self) -> bool {
        self.0.is_some()
    }

    /// The kind of the next hint, if one comes within a breath. Without a daemon this does not wait.
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
}

/// The sources whose changes the daemon tells of.
fn watched(daemon: &Client) -> Option<Vec<SourceReport>> {
    let answer = daemon.ask(Ask::get("/v1/daemon")).ok()?;
    serde_json::from_slice::<DaemonStatus>(&answer.body).ok().map(|status| status.sources)
}
