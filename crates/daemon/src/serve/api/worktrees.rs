//! Git working trees over HTTP.

use std::path::{Path, PathBuf};

use agentctl_fleet::Store;
use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::worktree::{self, CleanOptions, NewTree, WorktreeSelection};
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;

use super::body::{AbsolutePath, Body, absolute};
use super::sessions::run_blocking;
use super::{App, answer, json};
use crate::run::clock;
use crate::serve::problem::Problem;
use crate::serve::query::{Pairs, Parameter, Parameters};
use crate::serve::server::Peer;
use crate::serve::{chosen_sources, query};

pub(crate) const REPOSITORY: Parameters =
    &[Parameter::path("repository", "the repository, or any folder in it: an absolute path").required()];

/// The body of `POST /v1/worktrees`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateBody {
    /// The repository, or any folder in it: an absolute path.
    #[schemars(with = "AbsolutePath")]
    repository: PathBuf,
    /// The branch to check out; made if there is none of this name.
    branch: String,
    /// Where a new branch begins; without it at what is checked out.
    base_branch: Option<String>,
    /// Run the hooks and filters that the repository has of its own; remembered until they change. On the unix socket alone.
    #[serde(default)]
    trust: bool,
}

/// The body of `POST /v1/worktrees/clean`: `paths`, or `all` of the repository.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("anyOf" = [{"required": ["paths"]}, {"required": ["all"]}]))]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct CleanBody {
    /// The repository, or any folder in it: an absolute path.
    #[schemars(with = "AbsolutePath")]
    repository: PathBuf,
    /// Absolute paths.
    #[serde(default)]
    #[schemars(with = "Vec<AbsolutePath>")]
    paths: Vec<PathBuf>,
    #[serde(default)]
    all: bool,
    /// Remove it whatever is lost.
    #[serde(default)]
    force: bool,
    /// Delete the branch of a removed tree too.
    #[serde(default)]
    delete_branch: bool,
    /// Only say what would be done and lost.
    #[serde(default)]
    dry_run: bool,
}

pub(crate) async fn list(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Extension(pairs): Extension<Pairs>,
) -> Result<Response, Problem> {
    let given = PathBuf::from(query::one(&pairs, "repository").unwrap_or_default());
    let fleet = chosen_sources::fleet(&*app.settings, &headers, &peer)?;
    let listed = run_blocking(move || {
        let repository = absolute("repository", &given)?;
        json(&fleet.worktrees(&repository, &app.locks(), clock::now())?)
    });
    listed.await.map(answer)
}

pub(crate) async fn create(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Body(body): Body<CreateBody>,
) -> Result<Response, Problem> {
    let made = run_blocking(move || {
        let repository = absolute("repository", &body.repository)?;
        let (branch, base) = (body.branch.as_str(), body.base_branch.as_deref());
        let marks = Marks::of(Store::at(app.home.folder()));
        consent(&marks, (&repository, branch, base), body.trust, &peer)?;
        let made = worktree::create(&repository, branch, base, &marks)?;
        json(&NewTree::from(made))
    });
    made.await.map(answer)
}

/// Checks that the user has agreed to the programs that a checkout of this tree runs. Agreement requires a
/// person at the machine itself, so it is only accepted on the unix socket.
pub(super) fn consent(
    marks: &Marks,
    tree: (&Path, &str, Option<&str>),
    trust: bool,
    peer: &Peer,
) -> Result<(), Problem> {
    if trust && !matches!(peer, Peer::Unix { .. }) {
        return Err(Problem::forbidden("`trust` is taken on the unix socket alone")
            .hint("`agentctl worktree create --trust` on that machine runs a repository's own programs"));
    }
    Ok(worktree::consent(marks, tree, clock::now(), |_| trust)?)
}

pub(crate) async fn clean(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Body(body): Body<CleanBody>,
) -> Result<Response, Problem> {
    if body.all != body.paths.is_empty() {
        return Err(Problem::usage("a cleaning is of `paths` or of `all`"));
    }
    let fleet = chosen_sources::fleet(&*app.settings, &headers, &peer)?;
    let cleaned = run_blocking(move || {
        let repository = absolute("repository", &body.repository)?;
        let which = if body.all {
            WorktreeSelection::All
        } else {
            let paths = body.paths.iter().map(|path| absolute("paths", path));
            WorktreeSelection::These(paths.collect::<Result<_, _>>()?)
        };
        let options =
            CleanOptions { force: body.force, delete_branch: body.delete_branch, dry_run: body.dry_run };
        json(&fleet.clean_worktrees(&repository, which, options, &app.locks(), clock::now())?)
    });
    cleaned.await.map(answer)
}
