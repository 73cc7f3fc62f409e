//! Sessions that were launched together, over HTTP.

use agentctl_fleet::act::stop::StopAnswer;
use agentctl_fleet::read::groups::{GroupList, GroupView};
use agentctl_fleet::worktree::Form;
use agentctl_fleet::{Fleet, Group};
use agentctl_model::{ErrorKind, SourceReport};
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::body::Body;
use super::extract::Id;
use super::sessions::{key, run_blocking, shared_survey};
use super::steer::StopBody;
use super::{App, answer, json};
use crate::run::clock;
use crate::serve::problem::Problem;
use crate::serve::query::{Pairs, Parameter, Parameters};
use crate::serve::server::Peer;
use crate::serve::{chosen_sources, query};

pub(crate) async fn list(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let fleet = chosen_sources::fleet(&*app.settings, &headers, &peer)?;
    let key = key("groups", None, &headers, &peer);
    shared_survey(&app, key, move || json(&GroupList::from(fleet.groups(None, false)))).await.map(answer)
}

pub(crate) async fn show(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Id(name): Id,
) -> Result<Response, Problem> {
    let fleet = chosen_sources::fleet(&*app.settings, &headers, &peer)?;
    let shown = run_blocking(move || {
        let (group, sources) = find(&fleet, &name, true)?;
        // A working tree that git cannot read does not affect the others.
        let changes = group.slots.iter().map(|slot| slot.diffstat().ok().flatten()).collect();
        json(&GroupView::new(group, changes, sources, clock::now()))
    });
    shown.await.map(answer)
}

/// The query parameters of a diff.
pub(crate) const DIFF: Parameters = &[
    Parameter::text("slot", "only this slot").repeatable(),
    Parameter::flag("stat", "a line for each file instead of the patch"),
];

/// The assumed width of a terminal that was not measured.
const COLUMNS: usize = 80;

pub(crate) async fn diff(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Id(name): Id,
    Extension(pairs): Extension<Pairs>,
) -> Result<Response, Problem> {
    let form = if query::flag(&pairs, "stat") { Form::Stat(COLUMNS) } else { Form::Patch };
    let slots: Vec<String> = query::every(&pairs, "slot").map(str::to_owned).collect();
    let fleet = chosen_sources::fleet(&*app.settings, &headers, &peer)?;
    let compared = run_blocking(move || {
        let (group, _) = find(&fleet, &name, false)?;
        let chosen = group.chosen(&slots).map_err(|unknown| {
            let detail = format!("group {} has no slot `{}`", group.name, unknown.slot);
            Problem::not_found(detail).hint(format!("it has {}", unknown.known.join(", ")))
        })?;
        json(&group.diff_of(&chosen, form).0)
    });
    compared.await.map(answer)
}

pub(crate) async fn stop(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Id(name): Id,
    Body(body): Body<StopBody>,
) -> Result<Response, Problem> {
    let options = body.options(&peer)?;
    let fleet = chosen_sources::fleet(&*app.settings, &headers, &peer)?;
    let stopped = run_blocking(move || {
        let caller = app.settings.launcher(None).map_err(Problem::failed)?.caller;
        let (_, live) = find(&fleet, &name, false)?.0.cancel_starting();
        json(&StopAnswer { sessions: fleet.stop_all(&live, &caller, options) })
    });
    stopped.await.map(answer)
}

fn find(fleet: &Fleet, name: &str, usage: bool) -> Result<(Group, Vec<SourceReport>), Problem> {
    let meant = fleet.group_named(name).map_err(|begun| {
        let detail = format!("`{name}` fits {} groups: {}", begun.len(), begun.join(", "));
        Problem::of(ErrorKind::Ambiguous, detail).hint("give more of the name")
    })?;
    let found = fleet.groups(Some(meant.as_deref().unwrap_or(name)), usage);
    let group = found.groups.into_iter().next().ok_or_else(|| {
        let detail = format!("no group has the name `{name}`");
        Problem::not_found(detail).hint("GET /v1/groups lists those that are known")
    })?;
    Ok((group, found.sources))
}
