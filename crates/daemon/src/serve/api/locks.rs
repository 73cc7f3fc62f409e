//! Who holds which directory, and manual locks, over HTTP.

use std::path::PathBuf;

use agentctl_fleet::keep::locks::user_of;
use agentctl_fleet::{LockError, Locks, ManualLock, Store};
use agentctl_model::Error;
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;

use super::body::{AbsolutePath, Body, Length, absolute};
use super::sessions::{key, run_blocking, shared_survey};
use super::{App, answer, json};
use crate::fuses::deadline;
use crate::run::clock;
use crate::serve::problem::Problem;
use crate::serve::query::{Pairs, Parameter, Parameters};
use crate::serve::server::Peer;
use crate::serve::{chosen_sources, query};

pub(crate) const DIRECTORY: Parameters =
    &[Parameter::path("directory", "the locked directory: an absolute path").required()];

/// The body of `POST /v1/locks`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockBody {
    /// An absolute path.
    #[schemars(with = "AbsolutePath")]
    directory: PathBuf,
    /// Who locks it; without it the daemon's user.
    by: Option<String>,
    /// Why, for those who are kept out.
    reason: Option<String>,
    /// Unlock it by itself after this time: 30m, 2h, 1d.
    #[schemars(with = "Option<Length>")]
    ttl: Option<String>,
    /// Take it over from whoever has locked it.
    #[serde(default)]
    force: bool,
}

impl super::Shared {
    pub(super) fn locks(&self) -> Locks {
        Locks::of(Store::at(self.home.folder()))
    }
}

pub(crate) async fn list(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let fleet = chosen_sources::fleet(&*app.settings, &headers, &peer)?;
    let (key, locks) = (key("locks", None, &headers, &peer), app.locks());
    shared_survey(&app, key, move || json(&fleet.held(&locks, clock::now())?)).await.map(answer)
}

pub(crate) async fn lock(State(app): State<App>, Body(body): Body<LockBody>) -> Result<Response, Problem> {
    let now = clock::now();
    let until = body.ttl.as_deref().map(|ttl| deadline(ttl, now)).transpose();
    let until = until.map_err(|why| Problem::usage(format!("ttl: {why}")))?;
    let locked = run_blocking(move || {
        let directory = absolute("directory", &body.directory)?;
        let refused = |why: &str| Problem::usage(format!("{} {why}", directory.display()));
        match agentctl_files::is_folder_within(&directory) {
            Ok(true) => {}
            Ok(false) => return Err(refused("is not a folder")),
            Err(silent) => return Err(refused(&silent.to_string())),
        }
        let by = match body.by {
            Some(by) => by,
            None => user_of(&app.settings.launcher(None).map_err(Problem::failed)?.caller.environ),
        };
        let wanted = ManualLock { directory, by: Some(by), reason: body.reason, since: now, until };
        let holder = app.locks().lock(wanted, body.force).map_err(|error| match error {
            LockError::Held(_) => Error::from(error).hint("`force` takes it over"),
            LockError::Store(_) => error.into(),
        })?;
        json(&holder)
    });
    locked.await.map(answer)
}

pub(crate) async fn unlock(
    State(app): State<App>,
    Extension(pairs): Extension<Pairs>,
) -> Result<Response, Problem> {
    let given = PathBuf::from(query::one(&pairs, "directory").unwrap_or_default());
    let unlocked = run_blocking(move || {
        let directory = absolute("directory", &given)?;
        let (locks, now) = (app.locks(), clock::now());
        if let Some(holder) = locks.unlock(&directory, now)? {
            return json(&holder);
        }
        let detail = format!("{} is not locked by hand", directory.display());
        let hint = locks.hint_for_unlocked(&directory, now)?;
        Err(Problem::not_found(detail).hint(hint))
    });
    unlocked.await.map(answer)
}
