//! Errors of the API: RFC 9457 problem objects with a stable `code` and a `hint`.

use std::ops::Deref;

use agentctl_fleet::worktree::{TreesError, WorktreeError};
use agentctl_fleet::{FindError, LaunchError, NotStopped, StopError, StoreError};
use agentctl_model::{Capability, Refusal, SourceReport, text};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The media type of a problem.
const PROBLEM: &str = "application/problem+json";
/// The longest text of another program that is quoted.
const MOST_WORDS: usize = 1 << 10;
/// One status of a problem, as the API document describes it.
pub(crate) struct Kind {
    pub(crate) status: u16,
    pub(crate) name: &'static str,
    pub(crate) words: &'static str,
}

const fn kind(status: u16, name: &'static str, words: &'static str) -> Kind {
    Kind { status, name, words }
}

/// Every status that a problem can have.
pub(crate) const KINDS: [Kind; 15] = [
    kind(400, "NotUnderstood", "A parameter or the body is not understood, or does not make sense (`usage`)"),
    kind(401, "Unauthorized", "Over TCP: the token is missing or wrong (`unauthorized`)"),
    kind(
        403,
        "Forbidden",
        "Not for this caller: another user, host or origin, a write without `X-Agentctl`, something that only the \
        unix socket may ask for, or a daemon that is read-only (`forbidden`)",
    ),
    kind(404, "NotFound", "There is no such thing (`not-found`)"),
    kind(405, "NotSoAsked", "The path is there, but not for this method (`usage`)"),
    kind(408, "TooSlow", "The request did not arrive in time (`usage`)"),
    kind(
        409,
        "Refused",
        "It cannot be done as things stand: held by somebody, live elsewhere (`refused`); or the name fits several \
        sessions, which are listed (`ambiguous`)",
    ),
    kind(413, "TooLarge", "The body is too large (`usage`)"),
    kind(415, "NotJson", "A write without `Content-Type: application/json` (`usage`)"),
    kind(422, "NotOffered", "This agent offers no such thing (`refused`)"),
    kind(429, "LockedOut", "Over TCP: too many wrong tokens; try again in half a minute (`locked-out`)"),
    kind(500, "Failed", "It failed here (`failed`)"),
    kind(
        502,
        "AgentFailed",
        "The agent could not be started, or failed; the detail has its own words (`failed`)",
    ),
    kind(
        503,
        "Incomplete",
        "Not everything could be heard, so nothing can be said (`incomplete`); or there is too much to do at once (`busy`)",
    ),
    kind(504, "NotAnswered", "The agent did not answer; whether it took it is not known (`failed`)"),
];

/// Why a request failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Problem(Box<ProblemObject>);

/// Why a request was not answered.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ProblemObject {
    /// Always `about:blank`: the code says which kind it is.
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    /// What happened, in words.
    pub detail: String,
    /// usage (400, 405, 408, 413, 415) | not-found (404) | ambiguous (409) | incomplete (503) | refused (409: locked, live elsewhere;
    /// 422: this agent offers no such thing) | unauthorized (401) | forbidden (403) | locked-out (429) | busy (503: too much
    /// at once) | failed (500: here; 502: the agent, in its own words; 504: it did not answer)
    #[schemars(extend("enum" = ["usage", "not-found", "ambiguous", "incomplete", "refused", "unauthorized", "forbidden", "locked-out", "busy", "failed"]))]
    pub code: String,
    /// What to do next.
    pub hint: Option<String>,
    /// Of `ambiguous`: the sessions that fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<agentctl_model::Session>>")]
    pub candidates: Option<Vec<Value>>,
    /// Of `incomplete`: the sources that could not be heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<SourceReport>>,
}

impl Deref for Problem {
    type Target = ProblemObject;

