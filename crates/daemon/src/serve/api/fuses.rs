//! Fuses over HTTP.

use agentctl_files::{is_folder_within, kernel};
use agentctl_fleet::{Purpose, StoreError};
use agentctl_model::{Error, EventKind, Fuse, Status};
use axum::Extension as Extended;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use data_encoding::HEXLOWER;

use super::body::Body;
use super::extract::Id;
use super::sessions::{find, run_blocking};
use super::{App, answer, json};
use crate::fuses::{Extension, FuseSpec, deadline, session_of, tell};
use crate::run::clock;
use crate::serve::problem::Problem;
use crate::serve::server::Peer;

pub(crate) async fn list(State(app): State<App>) -> Result<Response, Problem> {
    let list = move || {
        let mut list = app.fuses.all()?;
        fill_spent(&app, &mut list.fuses);
        json(&list)
    };
    run_blocking(list).await.map(answer)
}

/// Adds to each budget what was spent of it.
fn fill_spent(app: &App, fuses: &mut [Fuse]) {
    if let Ok(fleet) = app.settings.fleet() {
        fleet.fill_spent(fuses, clock::now());
    }
}

pub(crate) async fn set(
    State(app): State<App>,
    Extended(peer): Extended<Peer>,
    headers: HeaderMap,
    Body(spec): Body<FuseSpec>,
) -> Result<Response, Problem> {
    peer.check_chosen(&[
        ("onExpire.script", spec.on_expire.script.is_some()),
        ("onExpire.webhook", spec.on_expire.webhook.is_some()),
    ])?;
    let found = match spec.selector() {
        Some(selector) => Some(find(&app, &peer, &headers, selector, Purpose::Act).await?.1),
        None => None,
    };
    // The limits of a session end with the session, so a limit on a stopped session would end at once.
    if let Some(stopped) = found.as_ref().filter(|found| found.session.status == Status::Stopped) {
        let detail = format!("session {} has stopped, there is nothing left to limit", stopped.key.id);
        return Err(Problem::refused(detail).hint("set it once the session goes on"));
    }
    let id = kernel::random::<4>().map_err(|error| Problem::failed(format!("no random id: {error}")))?;
    let id = HEXLOWER.encode(&id);
    let key = found.map(|found| found.key);
    let fuse = spec.fuse(format!("f-{id}"), key, clock::now()).map_err(Problem::usage)?;
    run_blocking(move || {
        // A missing directory is most likely a typing mistake, which would otherwise only show when the fuse
        // does nothing.
        let seen = fuse.directory.as_deref().map(|path| (path, is_folder_within(path.as_ref())));
        match seen {
            Some((missing, Ok(false))) => {
                return Err(Problem::usage(format!("{missing} is no folder that is there")));
            }
            Some((path, Err(silent))) => return Err(Problem::usage(format!("{path} {silent}"))),
            _ => {}
        }
        let session = session_of(&app, &fuse);
        let told = || tell(&app, EventKind::FuseSet, &fuse, session.as_deref());
        app.fuses.set(fuse.clone(), told).map_err(|error| unwritten(&error))?;
        let mut fuse = fuse.clone();
        fill_spent(&app, std::slice::from_mut(&mut fuse));
        json(&fuse)
    })
    .await
    .map(answer)
}

pub(crate) async fn extend(
    State(app): State<App>,
    Id(id): Id,
    Body(extension): Body<Extension>,
) -> Result<Response, Problem> {
    let now = clock::now();
    let until = deadline(&extension.ttl, now).map_err(Problem::usage)?;
    run_blocking(move || {
        if app.fuses.get(&id).is_some_and(|fuse| fuse.is_budget()) {
            return Err(Problem::refused(format!("{id} is a budget, which ends with its period"))
                .hint("set it again with a higher figure to raise it"));
        }
        let fuse = app.fuses.extend(&id, now, until).map_err(|error| unwritten(&error))?;
        let fuse = fuse.ok_or_else(|| unknown(&id))?;
        tell(&app, EventKind::FuseExtended, &fuse, session_of(&app, &fuse).as_deref());
        json(&fuse)
    })
    .await
    .map(answer)
}

pub(crate) async fn cancel(State(app): State<App>, Id(id): Id) -> Result<Response, Problem> {
    run_blocking(move || {
        let removed = app.fuses.remove(&id).map_err(|error| unwritten(&error))?;
        json(&removed.ok_or_else(|| unknown(&id))?)
    })
    .await
    .map(answer)
}

fn unknown(id: &str) -> Problem {
    Problem::not_found(format!("no fuse `{id}` is set, or it expired"))
        .hint("GET /v1/fuses lists those that are")
}

pub(super) fn unwritten(error: &std::io::Error) -> Problem {
    let failed = Error::failed(format!("fuses.json cannot be written: {error}"));
    let why = error.get_ref().and_then(|error| error.downcast_ref::<StoreError>());
    Error { hint: why.and_then(StoreError::hint), ..failed }.into()
}
