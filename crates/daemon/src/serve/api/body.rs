//! Bodies of requests, and the checks of their fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_fleet::worktree::root::real_path;
use agentctl_model::text::period::parse_duration;
use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;

use crate::serve::body_budget::SMALL;
use crate::serve::problem::Problem;
use crate::serve::query::{LENGTH, adapter_schema};

/// How long a body may take to arrive.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A typed body of at most `MOST` bytes. An empty body counts as an object without keys.
pub(crate) struct Body<T, const MOST: usize = SMALL>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync, const MOST: usize> FromRequest<S> for Body<T, MOST> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let bytes = tokio::time::timeout(TIMEOUT, to_bytes(request.into_body(), MOST)).await;
        let late = |_| {
            let detail = format!("the body did not come within {} seconds", TIMEOUT.as_secs());
            Problem::new(StatusCode::REQUEST_TIMEOUT, "usage", detail)
        };
        let bytes = bytes.map_err(late)?.map_err(|_| {
            let detail = format!("the body was cut off or has more than {MOST} bytes");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "usage", detail)
        })?;
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        if holds_nul(text) {
            return Err(Problem::usage("the body holds a NUL, which no path, name or message can"));
        }
        serde_json::from_slice(text).map(Self).map_err(|error| Problem::usage(format!("the body: {error}")))
    }
}

/// Whether a string in a JSON text contains a NUL, which JSON can only write escaped.
fn holds_nul(text: &[u8]) -> bool {
    let escaped = text.windows(6).enumerate().filter(|(_, six)| six == b"\\u0000");
    // An escaped backslash does not begin an escape.
    escaped
        .into_iter()
        .any(|(at, _)| text[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0)
}

/// Describes a field that holds a length of time as a person writes it; [`duration`] parses it.
pub(crate) struct Length;

/// Describes a field that holds an absolute path; [`absolute`] parses it.
pub(crate) struct AbsolutePath;

/// Describes a field that names an agent.
pub(crate) struct AdapterName;

impl JsonSchema for Length {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Length".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": LENGTH})
    }
}

impl JsonSchema for AbsolutePath {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AbsolutePath".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^/"})
    }
}

impl JsonSchema for AdapterName {
    fn schema_name() -> Cow<'static, str> {
        "AdapterName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = adapter_schema();
        schema["description"] = "The name of an agent.".into();
        schema.try_into().unwrap_or_default()
    }
}

/// Resolves a path. A relative path would be relative to the daemon's own directory, which no caller means.
pub(super) fn absolute(name: &str, path: &Path) -> Result<PathBuf, Problem> {
    if path.is_absolute() {
        return Ok(real_path(path));
    }
    Err(Problem::usage(format!("{name}: `{}` is no absolute path", path.display())))
}

pub(super) fn duration(name: &str, text: Option<&str>) -> Result<Option<Duration>, Problem> {
    let wrong = |why: String| Problem::usage(format!("{name}: {why}"));
    text.map(|text| parse_duration(text).map_err(wrong)).transpose()
}

/// Checks that a process can be given these variables.
pub(super) fn check_variables(name: &str, variables: &BTreeMap<String, String>) -> Result<(), Problem> {
    let wrong = |(key, value): &(&String, &String)| {
        key.is_empty() || key.contains(['=', '\0']) || value.contains('\0')
    };
    match variables.iter().find(wrong) {
        Some((key, _)) => Err(Problem::usage(format!("{name}: `{key}` cannot be a variable"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_is_found_however_many_backslashes_stand_before_it() {
        for (value, holds) in
            [("\0", true), ("\\\0", true), ("\\u0000", false), ("\\\\u0000", false), ("u0000", false)]
        {
            let text = serde_json::json!({ "a": value }).to_string();
            assert_eq!(holds_nul(text.as_bytes()), holds, "{text}");
        }
    }
}
