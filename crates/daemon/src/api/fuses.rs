//! Fuses over HTTP.

use axum::Extension as Extended;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;

use super::body::Body;
use super::sessions::{beside, find};
use super::{App, answer, json};
use crate::clock;
use crate::fuses::{Extension, Fuse, FuseSpec, Stage, deadline, tell};
use crate::problem::Problem;
use crate::server::Peer;
use crate::token::random_hex;
use agentctl_fleet::Selector;

/// What `GET /v1/fuses` answers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FuseList {
    /// The next to expire first.
    fuses: Vec<Fuse>,
}

pub(crate) async fn list(State(app): State<App>) -> Result<Response, Problem> {
    beside(move || json(&FuseList { fuses: app.fuses.all() })).await.map(answer)
}

pub(crate) async fn set(
    State(app): State<App>,
    Extended(peer): Extended<Peer>,
    headers: HeaderMap,
    Body(spec): Body<FuseSpec>,
) -> Result<Response, Problem> {
    let found = match &spec.session {
        Some(text) => {
            let selector = Selector { text: text.clone(), ..Selector::default() };
            Some(find(&app, &peer, &headers, selector).await?.1.key)
        }
        None => None,
    };
    let id = random_hex(4).map_err(|error| Problem::failed(format!("no random id: {error}")))?;
    let fuse = spec.fuse(format!("f-{id}"), found, clock::now()).map_err(Problem::usage)?;
    beside(move || {
        app.fuses.set(fuse.clone()).map_err(|error| unwritten(&error))?;
        tell(&app, "fuse.set", &fuse);
        json(&fuse)
    })
    .await
    .map(answer)
}

pub(crate) async fn extend(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(extension): Body<Extension>,
) -> Result<Response, Problem> {
    let now = clock::now();
    let until = deadline(&extension.ttl, now).map_err(Problem::usage)?;
    beside(move || {
        let mut burning = true;
        let changed = app.fuses.update(&id, |fuse| {
            burning = fuse.stage != Stage::Firing && (fuse.expires_at.is_some() || fuse.directory.is_some());
            if burning {
                fuse.expires_at = Some(until);
                fuse.stage = Stage::Set;
                fuse.stage_at = now;
            }
        });
        let fuse = changed.map_err(|error| unwritten(&error))?.filter(|_| burning);
        let fuse = fuse.ok_or_else(|| unknown(&id))?;
        tell(&app, "fuse.extended", &fuse);
        json(&fuse)
    })
    .await
    .map(answer)
}

pub(crate) async fn cancel(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Problem> {
    beside(move || {
        let removed = app.fuses.remove(&id).map_err(|error| unwritten(&error))?;
        json(&removed.ok_or_else(|| unknown(&id))?)
    })
    .await
    .map(answer)
}

fn unknown(id: &str) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not-found", format!("no fuse `{id}` is set, or it expired"))
        .hint("GET /v1/fuses lists those that are")
}

fn unwritten(error: &std::io::Error) -> Problem {
    Problem::failed(format!("fuses.json cannot be written: {error}"))
}
