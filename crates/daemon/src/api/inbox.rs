//! What waits for a person, over HTTP.

use agentctl_fleet::inbox::A_DAY;
use agentctl_model::period::Since;
use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;

use super::sessions::{key, shared_look};
use super::{App, answer, json};
use crate::problem::Problem;
use crate::query::{Pairs, Parameter, Parameters, adapter_words};
use crate::server::Peer;
use crate::{caller, clock, query};

pub(crate) const QUERY: Parameters = &[
    Parameter::since("since", "how far back failures of stopped sessions count; 1d unless told"),
    Parameter::word("adapter", "only sessions of this agent", adapter_words).repeatable(),
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
    let fleet = caller::fleet(&*app.settings, &headers, &peer)?;
    let key = key("inbox", raw.as_deref(), &headers, &peer);
    let look = move || json(&fleet.inbox(since.unwrap_or(A_DAY), adapters, clock::now()));
    shared_look(&app, key, look).await.map(answer)
}
