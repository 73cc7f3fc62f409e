//! The daemon's own status.

use std::sync::atomic::Ordering;

use agentctl_model::SourceReport;
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sessions::run_blocking;
use super::{App, answer, json};
use crate::run::clock;
use crate::serve::problem::Problem;
use crate::tell::webhooks::OutboxStatus;
use crate::watch::feeds::FeedStatus;

/// What `daemon status --json` prints of a daemon that runs.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonStatus {
    pub version: String,
    pub pid: u32,
    pub started_at: Timestamp,
    pub uptime_seconds: u64,
    /// The address that is served beside the socket, if any is.
    pub http: Option<String>,
    /// Whether `http` of config.toml names that address, and not a flag.
    #[serde(default)]
    pub http_from_config: bool,
    pub read_only: bool,
    /// Resident, where the system tells.
    pub memory_bytes: Option<u64>,
    /// Live sessions in the view that events are made of.
    pub live_sessions: usize,
    pub sources: Vec<SourceReport>,
    pub watched_folders: usize,
    pub watched_processes: usize,
    /// How many folders should be watched and cannot be, those below them not counted; `null` when that is not known.
    #[serde(default)]
    pub unwatched_folders: Option<usize>,
    /// How many processes cannot be watched; `null` when that is not known.
    #[serde(default)]
    pub unwatched_processes: Option<usize>,
    /// Why not everything is watched; changes are then seen a little later.
    pub watch_incomplete: Option<String>,
    /// The servers of agents that are listened to.
    #[serde(default)]
    pub feeds: Vec<FeedStatus>,
    /// How many looks the view has taken.
    pub looks: u64,
    /// The newest event's cursor.
    pub cursor: String,
    pub listeners: usize,
    pub outbox: OutboxStatus,
    /// How many directories are locked by hand; `null` when that cannot be read.
    #[serde(default)]
    pub locks: Option<usize>,
    /// How many fuses are set.
    pub fuses: usize,
    /// How many requests came in, this one included.
    pub requests: u64,
}

/// What `POST /v1/daemon/stop` answers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Stopping {
    stopping: bool,
}

pub(crate) async fn status(State(app): State<App>) -> Result<Response, Problem> {
    app.first_survey().await;
    // The locks of the outbox and the fuses are held while they write to disk, so this blocks.
    run_blocking(move || json(&about(&app))).await.map(answer)
}

fn about(app: &App) -> DaemonStatus {
    // Counted before what the looks led to is read.
    let looks = app.live.looks.load(Ordering::Acquire);
    let watching = app.live.watching();
    let (live_sessions, sources) = {
        let view = app.live.view();
        (view.shown().count(), view.sources().cloned().collect())
    };
    DaemonStatus {
        version: app.version.clone(),
        pid: std::process::id(),
        started_at: app.started_at,
        uptime_seconds: app.began.elapsed().as_secs(),
        http: app.http.map(|address| address.to_string()),
        http_from_config: app.http_from_config,
        read_only: app.read_only,
        memory_bytes: resident(),
        live_sessions,
        sources,
        watched_folders: watching.folders,
        watched_processes: watching.processes,
        unwatched_folders: watching.unwatched_folders,
        unwatched_processes: watching.unwatched_processes,
        watch_incomplete: Some(watching.incomplete.join("; ")).filter(|words| !words.is_empty()),
        feeds: app.live.feeds().status(),
        looks,
        cursor: app.hub.cursor(app.hub.newest()),
        listeners: app.hub.listeners(),
        outbox: app.outbox.status(),
        locks: app.locks().manual(clock::now()).ok().map(|manual| manual.len()),
        fuses: app.fuses.count(),
        requests: app.requests.load(Ordering::Relaxed),
    }
}

pub(crate) async fn stop(State(app): State<App>) -> Result<Response, Problem> {
    app.log.say("asked to stop");
    app.stop(false);
    json(&Stopping { stopping: true }).map(answer)
}

fn resident() -> Option<u64> {
    let status = agentctl_files::kernel::own_status().ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}
