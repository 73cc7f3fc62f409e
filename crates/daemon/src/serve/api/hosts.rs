//! The machines that can be asked, over HTTP.

use agentctl_model::HostList;
use axum::extract::State;
use axum::response::Response;

use super::sessions::run_blocking;
use super::{App, answer, json};
use crate::serve::problem::Problem;

pub(crate) async fn list(State(app): State<App>) -> Result<Response, Problem> {
    let asked = run_blocking(move || json(&HostList { hosts: app.settings.hosts()? }));
    asked.await.map(answer)
}
