//! The search over HTTP: a stream of hits, newest session first, and a last event that says how much was heard.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::path::PathBuf;

use agentctl_adapters::search::Pattern;
use agentctl_fleet::{SearchEnd, SearchQuery, Since, Told};
use agentctl_model::Role;
use agentctl_model::search::Hit;
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use schemars::JsonSchema;
use tokio::sync::mpsc;

use super::App;
use crate::serve::problem::Problem;
use crate::serve::query::{Pairs, Parameter, Parameters};
use crate::serve::server::Peer;
use crate::serve::{chosen_sources, query};
use crate::shared::Phase;
use crate::tell::events::written;

/// What the events of a search carry: hits, and how it ended.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it is the shape of what is sent, and is never made")]
pub(crate) enum SearchMessage {
    Hit(Box<Hit>),
    End(SearchEnd),
}

pub(crate) const QUERY: Parameters = &[
    Parameter::text("q", "words that must all be in one message").required().repeatable(),
    Parameter::flag("regex", "the words are regular expressions"),
    Parameter::flag("ignore-case", "ignore case even if a word has a capital letter"),
    Parameter::word("role", "only what this one said or did", role_words).repeatable(),
    Parameter::adapter("only sessions of this agent").repeatable(),
    Parameter::text("cwd", "only sessions that work in this folder or below").repeatable(),
    Parameter::text("group", "only sessions launched as this group"),
    Parameter::since("since", "only messages from this moment on; all by default"),
    Parameter::number("limit", "at most this many hits, 50 by default"),
    Parameter::number("context", "this many lines before and after the line that fits"),
    Parameter::flag("files-with", "one hit for each session"),
];

/// How many hits are found if nobody says.
const HITS: usize = 50;
/// The most that one search gives.
const MOST: usize = 10_000;
const MOST_LINES: usize = 100;

const ROLES: [(&str, Role); 3] = [("user", Role::User), ("agent", Role::Agent), ("tool", Role::Tool)];

fn role_words() -> Vec<&'static str> {
    ROLES.iter().map(|(word, _)| *word).collect()
}

pub(crate) async fn stream(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Extension(pairs): Extension<Pairs>,
) -> Result<Response, Problem> {
    let asked = from(&pairs)?;
    let fleet = chosen_sources::fleet(&*app.settings, &headers, &peer)?;
    // The channel is small: a client that does not read only holds up its own search.
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        let send = |kind: &str, data: String| {
            let event = sse::Event::default().event(kind).data(data);
            if sender.blocking_send(event).is_err() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let end = fleet.search(&asked, &mut |told| {
            if sender.is_closed() || *app.phase.borrow() != Phase::Serving {
                return ControlFlow::Break(());
            }
            match told {
                Told::Hit(hit) => send("hit", written(&hit)),
                Told::Progress { .. } => ControlFlow::Continue(()),
            }
        });
        let _ = send("end", written(&end));
    });
    let lines = stream::unfold(receiver, |mut receiver| async move {
        let event: sse::Event = receiver.recv().await?;
        Some((Ok::<_, Infallible>(event), receiver))
    });
    Ok(Sse::new(lines).keep_alive(KeepAlive::default()).into_response())
}

/// What these pairs ask for.
fn from(pairs: &Pairs) -> Result<SearchQuery, Problem> {
    let words: Vec<String> = query::every(pairs, "q").map(str::to_owned).collect();
    let pattern = Pattern::new(&words, query::flag(pairs, "regex"), query::flag(pairs, "ignore-case"))
        .map_err(|error| Problem::usage(format!("this cannot be searched: {error}")))?;
    let roles = query::every(pairs, "role")
        .filter_map(|word| ROLES.iter().find(|(known, _)| *known == word).map(|(_, role)| *role));
    Ok(SearchQuery {
        pattern,
        roles: roles.collect(),
        adapters: query::adapters(pairs),
        folders: query::every(pairs, "cwd").map(PathBuf::from).collect(),
        group: query::one(pairs, "group").map(str::to_owned),
        since: query::one(pairs, "since").and_then(|text| Since::parse(text).ok()).unwrap_or(Since::Ever),
        limit: query::number(pairs, "limit").unwrap_or(HITS).min(MOST),
        around: query::number(pairs, "context").unwrap_or(0).min(MOST_LINES),
        once: query::flag(pairs, "files-with"),
    })
}