    fn deref(&self) -> &ProblemObject {
        &self.0
    }
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self(Box::new(ProblemObject {
            kind: "about:blank".to_owned(),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            code: code.to_owned(),
            hint: None,
            candidates: None,
            sources: None,
        }))
    }

    pub(crate) fn usage(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "usage", detail).hint("GET /openapi.json describes every route")
    }

    pub(crate) fn failed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", detail)
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    pub(crate) fn refused(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "refused", detail)
    }

    /// The agent does not offer this.
    pub(crate) fn unsupported(refusal: Refusal) -> Self {
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", text::clean(&refusal.reason));
        match refusal.hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }

    /// The daemon is overloaded; a caller that can survey for itself does so.
    pub(crate) fn busy(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).hint("try again in a moment")
    }

    /// It is not known whether an agent accepted the request.
    pub(crate) fn silent(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "failed", detail)
    }

    /// Why a launch was not begun, or failed. A capability that the agent lacks altogether is distinguished
    /// from a temporary refusal.
    pub(crate) fn of_launch(error: LaunchError, adapter: &str, wanted: Option<Capability>) -> Self {
        let offers = |wanted: Capability| {
            let card = agentctl_adapters::registry().into_iter().map(agentctl_adapters::Adapter::card);
            card.filter(|card| card.name == adapter).any(|card| card.capabilities.contains(&wanted))
        };
        if error.refused && !wanted.is_none_or(offers) {
            return Self::unsupported(Refusal { reason: error.message, hint: error.hint });
        }
        let message = text::clean(&error.message);
        let problem = if error.refused {
            Self::refused(message)
        } else {
            Self::new(StatusCode::BAD_GATEWAY, "failed", message)
        };
        match error.hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }

    /// Why a session was not stopped.
    pub(crate) fn of_stopping(error: StopError, adapter: &str) -> Self {
        let StopError { kind, reason, hint } = error;
        if kind == NotStopped::Unheard {
            let problem = Self::silent(text::clean(&reason));
            return match hint {
                Some(hint) => problem.hint(hint),
                None => problem,
            };
        }
        let error = LaunchError { refused: kind == NotStopped::Refused, message: reason, hint };
        Self::of_launch(error, adapter, Some(Capability::Stop))
    }

    /// Only the sources that were not read completely are listed.
    pub(crate) fn incomplete(detail: impl Into<String>, mut sources: Vec<SourceReport>) -> Self {
        sources.retain(SourceReport::is_incomplete);
        let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "incomplete", detail);
        problem.0.sources = Some(sources);
        problem
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The selector did not match exactly one session. Candidates have the form in which the caller reads
    /// sessions.
    pub(crate) fn not_one(error: FindError, whole: bool) -> Self {
        match error {
            FindError::NotFound { text } => Self::new(
                StatusCode::NOT_FOUND,
                "not-found",
                format!("no session has the id or name `{text}`"),
            )
            .hint("GET /v1/sessions?since=all lists everything that is stored"),
            FindError::NotHeard { text, sources } => {
                let detail = format!("`{text}` was not found, but not everything could be heard");
                Self::incomplete(detail, sources)
            }
            FindError::NotProven { text, id, sources } => {
                let detail =
                    format!("`{text}` fits {id}, but may fit another session: not everything could be heard");
                Self::incomplete(detail, sources).hint(format!("give the whole id: {id}"))
            }
            FindError::Ambiguous { text, candidates } => {
                let value = |candidate: &agentctl_model::Surveyed| {
                    let value = if whole {
                        serde_json::to_value(candidate)
                    } else {
                        serde_json::to_value(&candidate.session)
                    };
                    value.unwrap_or_default()
                };
                let candidates: Vec<Value> = candidates.iter().map(value).collect();
                let detail = format!("`{text}` fits {} sessions", candidates.len());
                let mut problem = Self::new(StatusCode::CONFLICT, "ambiguous", detail)
                    .hint("give more of the id, or narrow it with adapter, root or cwd");
                problem.0.candidates = Some(candidates);
                problem
            }
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let problem = Self::failed(error.to_string());
        match error.hint() {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

impl From<WorktreeError> for Problem {
    fn from(error: WorktreeError) -> Self {
        let words = error.to_string();
        match error {
            WorktreeError::NotARepository(_) | WorktreeError::BadBranch(_) | WorktreeError::BadBase(_) => {
                Self::usage(words)
            }
            WorktreeError::BranchInUse { .. }
            | WorktreeError::BranchExists(_)
            | WorktreeError::MainTree(_)
            | WorktreeError::SeveralRemotes(_) => Self::refused(words),
            WorktreeError::Untrusted { .. } => Self::refused(words).hint(
                "look at them; `\"trust\": true` on the unix socket runs them, and is remembered until they change",
            ),
            WorktreeError::Store(error) => error.into(),
            WorktreeError::NoGit(_)
            | WorktreeError::Busy(_)
            | WorktreeError::Git { .. }
            | WorktreeError::Silent { .. }
            | WorktreeError::TooMuch { .. }
            | WorktreeError::Io { .. } => Self::failed(words),
        }
    }
}

impl From<TreesError> for Problem {
    fn from(error: TreesError) -> Self {
        match error {
            TreesError::Worktree(error) => error.into(),
            TreesError::Store(error) => error.into(),
        }
    }
}

/// Converts a rejection by the framework (no such method, a path that is not UTF-8) into a problem object.
/// Its headers are kept, because one of them lists the allowed methods.
pub(crate) async fn in_its_form(response: Response, asked: &str) -> Response {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_ours = kind.is_some_and(|kind| kind == PROBLEM || kind == "application/json");
    if is_ours || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let words = axum::body::to_bytes(body, MOST_WORDS).await.unwrap_or_default();
    let words = text::one_line(&String::from_utf8_lossy(&words));
    let (code, detail) = if status == StatusCode::METHOD_NOT_ALLOWED {
        let allowed =
            head.headers.get(header::ALLOW).and_then(|allow| allow.to_str().ok()).unwrap_or("others");
        ("usage", format!("{asked} is not possible there; allowed: {}", allowed.replace(',', ", ")))
    } else if status.is_client_error() {
        ("usage", format!("{asked}: {words}"))
    } else {
        ("failed", format!("{asked}: {words}"))
    };
    let problem = Problem::new(status, code, detail).hint("GET /openapi.json describes every route");
    let (ours, body) = problem.into_response().into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.extend(ours.headers);
    Response::from_parts(head, body)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut body = Vec::new();
        // A problem is plain data and can always be serialized.
        let _ = agentctl_model::text::json::write(&mut body, &self);
        let kind = HeaderValue::from_static(PROBLEM);
        (status, [(header::CONTENT_TYPE, kind)], body).into_response()
    }
}
