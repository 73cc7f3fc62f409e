//! Acting on one session over HTTP: stopping it, sending to it, answering it.

use agentctl_adapters::Answer;
use agentctl_adapters::hold::Decision;
use agentctl_fleet::act::launch::check_words;
use agentctl_fleet::act::steer::SteerOptions;
use agentctl_fleet::act::stop::StopAnswer;
use agentctl_fleet::{Purpose, StopOptions};
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;

use super::body::{Body, Length, duration};
use super::extract::Id;
use super::sessions::{find, run_blocking, selector};
use super::{App, answer, json};
use crate::serve::body_budget::WORDS;
use crate::serve::problem::Problem;
use crate::serve::query::Pairs;
use crate::serve::server::Peer;

/// How long a clean stop may take by default.
const GRACE: std::time::Duration = std::time::Duration::from_secs(10);

/// The body of `POST /v1/sessions/{id}/stop`; may be empty.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopBody {
    /// How long a clean end may take before the processes are killed: 10s by default.
    #[schemars(with = "Option<Length>")]
    grace: Option<String>,
    /// Kill at once.
    #[serde(default)]
    force: bool,
}

/// The body of `POST /v1/sessions/{id}/send`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendBody {
    #[schemars(length(min = 1))]
    message: String,
    /// Mean it as a command of the agent, such as /compact.
    #[serde(default)]
    command: bool,
    /// How long the agent may take to accept it: 30s by default.
    #[schemars(with = "Option<Length>")]
    timeout: Option<String>,
}

/// The body of `POST /v1/sessions/{id}/interrupt`; may be empty.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InterruptBody {
    /// How long the agent may take to end the turn: 30s by default.
    #[schemars(with = "Option<Length>")]
    timeout: Option<String>,
}

/// The body of `POST /v1/sessions/{id}/answer`: a decision, or words for a question.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = [{"required": ["decision"]}, {"required": ["text"]}]))]
pub(crate) struct AnswerBody {
    /// The agent's id of the request; needed where several wait.
    request: Option<String>,
    decision: Option<Choice>,
    /// The answer to a question; with `deny` the reason.
    text: Option<String>,
    /// How long the agent may take to accept it: 30s by default.
    #[schemars(with = "Option<Length>")]
    timeout: Option<String>,
}

/// Yes or no to what a session asks.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Decision")]
enum Choice {
    // Allow it once.
    Approve,
    // Allow it, and what is like it, for the rest of the session.
    ApproveAlways,
    Deny,
}

impl StopBody {
    pub(super) fn options(&self, peer: &Peer) -> Result<StopOptions, Problem> {
        let grace = duration("grace", self.grace.as_deref())?.unwrap_or(GRACE);
        Ok(StopOptions { grace, force: self.force, asker: peer.asker() })
    }
}

impl AnswerBody {
    fn answer(self) -> Result<Answer, Problem> {
        let text = self.text.filter(|text| !text.is_empty());
        let decision = match (self.decision, text) {
            (Some(Choice::Approve), None) => Decision::AllowOnce,
            (Some(Choice::ApproveAlways), None) => Decision::AllowAlways,
            (Some(Choice::Deny), reason) => Decision::Deny { reason },
            (None, Some(text)) => Decision::Text(text),
            _ => return Err(Problem::usage("an answer is a `decision` or a `text`")),
        };
        Ok(Answer { request: self.request, decision })
    }
}

fn options(timeout: Option<&str>, peer: &Peer) -> Result<SteerOptions, Problem> {
    let usual = SteerOptions::default();
    Ok(SteerOptions {
        timeout: duration("timeout", timeout)?.unwrap_or(usual.timeout),
        asker: peer.asker(),
        ..usual
    })
}

pub(crate) async fn stop(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Id(id): Id,
    Extension(pairs): Extension<Pairs>,
    Body(body): Body<StopBody>,
) -> Result<Response, Problem> {
    let options = body.options(&peer)?;
    let selector = selector(id, &pairs);
    let (fleet, target) = find(&app, &peer, &headers, selector, Purpose::Act).await?;
    let stopped = run_blocking(move || {
        let caller = app.settings.launcher(None).map_err(Problem::failed)?.caller;
        json(&StopAnswer { sessions: vec![fleet.stop(&target, &caller, options)?] })
    });
    stopped.await.map(answer)
}

pub(crate) async fn send(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Id(id): Id,
    Extension(pairs): Extension<Pairs>,
    Body(body): Body<SendBody, WORDS>,
) -> Result<Response, Problem> {
    check_words(&body.message).map_err(Problem::usage)?;
    peer.check_chosen(&[("command", body.command)])?;
    let selector = selector(id, &pairs);
    let (fleet, target) = find(&app, &peer, &headers, selector, Purpose::Act).await?;
    let options = SteerOptions { as_command: body.command, ..options(body.timeout.as_deref(), &peer)? };
    let sent = run_blocking(move || json(&fleet.send(&target, &body.message, options)?));
    sent.await.map(answer)
}

pub(crate) async fn give(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Id(id): Id,
    Extension(pairs): Extension<Pairs>,
    Body(body): Body<AnswerBody, WORDS>,
) -> Result<Response, Problem> {
    let options = options(body.timeout.as_deref(), &peer)?;
    let given = body.answer()?;
    let selector = selector(id, &pairs);
    let (fleet, target) = find(&app, &peer, &headers, selector, Purpose::Act).await?;
    let receipt = run_blocking(move || json(&fleet.answer(&target, given, options)?));
    receipt.await.map(answer)
}

pub(crate) async fn interrupt(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Id(id): Id,
    Extension(pairs): Extension<Pairs>,
    Body(body): Body<InterruptBody>,
) -> Result<Response, Problem> {
    let options = options(body.timeout.as_deref(), &peer)?;
    let selector = selector(id, &pairs);
    let (fleet, target) = find(&app, &peer, &headers, selector, Purpose::Act).await?;
    let receipt = run_blocking(move || json(&fleet.interrupt_turn(&target, options)?));
    receipt.await.map(answer)
}
