//! Errors of the API: RFC 9457 problem objects with a stable `code` and a `hint`.

use std::ops::Deref;

use agentctl_fleet::worktree::WorktreeError;
use agentctl_fleet::{FindError, StoreError};
use agentctl_model::{Error, ErrorKind, SourceReport, text};
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
    kind(
        504,
        "NotAnswered",
        "The agent did not answer; whether it took it is not known (`failed`), or it was taken back in time and never \
        delivered (`timed-out`)",
    ),
];

/// The status and the code of every kind of error.
fn of_kind(kind: ErrorKind) -> (StatusCode, &'static str) {
    match kind {
        ErrorKind::Usage => (StatusCode::BAD_REQUEST, "usage"),
        ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not-found"),
        ErrorKind::Ambiguous => (StatusCode::CONFLICT, "ambiguous"),
        ErrorKind::Incomplete => (StatusCode::SERVICE_UNAVAILABLE, "incomplete"),
        ErrorKind::Refused => (StatusCode::CONFLICT, "refused"),
        ErrorKind::Unsupported => (StatusCode::UNPROCESSABLE_ENTITY, "refused"),
        ErrorKind::Failed | ErrorKind::NoDaemon | ErrorKind::Interrupted => {
            (StatusCode::INTERNAL_SERVER_ERROR, "failed")
        }
        ErrorKind::AgentFailed => (StatusCode::BAD_GATEWAY, "failed"),
        ErrorKind::NoAnswer => (StatusCode::GATEWAY_TIMEOUT, "failed"),
        ErrorKind::TimedOut => (StatusCode::GATEWAY_TIMEOUT, "timed-out"),
        ErrorKind::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
    }
}

/// The hint for an error of this kind that has none of its own.
fn usual_hint(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Usage => Some("GET /openapi.json describes every route"),
        // A caller that can survey for itself does so instead.
        ErrorKind::Busy => Some("try again in a moment"),
        ErrorKind::NotFound
        | ErrorKind::Ambiguous
        | ErrorKind::Incomplete
        | ErrorKind::Refused
        | ErrorKind::Unsupported
        | ErrorKind::Failed
        | ErrorKind::AgentFailed
        | ErrorKind::NoAnswer
        | ErrorKind::TimedOut
        | ErrorKind::NoDaemon
        | ErrorKind::Interrupted => None,
    }
}

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
    /// at once) | failed (500: here; 502: the agent, in its own words; 504: it did not answer) | timed-out (504: taken back
    /// before the agent took it)
    #[schemars(extend("enum" = ["usage", "not-found", "ambiguous", "incomplete", "refused", "unauthorized", "forbidden", "locked-out", "busy", "failed", "timed-out"]))]
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

    /// Returns a problem of this kind, with the usual hint.
    pub(crate) fn of(kind: ErrorKind, detail: impl Into<String>) -> Self {
        let (status, code) = of_kind(kind);
        let mut problem = Self::new(status, code, detail);
        problem.0.hint = usual_hint(kind).map(str::to_owned);
        problem
    }

    /// Returns the kind of error, for a client that reads a problem.
    pub fn kind(&self) -> ErrorKind {
        let is_same = |kind: &ErrorKind| {
            let (status, code) = of_kind(*kind);
            (status.as_u16(), code) == (self.status, self.code.as_str())
        };
        // The layers in front of our own handlers use other statuses.
        ErrorKind::ALL.into_iter().find(is_same).unwrap_or(match self.code.as_str() {
            "usage" => ErrorKind::Usage,
            "not-found" => ErrorKind::NotFound,
            "ambiguous" => ErrorKind::Ambiguous,
            "incomplete" => ErrorKind::Incomplete,
            "busy" => ErrorKind::Busy,
            "refused" | "forbidden" => ErrorKind::Refused,
            _ => ErrorKind::Failed,
        })
    }

    pub(crate) fn usage(detail: impl Into<String>) -> Self {
        Self::of(ErrorKind::Usage, detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::of(ErrorKind::NotFound, detail)
    }

    pub(crate) fn failed(detail: impl Into<String>) -> Self {
        Self::of(ErrorKind::Failed, detail)
    }

    pub(crate) fn refused(detail: impl Into<String>) -> Self {
        Self::of(ErrorKind::Refused, detail)
    }

    pub(crate) fn busy(detail: impl Into<String>) -> Self {
        Self::of(ErrorKind::Busy, detail)
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// Only the sources that were not read completely are listed.
    pub(crate) fn incomplete(detail: impl Into<String>, mut sources: Vec<SourceReport>) -> Self {
        sources.retain(SourceReport::is_incomplete);
        let mut problem = Self::of(ErrorKind::Incomplete, detail);
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
        let kind = error.kind();
        match error {
            FindError::NotFound { text } => Self::of(kind, format!("no session has the id or name `{text}`"))
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
                let mut problem = Self::of(kind, detail)
                    .hint("give more of the id, or narrow it with adapter, root or cwd");
                problem.0.candidates = Some(candidates);
                problem
            }
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let problem = Self::of(error.kind, text::clean(&error.message));
        match error.hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Error::from(error).into()
    }
}

impl From<WorktreeError> for Problem {
    fn from(error: WorktreeError) -> Self {
        let untrusted = matches!(error, WorktreeError::Untrusted { .. });
        let problem = Self::from(Error::from(error));
        if !untrusted {
            return problem;
        }
        problem
            .hint("look at them; `\"trust\": true` on the unix socket runs them, and is remembered until they change")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_a_status_and_a_code_that_the_document_names() {
        let table: Vec<(u16, &str)> =
            ErrorKind::ALL.map(of_kind).into_iter().map(|(status, code)| (status.as_u16(), code)).collect();
        let expected = [
            (400, "usage"),
            (404, "not-found"),
            (409, "ambiguous"),
            (503, "incomplete"),
            (409, "refused"),
            (422, "refused"),
            (500, "failed"),
            (502, "failed"),
            (504, "failed"),
            (504, "timed-out"),
            (500, "failed"),
            (503, "busy"),
            (500, "failed"),
        ];
        assert_eq!(table, expected);
        for (status, code) in table {
            let named =
                KINDS.iter().any(|kind| kind.status == status && kind.words.contains(&format!("`{code}`")));
            assert!(named, "{status} {code}");
        }
    }

    #[test]
    fn a_problem_that_is_read_back_is_of_its_kind() {
        for kind in ErrorKind::ALL {
            let read = match kind {
                // A daemon never sends these two.
                ErrorKind::NoDaemon | ErrorKind::Interrupted => ErrorKind::Failed,
                kind => kind,
            };
            assert_eq!(Problem::of(kind, "x").kind(), read);
        }
        assert_eq!(Problem::forbidden("x").kind(), ErrorKind::Refused);
        assert_eq!(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "usage", "x").kind(), ErrorKind::Usage);
        assert_eq!(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "x").kind(), ErrorKind::Failed);
    }

    #[test]
    fn the_hint_of_an_error_comes_before_the_usual_one() {
        let hint = |error: Error| Problem::from(error).hint.clone();
        assert_eq!(hint(Error::usage("x").hint("y")).as_deref(), Some("y"));
        assert_eq!(hint(Error::usage("x")).as_deref(), Some("GET /openapi.json describes every route"));
        assert_eq!(hint(Error::refused("x")), None);
    }
}
