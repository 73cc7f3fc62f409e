//! The events since this daemon started: one ring that every reader reads at its own pace. A reader that
//! falls behind has to start again from a snapshot; no reader waits for another.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use agentctl_model::{Event, EventKind, Session, SourceReport};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;

use crate::run::clock;

/// How many events can be read again.
const KEPT: usize = 1024;

/// One event as it is on the wire: what happened, when, and its place in the stream.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Event")]
pub struct EventMessage {
    /// Give it back as `Last-Event-ID` or `since` to go on behind it.
    pub cursor: String,
    /// What happened; `reset` when events were missed, `snapshot` for the current state of everything.
    #[serde(rename = "type")]
    pub kind: EventKind,
    pub at: Timestamp,
    /// The machine on which it happened.
    #[serde(default)]
    pub host: String,
    #[serde(flatten)]
    pub event: Event,
    /// Of `snapshot` alone: every live session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Vec<Session>>,
    /// Of `snapshot` alone: the health of every source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<SourceReport>>,
}

impl EventMessage {
    pub(crate) fn new(event: Event, cursor: String, at: Timestamp) -> Self {
        let host = agentctl_fleet::own_name();
        Self { cursor, kind: event.kind, at, host, event, sessions: None, sources: None }
    }
}

/// An event with its number, serialized once for all readers.
#[derive(Debug)]
pub(crate) struct PublishedEvent {
    pub(crate) number: u64,
    pub(crate) message: EventMessage,
    pub(crate) json: String,
}

#[derive(Debug)]
struct Ring {
    events: VecDeque<Arc<PublishedEvent>>,
    /// The number of the next event; the first is 1.
    next: u64,
}

pub(crate) struct Hub {
    /// Names this run of the daemon, within which the numbers count.
    life: String,
    ring: Mutex<Ring>,
    newest: watch::Sender<u64>,
}

/// The result of reading the ring.
pub(crate) enum Read {
    Events(Vec<Arc<PublishedEvent>>),
    /// Events were missed: they are no longer kept, or belonged to another run of the daemon.
    Missed,
}

impl Hub {
    pub(crate) fn new(life: String) -> Self {
        let ring = Ring { events: VecDeque::new(), next: 1 };
        Self { life, ring: Mutex::new(ring), newest: watch::channel(0).0 }
    }

    fn ring(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn post(&self, event: Event) -> Arc<PublishedEvent> {
        let mut ring = self.ring();
        let number = ring.next;
        ring.next += 1;
        let message = EventMessage::new(event, self.cursor(number), clock::now());
        let posted = Arc::new(PublishedEvent { number, json: written(&message), message });
        ring.events.push_back(posted.clone());
        if ring.events.len() > KEPT {
            ring.events.pop_front();
        }
        drop(ring);
        self.newest.send_replace(number);
        posted
    }

    /// A receiver that is notified of every event.
    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    pub(crate) fn listeners(&self) -> usize {
        self.newest.receiver_count()
    }

    /// The number of the newest event.
    pub(crate) fn newest(&self) -> u64 {
        self.ring().next - 1
    }

    pub(crate) fn cursor(&self, number: u64) -> String {
        format!("{}-{number}", self.life)
    }

    /// The number behind a cursor; `None` when the cursor belongs to another run of the daemon.
    pub(crate) fn number(&self, cursor: &str) -> Option<u64> {
        let (life, number) = cursor.rsplit_once('-')?;
        (life == self.life).then(|| number.parse().ok()).flatten()
    }

    /// At most `most` events after this number.
    pub(crate) fn after(&self, number: u64, most: usize) -> Read {
        let ring = self.ring();
        let oldest = ring.next - ring.events.len() as u64;
        // A cursor may name any number, the largest too.
        if number >= ring.next || number + 1 < oldest {
            return Read::Missed;
        }
        let skip = usize::try_from(number + 1 - oldest).unwrap_or(usize::MAX);
        Read::Events(ring.events.iter().skip(skip).take(most).cloned().collect())
    }
}

pub(crate) fn written(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    // This is plain data, which can always be serialized, and the writer emits UTF-8.
    let _ = agentctl_model::text::json::write(&mut bytes, value);
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(read: Read) -> Option<Vec<u64>> {
        match read {
            Read::Events(events) => Some(events.iter().map(|posted| posted.number).collect()),
            Read::Missed => None,
        }
    }

    #[test]
    fn cursors_resume_exactly_and_say_when_they_are_too_old() {
        let hub = Hub::new("life".into());
        assert_eq!(numbers(hub.after(0, 9)), Some(vec![]));
        for _ in 0..5 {
            hub.post(Event::new(EventKind::FuseSet));
        }
        assert_eq!(numbers(hub.after(hub.number("life-2").unwrap(), 9)), Some(vec![3, 4, 5]));
        assert_eq!(numbers(hub.after(0, 2)), Some(vec![1, 2]));
        assert_eq!(numbers(hub.after(5, 9)), Some(vec![]));
        for future in ["life-6", "life-18446744073709551615"] {
            let number = hub.number(future).unwrap();
            assert_eq!(numbers(hub.after(number, 9)), None, "a cursor of the future is not ours");
        }
        assert_eq!(hub.number("other-2"), None);
        assert_eq!(hub.number("nonsense"), None);
        for _ in 0..KEPT {
            hub.post(Event::new(EventKind::FuseSet));
        }
        assert_eq!(numbers(hub.after(4, 9)), None);
        assert_eq!(numbers(hub.after(5, 1)), Some(vec![6]));
    }
}
