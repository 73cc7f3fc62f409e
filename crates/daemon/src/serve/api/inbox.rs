//! What waits for a person, over HTTP.

use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::read::inbox::A_DAY;
use agentctl_fleet::{Purpose, Store};
use agentctl_model::text::period::Since;
use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;

use super::extract::Id;
use super::sessions::{find, key, run_blocking, selector, shared_survey};
use super::{App, answer, json};
use crate::run::clock;
use crate::serve::problem::Problem;
use crate::serve::query::{Pairs, Parameter, Parameters};
use crate::serve::server::Peer;
use crate::serve::{chosen_sources, query};

pub(crate) const QUERY: Parameters = &[
    Parameter::since("since", "how far back failures of stopped sessions count; 1d by default"),
    Parameter::adapter("only sessions of this agent").repeatable(),
];

pub(crate) async fn list(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    RawQuery(raw): RawQuery,
    Extension(pairs): Extension<Pairs>,
) -> Result<Response, Problem> {
    let since = query::one(&pairs, "since").and_then(|text| Since::parse(text).ok());
    let adapters = query::adapters(&pairs);
    let fleet = chosen_sources::fleet(&*app.settings, &headers, &peer)?;
    let key = key("inbox", raw.as_deref(), &headers, &peer);
    let marks = marks(&app);
    let survey = move || json(&fleet.inbox(since.unwrap_or(A_DAY), adapters, &marks, clock::now()));
    shared_survey(&app, key, survey).await.map(answer)
}

/// Marks the failure of a session as done until its next turn.
pub(crate) async fn done(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Id(id): Id,
    Extension(pairs): Extension<Pairs>,
) -> Result<Response, Problem> {
    let selector = selector(id, &pairs);
    let (fleet, target) = find(&app, &peer, &headers, selector, Purpose::Act).await?;
    let put_away =
        run_blocking(move || json(&fleet.put_failure_away(&target, &marks(&app), clock::now())?));
    put_away.await.map(answer)
}

fn marks(app: &App) -> Marks {
    Marks::of(Store::at(app.home.folder()))
}
