//! Small resources: adapters, metrics, health.

use std::collections::BTreeSet;

use agentctl_fleet::{Query, Wanted};
use agentctl_model::Survey;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use super::sessions::run_blocking;
use super::{App, answer, json};
use crate::run::clock;
use crate::serve::problem::Problem;
use crate::tell::metrics::{Gauges, page};

/// What `/healthz` answers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    status: &'static str,
    version: String,
    pid: u32,
}

pub(crate) async fn health(State(app): State<App>) -> Result<Response, Problem> {
    json(&Health { status: "ok", version: app.version.clone(), pid: std::process::id() }).map(answer)
}

pub(crate) async fn adapters(State(app): State<App>) -> Result<Response, Problem> {
    json(&app.settings.adapters().map_err(Problem::failed)?).map(answer)
}

/// Metrics come from a fresh survey, so they are never older than the request either.
pub(crate) async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    let text = run_blocking(move || {
        let fleet = app.settings.fleet().map_err(Problem::failed)?;
        let mut survey = fleet.survey(&Query::new(Wanted::Live));
        app.metrics.surveyed(&survey);
        let held_directories = held_directories(&survey);
        survey.fold_twins();
        let gauges = Gauges {
            adapters: agentctl_adapters::registry().iter().map(|adapter| adapter.card().name).collect(),
            sessions: survey.sessions.iter().map(|surveyed| &*surveyed.session).collect(),
            sources: &survey.sources,
            fuses: app.fuses.count(),
            manual_locks: manual_locks(&app),
            held_directories,
        };
        Ok(page(&gauges, &app.metrics))
    });
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text.await?).into_response())
}

/// A process holds its directory whether its session is shown or suppressed in favour of a gateway session.
fn held_directories(survey: &Survey) -> usize {
    let live = survey.sessions.iter().filter(|surveyed| surveyed.session.pid.is_some());
    live.filter_map(|surveyed| surveyed.session.cwd.as_deref()).collect::<BTreeSet<_>>().len()
}

/// If the file cannot be read, no lock is counted.
fn manual_locks(app: &App) -> usize {
    app.locks().manual(clock::now()).map_or(0, |manual| manual.len())
}
