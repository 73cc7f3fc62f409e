//! Conversations: the last messages, and a stream of those that are added.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use agentctl_fleet::{Fleet, Purpose, Query};
use agentctl_model::{Entry, Status, Surveyed};
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::mpsc;

use super::extract::Id;
use super::sessions::{find, run_blocking, selector};
use super::{App, answer, json};
use crate::serve::problem::Problem;
use crate::serve::query;
use crate::serve::query::{Pairs, Parameter, Parameters};
use crate::serve::server::Peer;
use crate::shared::Phase;
use crate::tell::events::written;

pub(crate) const PAGE: Parameters = &[
    Parameter::number("limit", "how many entries, 20 by default"),
    Parameter::number("before", "leave out this many of the newest, to page back"),
    Parameter::text("at", "the entries around this hit of a search instead of the last ones"),
];
pub(crate) const BACKLOG: Parameters =
    &[Parameter::number("limit", "how many entries to begin with, 20 by default")];
const ENTRIES: usize = 20;
/// The most entries that are read for one page.
const MOST: usize = 10_000;

/// How often the stream checks whether the session still lives (`CHECK_INTERVAL`), and how long it waits for a file
/// change at most.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// What `/messages` answers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Messages {
    /// Oldest first.
    pub entries: Vec<Entry>,
}

pub(crate) async fn page(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Id(id): Id,
    Extension(pairs): Extension<Pairs>,
) -> Result<Response, Problem> {
    let limit = query::number(&pairs, "limit").unwrap_or(ENTRIES).min(MOST);
    let before = query::number(&pairs, "before").unwrap_or(0).min(MOST);
    let (fleet, found) = find(&app, &peer, &headers, selector(id, &pairs), Purpose::Read).await?;
    let at = query::one(&pairs, "at").map(str::to_owned);
    let entries = run_blocking(move || match at {
        Some(hit) => around(&fleet, &found, &hit, limit),
        None => read(&fleet, &found, limit, before),
    });
    let entries = entries.await?;
    json(&Messages { entries }).map(answer)
}

/// The entries around a hit, which stands in the middle of them.
fn around(fleet: &Fleet, found: &Surveyed, hit: &str, limit: usize) -> Result<Vec<Entry>, Problem> {
    let both = (limit / 2, limit.saturating_sub(limit / 2 + 1));
    let shown = fleet.read_around(found, hit, both).map_err(|error| Problem::failed(error.to_string()))?;
    let gone = || Problem::not_found(format!("nothing stands at `{hit}` in this session; search again"));
    shown.map(|(entries, _)| entries).ok_or_else(gone)
}

fn read(fleet: &Fleet, found: &Surveyed, limit: usize, before: usize) -> Result<Vec<Entry>, Problem> {
    let mut entries = match fleet.read(found, limit + before) {
        Ok(entries) => entries,
        // An agent at its empty prompt has not written a file yet.
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Problem::failed(error.to_string())),
    };
    entries.truncate(entries.len().saturating_sub(before));
    Ok(entries)
}

pub(crate) async fn stream(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Id(id): Id,
    Extension(pairs): Extension<Pairs>,
) -> Result<Response, Problem> {
    let backlog = query::number(&pairs, "limit").unwrap_or(ENTRIES).min(MOST);
    let (fleet, found) = find(&app, &peer, &headers, selector(id, &pairs), Purpose::Read).await?;
    // The channel is small: a client that does not read only blocks the thread of its own stream.
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || follow(&app, &fleet, found, backlog, &sender));
    let lines = stream::unfold(receiver, |mut receiver| async move {
        let event: sse::Event = receiver.recv().await?;
        Some((Ok::<_, Infallible>(event), receiver))
    });
    Ok(Sse::new(lines).keep_alive(KeepAlive::default()).into_response())
}

/// Sends new entries until the session has stopped, the client has disconnected, or the daemon ends.
fn follow(app: &App, fleet: &Fleet, mut found: Surveyed, backlog: usize, out: &mpsc::Sender<sse::Event>) {
    let fail = |words: String| {
        let _ =
            out.blocking_send(sse::Event::default().event("error").data(written(&Problem::failed(words))));
    };
    let mut news = match fleet.follow(&found, backlog) {
        Ok(Some(news)) => news,
        Ok(None) => return fail("this session keeps no records that could be followed".to_owned()),
        Err(error) => return fail(error.to_string()),
    };
    let mut ended = found.session.status == Status::Stopped;
    let (mut asked, mut changes) = (Instant::now(), 0);
    loop {
        let entries = match news.next() {
            Ok(entries) => entries,
            Err(error) => return fail(error.to_string()),
        };
        for entry in entries {
            if out.blocking_send(sse::Event::default().event("entry").data(written(&entry))).is_err() {
                return;
            }
        }
        // A process may write a last entry before it exits. The read above came after the verdict, so nothing
        // is missing.
        if ended {
            let _ = out.blocking_send(sse::Event::default().event("end").data("{}"));
            return;
        }
        if out.is_closed() || *app.phase.borrow() != Phase::Serving {
            return;
        }
        if asked.elapsed() >= CHECK_INTERVAL {
            asked = Instant::now();
            let survey = fleet.survey(&Query::one(&found.key));
            ended = survey.prove_ended(&found.key).is_some();
            let moved =
                survey.sessions.into_iter().find(|seen| seen.key == found.key && seen.place != found.place);
            if let Some(moved) = moved {
                // A session gets a conversation to follow with its first message.
                if let Ok(Some(begun)) = fleet.follow(&moved, usize::MAX) {
                    news = begun;
                    found = moved;
                }
            }
            continue;
        }
        changes = app.live.wait_after(changes, POLL_INTERVAL);
    }
}
