//! Sessions: the list, one session, and its explanation. Each answer is a survey that began after the
//! request.

use agentctl_fleet::{Explanation, Fleet, Purpose, Selector};
use agentctl_model::{SourceReport, Surveyed};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;

use super::extract::Id;
use super::{App, answer, json, unwritten, wants_whole};
use crate::run::{clock, descriptors};
use crate::serve::chosen_sources;
use crate::serve::problem::Problem;
use crate::serve::query;
use crate::serve::query::Pairs;
use crate::serve::server::Peer;
use crate::wire::{CALLER, SessionLookup};

pub(crate) async fn list(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    RawQuery(raw): RawQuery,
    Extension(pairs): Extension<Pairs>,
) -> Result<Response, Problem> {
    let (wanted, strict) = (query::list_from(&pairs), query::flag(&pairs, "strict"));
    let asks_agents = query::flag(&pairs, "all") || query::one(&pairs, "since").is_some();
    let wanted = agentctl_fleet::Query { asks_agents, ..wanted };
    let fleet = chosen_sources::fleet(&*app.settings, &headers, &peer)?;
    let whole = wants_whole(&headers);
    let (host, key) = (app.host.clone(), key("list", raw.as_deref(), &headers, &peer));
    let survey = move || {
        let listing = fleet.list(&wanted);
        if strict && listing.sources.iter().any(SourceReport::is_incomplete) {
            return Err(Problem::incomplete("not every source could be heard completely", listing.sources));
        }
        if whole {
            return json(&listing);
        }
        let body = listing.written(&host).map(Bytes::from).map_err(|error| unwritten(&error));
        // Nobody waits until ten thousand sessions are freed. Without a thread to be had they are freed here.
        let _ = std::thread::Builder::new().spawn(|| drop(listing));
        body
    };
    shared_survey(&app, key, survey).await.map(answer)
}

pub(crate) async fn one(State(app): State<App>, request: SessionRequest) -> Result<Response, Problem> {
    let (_, headers, _, _, Extension(pairs)) = &request;
    let whole = wants_whole(headers);
    let purpose = if query::flag_on_by_default(pairs, "usage") { Purpose::Show } else { Purpose::Read };
    look_up(&app, "one", request, (purpose, whole), move |found, sources| {
        if whole {
            json(&SessionLookup { found, sources, as_of: Some(clock::now()) })
        } else {
            json(&found.session)
        }
    })
    .await
}

pub(crate) async fn explain(State(app): State<App>, request: SessionRequest) -> Result<Response, Problem> {
    look_up(&app, "why", request, (Purpose::Read, false), |found, sources| {
        json(&Explanation::of(&found, &sources))
    })
    .await
}

/// Git is asked about the working tree, off the survey: it may take long.
pub(crate) async fn changes(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Id(id): Id,
    Extension(pairs): Extension<Pairs>,
) -> Result<Response, Problem> {
    let (fleet, found) = find(&app, &peer, &headers, selector(id, &pairs), Purpose::Read).await?;
    run_blocking(move || json(&fleet.changes(&found))).await.map(answer)
}

/// What a request about one session consists of.
type SessionRequest = (Extension<Peer>, HeaderMap, Id, RawQuery, Extension<Pairs>);

/// Finds the session and answers with what `render` makes of it. `whole` is the form of the error when there is not exactly
/// one such session.
async fn look_up(
    app: &App,
    what: &str,
    (Extension(peer), headers, Id(id), RawQuery(raw), Extension(pairs)): SessionRequest,
    (purpose, whole): (Purpose, bool),
    render: impl FnOnce(Surveyed, Vec<SourceReport>) -> Result<Bytes, Problem> + Send + 'static,
) -> Result<Response, Problem> {
    let selector = selector(id, &pairs);
    let fleet = chosen_sources::fleet(&*app.settings, &headers, &peer)?;
    let key = key(&format!("{what} {}", selector.text), raw.as_deref(), &headers, &peer);
    let survey = move || {
        let (found, sources) =
            fleet.find(&selector, purpose).map_err(|error| Problem::not_one(error, whole))?;
        render(found, sources)
    };
    shared_survey(app, key, survey).await.map(answer)
}

/// The text that selects a session, with the parameters that narrow it.
pub(super) fn selector(text: String, pairs: &Pairs) -> Selector {
    let narrow = |name| query::one(pairs, name).map(str::to_owned);
    Selector { text, adapter: narrow("adapter"), root: narrow("root"), cwd: narrow("cwd") }
}

/// Runs a survey on a blocking thread and shares it among all callers with the same question.
pub(super) async fn shared_survey(
    app: &App,
    key: String,
    survey: impl FnOnce() -> Result<Bytes, Problem> + Send + 'static,
) -> Result<Bytes, Problem> {
    let survey = move || enough_descriptors().and_then(|()| survey());
    let answered = app.answers.ask(key, Box::new(survey)).await;
    answered.unwrap_or_else(|| Err(Problem::failed("the survey failed; see the log of the daemon")))
}

/// The key of a question: two requests with the same key ask the same.
pub(super) fn key(what: &str, raw: Option<&str>, headers: &HeaderMap, peer: &Peer) -> String {
    let caller = headers.get(CALLER).filter(|_| matches!(peer, Peer::Unix { .. }));
    let raw = raw.unwrap_or_default();
    format!("{what}\n{raw}\n{caller:?}\n{}", wants_whole(headers))
}

/// Returns a fleet and the one session that the selector means.
pub(super) async fn find(
    app: &App,
    peer: &Peer,
    headers: &HeaderMap,
    selector: Selector,
    purpose: Purpose,
) -> Result<(Fleet, Surveyed), Problem> {
    let fleet = chosen_sources::fleet(&*app.settings, headers, peer)?;
    let survey = move || {
        enough_descriptors()?;
        let (found, _) = fleet.find(&selector, purpose).map_err(|error| Problem::not_one(error, false))?;
        Ok((fleet, found))
    };
    run_blocking(survey).await
}

/// A survey without enough descriptors would report healthy sources as failed and live processes as unseen,
/// so it is better not to start it.
fn enough_descriptors() -> Result<(), Problem> {
    if descriptors::suffice_for_a_look() {
        return Ok(());
    }
    Err(Problem::busy("the daemon has too few descriptors left to look at the fleet"))
}

/// Runs blocking work off the server's threads.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(Problem::failed("the survey failed; see the log of the daemon")))
}
