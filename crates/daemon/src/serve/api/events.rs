//! The stream of events. A reader has no queue here: it reads the ring at its own pace and is notified when
//! it fell behind.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use agentctl_model::{Event, EventKind};
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::watch;

use super::App;
use crate::run::clock;
use crate::serve::query;
use crate::serve::query::{Pairs, Parameter, Parameters};
use crate::shared::Phase;
use crate::tell::events::{EventMessage, PublishedEvent, Read, written};

// A type that never occurs is refused, because a client would wait for it forever. Two types are always sent.
pub(crate) const QUERY: Parameters = &[
    Parameter::text("since", "go on behind this cursor, as Last-Event-ID does"),
    Parameter::word("type", "only events of this type; reset and snapshot always come", kinds).repeatable(),
    Parameter::adapter("only events of this agent").repeatable(),
    Parameter::flag("snapshot", "begin with the current state of everything"),
];
/// How many events are read from the ring at once.
const PORTION: usize = 64;

struct Reader {
    app: App,
    /// The number of the last event that this reader has read.
    read: u64,
    kinds: Vec<EventKind>,
    adapters: Vec<String>,
    newest: watch::Receiver<u64>,
    phase: watch::Receiver<Phase>,
    ready: VecDeque<sse::Event>,
}

pub(crate) async fn stream(
    State(app): State<App>,
    headers: HeaderMap,
    Extension(pairs): Extension<Pairs>,
) -> Response {
    app.first_survey().await;
    let kinds = query::every(&pairs, "type").filter_map(EventKind::parse).collect();
    let last = headers.get("last-event-id").and_then(|cursor| cursor.to_str().ok());
    let cursor = last.or(query::one(&pairs, "since")).filter(|cursor| !cursor.is_empty());
    let mut reader = Reader {
        read: app.hub.newest(),
        kinds,
        adapters: query::adapters(&pairs),
        newest: app.hub.listen(),
        phase: app.phase.subscribe(),
        ready: VecDeque::new(),
        app,
    };
    match cursor.map(|cursor| reader.app.hub.number(cursor)) {
        Some(Some(number)) => reader.read = number,
        Some(None) => reader.begin_anew(true),
        None if query::flag(&pairs, "snapshot") => reader.begin_anew(false),
        None => {
            // This gives the reader a cursor before anything happens.
            let cursor = reader.app.hub.cursor(reader.read);
            reader.ready.push_back(sse::Event::default().id(cursor).comment("listening"));
        }
    }
    let events = stream::unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

impl Reader {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            // The notification is cleared before the ring is read, so an event that is posted afterwards
            // notifies again.
            self.newest.borrow_and_update();
            match self.app.hub.after(self.read, PORTION) {
                Read::Missed => self.begin_anew(true),
                Read::Events(events) if !events.is_empty() => self.take(&events),
                Read::Events(_) => tokio::select! {
                    posted = self.newest.changed() => posted.ok()?,
                    _ = self.phase.wait_for(|phase| *phase != Phase::Serving) => return None,
                },
            }
        }
    }

    fn take(&mut self, events: &[Arc<PublishedEvent>]) {
        for posted in events {
            self.read = posted.number;
            let EventMessage { cursor, event, .. } = &posted.message;
            let typed = self.kinds.is_empty() || self.kinds.contains(&event.kind);
            let adapter = event.adapter.as_ref();
            if typed && (self.adapters.is_empty() || adapter.is_some_and(|name| self.adapters.contains(name)))
            {
                let line = sse::Event::default().id(cursor).event(event.kind.as_str()).data(&posted.json);
                self.ready.push_back(line);
            }
        }
    }

    /// Sends the current state. If events were missed, a `reset` event says so first.
    fn begin_anew(&mut self, missed: bool) {
        let (newest, snapshot) = self.app.live.snapshot(&self.app);
        if missed {
            let reset =
                EventMessage::new(Event::new(EventKind::Reset), snapshot.cursor.clone(), clock::now());
            self.ready.push_back(line(&reset));
        }
        self.ready.push_back(line(&snapshot));
        self.read = newest;
    }
}

/// Every type of event, and the two that a reader cannot exclude.
fn kinds() -> Vec<&'static str> {
    EventKind::names().into_iter().chain([EventKind::Reset.as_str(), EventKind::Snapshot.as_str()]).collect()
}

fn line(message: &EventMessage) -> sse::Event {
    sse::Event::default().id(&message.cursor).event(message.event.kind.as_str()).data(written(message))
}
