//! Conversations: the last messages, and what is added to them.

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

use super::asked::Id;
use super::sessions::{beside, find, selector};
use super::{App, answer, json};
use crate::serve::problem::Problem;
use crate::serve::query;
use crate::serve::query::{Pairs, Parameter, Parameters};
use crate::serve::server::Peer;
use crate::shared::Phase;
use crate::tell::events::written;

pub(crate) const PAGE: Parameters = &[
    Parameter::number("limit", "how many entries, 20 unless told"),
    Parameter::number("before", "leave out this many of the newest, to page back"),
];
pub(crate) const BACKLOG: Parameters =
    &[Parameter::number("limit", "how many entries to begin with, 20 unless told")];
const ENTRIES: usize = 20;
/// The most that is read for one page.
const MOST: usize = 10_000;

/// How often it is asked whether the session still lives, and the longest wait for a file that nobody told of.
const ASK: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(500);

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
    let entries = beside(move || read(&fleet, &found, limit, before)).await?;
    json(&Messages { entries }).map(answer)
}

fn read(fleet: &Fleet, found: &Surveyed, limit: usize, before: usize) -> Result<Vec<Entry>, Problem> {
    let mut entries = match fleet.read(found, limit + before) {
        Ok(entries) => entries,
        // An agent at its empty prompt has not written anything yet.
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
    // Small: a reader who does not read keeps its own thread waiting, and nothing else.
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || follow(&app, &fleet, found, backlog, &sender));
    let lines = stream::unfold(receiver, |mut receiver| async move {
        let event: sse::Event = receiver.recv().await?;
        Some((Ok::<_, Infallible>(event), receiver))
    });
    Ok(Sse::new(lines).keep_alive(KeepAlive::default()).into_response())
}

/// Sends what is added until the session has stopped, the reader went away, or the daemon ends.
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
    let (mut asked, mut beat) = (Instant::now(), 0);
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
        // Whoever ended may have written a last word before; the look above came after the verdict.
        if ended {
            let _ = out.blocking_send(sse::Event::default().event("end").data("{}"));
            return;
        }
        if out.is_closed() || *app.phase.borrow() != Phase::Serving {
            return;
        }
        if asked.elapsed() >= ASK {
            asked = Instant::now();
            let survey = fleet.survey(&Query::one(&found.key));
            ended = survey.prove_ended(&found.key).is_some();
            let moved =
                survey.sessions.into_iter().find(|seen| seen.key == found.key && seen.place != found.place);
            if let Some(moved) = moved {
                // With its first message a session gets a conversation to follow.
                if let Ok(Some(begun)) = fleet.follow(&moved, usize::MAX) {
                    news = begun;
                    found = moved;
                }
            }
            continue;
        }
        beat = app.live.wait_behind(beat, LOOK);
    }
}
