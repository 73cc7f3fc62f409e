//! The API. One table of routes produces both the router and the document, so that they cannot disagree.

mod actions;
mod adapters_and_health;
mod body;
mod daemon;
mod events;
mod examples;
mod extract;
mod fuses;
#[cfg(fuzzing)]
pub mod fuzzing;
mod groups;
mod hosts;
mod inbox;
pub(crate) mod launch;
mod locks;
mod messages;
mod openapi;
mod recover;
mod routes;
mod search;
mod sessions;
mod steer;
pub(crate) mod timeline;
pub(crate) mod usage;
mod web;
mod worktrees;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::serve::problem::Problem;
use crate::shared::Shared;
use crate::wire::WHOLE;

pub(crate) use body::{AbsolutePath, AdapterName, Length};
pub use daemon::DaemonStatus;
pub use launch::Planned;
pub(crate) use launch::planned_request;
pub use messages::Messages;
pub use openapi::{document, text as document_text};
pub(crate) use sessions::run_blocking;
pub use timeline::timeline_pairs;
pub use usage::usage_pairs;
pub use web::{WebClosed, WebInvitation};

pub(crate) type App = Arc<Shared>;

pub(crate) fn router() -> Router<App> {
    let mut router = Router::new();
    for route in routes::ROUTES {
        let check = middleware::from_fn(move |request, next| extract::check_query(route, request, next));
        router = router.route(route.path, (route.handler)().route_layer(check));
    }
    router
}

pub(crate) async fn no_such_route(method: Method, uri: Uri) -> Problem {
    Problem::not_found(format!("there is no {method} {}", uri.path()))
        .hint("GET /openapi.json describes every route")
}

/// Serializes any plain object as a response body.
pub(crate) fn json(value: &impl Serialize) -> Result<Bytes, Problem> {
    let mut body = Vec::new();
    let written = agentctl_model::text::json::write(&mut body, value);
    written.map_err(|error| unwritten(&error))?;
    Ok(body.into())
}

fn unwritten(error: &dyn std::error::Error) -> Problem {
    Problem::failed(format!("the answer cannot be written: {error}"))
}

pub(crate) fn answer(body: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Whether the caller accepts what a survey knows beyond the public object.
fn wants_whole(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).is_some_and(|accept| accept == WHOLE)
}
