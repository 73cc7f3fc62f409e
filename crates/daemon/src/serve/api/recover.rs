//! What went down with the machine, over HTTP. It is resumed with `POST /v1/sessions/{id}/resume`.

use agentctl_fleet::Store;
use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::read::recover::RecoverQuery;
use agentctl_model::text::period::Since;
use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;

use super::sessions::{key, shared_survey};
use super::{App, answer, json};
use crate::run::clock;
use crate::serve::problem::Problem;
use crate::serve::query::{Pairs, Parameter, Parameters};
use crate::serve::server::Peer;
use crate::serve::{chosen_sources, query};

pub(crate) const QUERY: Parameters = &[
    Parameter::since("since", "how far back the last record of a session may be; 7d by default"),
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
    let wanted = RecoverQuery { since: since.unwrap_or(Since::DEFAULT), adapters: query::adapters(&pairs) };
    let fleet = chosen_sources::fleet(&*app.settings, &headers, &peer)?;
    let key = key("recover", raw.as_deref(), &headers, &peer);
    let marks = Marks::of(Store::at(app.home.folder()));
    let survey = move || json(&fleet.recovery(&wanted, &marks, clock::now())?);
    shared_survey(&app, key, survey).await.map(answer)
}
