//! What waits for a person, over HTTP.

use agentctl_fleet::inbox::A_DAY;
use agentctl_model::period::Since;
use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;

use super::routes::Names;
use super::sessions::{key, shared_look};
use super::{App, answer, json};
use crate::problem::Problem;
use crate::server::Peer;
use crate::{caller, clock, query};

pub(crate) const QUERY: Names = &[
    (
        "since",
        "how far back failures of stopped sessions count: 7d, an RFC 3339 time, or all; 1d unless told",
    ),
    ("adapter", "only sessions of this agent; repeatable"),
];

pub(crate) async fn list(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let pairs = query::parse(raw.as_deref(), &[QUERY])?;
    let wrong = |why: String| Problem::usage(format!("since: {why}"));
    let since = query::one(&pairs, "since").map(Since::parse).transpose().map_err(wrong)?;
    let adapters = query::adapters(&pairs)?;
    let fleet = caller::fleet(&*app.settings, &headers, &peer)?;
    let key = key("inbox", raw.as_deref(), &headers, &peer);
    let look = move || json(&fleet.inbox(since.unwrap_or(A_DAY), adapters, clock::now()));
    shared_look(&app, key, look).await.map(answer)
}
