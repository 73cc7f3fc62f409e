//! `host=`: a request that is about another machine. The daemon asks it in the place of the caller and passes its
//! answer on; a list may be of several machines.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use agentctl_fleet::{Query, Wanted};
use agentctl_hosts::Events;
use agentctl_model::{CoverageKind, ErrorKind};
use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::sync::mpsc;

use super::api::{answer, json, launch, run_blocking, timeline, usage};
use super::body_budget::WORDS;
use super::chosen_sources;
use super::problem::Problem;
use super::query::{self, LIST};
use super::server::Peer;
use crate::settings::{FarRequest, Passed};
use crate::shared::{Phase, Shared};
use crate::tell::events::written;
use crate::tell::metrics::page_of_hosts;

/// The name of the parameter.
const HOST: &str = "host";
/// What may be done over TCP on another machine, whatever the body says.
const OVER_TCP: [&str; 5] = ["/stop", "/send", "/answer", "/interrupt", "/done"];
/// What may be done there if the body leaves commands, files and variables to that machine.
const STARTS: [&str; 2] = ["/v1/sessions", "/resume"];

/// How long an event of another machine is waited for before it is asked whether anybody still listens.
const TICK: Duration = Duration::from_secs(1);
/// A stream of which nothing came for this long is lost: a machine that has nothing to tell says so every 15 seconds.
const SILENCE: Duration = Duration::from_secs(45);

/// Whether requests of this path can be about another machine.
pub(crate) fn reaches(path: &str) -> bool {
    path == METRICS
        || (path.starts_with("/v1/")
            && path != "/v1/hosts"
            && !path.starts_with("/v1/daemon")
            && !path.starts_with("/v1/web"))
}

/// Whether a path is one of these deeds.
fn does(deeds: &[&str], path: &str) -> bool {
    deeds.iter().any(|end| path.ends_with(end))
}

/// Whether the answer to this path is a stream.
fn streams(path: &str) -> bool {
    path.ends_with("/stream") || ["/v1/events", "/v1/search"].contains(&path)
}

const METRICS: &str = "/metrics";

pub(crate) async fn pass_on(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let (hosts, rest) = match split(request.uri().query()) {
        Ok(split) => split,
        Err(problem) => return problem.into_response(),
    };
    if hosts.is_empty() {
        return next.run(request).await;
    }
    match passed(shared, &peer, hosts, &rest, request).await {
        Ok(Handled::Answered(response)) => response,
        Ok(Handled::Here(request)) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

enum Handled {
    Answered(Response),
    /// It is about this machine after all.
    Here(Request),
}

async fn passed(
    shared: Arc<Shared>,
    peer: &Peer,
    hosts: Vec<String>,
    rest: &str,
    request: Request,
) -> Result<Handled, Problem> {
    let path = request.uri().path().to_owned();
    if !reaches(&path) {
        return Err(Problem::usage(format!("{path} is asked of this machine alone"))
            .hint("the daemon of the other machine tells it"));
    }
    let reads = *request.method() == Method::GET;
    match peer {
        Peer::Unix { .. } => {}
        Peer::Tcp | Peer::Page if reads || does(&OVER_TCP, &path) || does(&STARTS, &path) => {}
        Peer::Tcp | Peer::Page => {
            return Err(Problem::forbidden("this is done on another machine on the unix socket alone"));
        }
        // Whom this machine can reach is not the bus's to use.
        Peer::Nats(_) => {
            return Err(Problem::forbidden("a machine of the bus asks no other machine for somebody else")
                .hint("ask that machine itself"));
        }
    }
    if reads && path == "/v1/sessions" {
        let pairs = query::parse(Some(rest), &[LIST])?;
        let strict = query::flag(&pairs, "strict");
        let wanted = query::list_from(&pairs);
        let fleet = chosen_sources::fleet(&*shared.settings, request.headers(), peer)?;
        let host = shared.host.clone();
        let listed = run_blocking(move || {
            let listing = shared.settings.list_over(&hosts, &wanted, fleet)?;
            let unheard = listing.hosts.iter().any(|row| row.coverage != CoverageKind::Complete);
            if strict && unheard {
                return Err(Problem::incomplete(
                    "not every machine could be heard completely",
                    listing.sources,
                ));
            }
            json(&listing.answer(&host))
        });
        return listed.await.map(answer).map(Handled::Answered);
    }
    let is_of_several = hosts.len() > 1 || hosts.iter().any(|host| host == "all");
    if reads && is_of_several && (path == "/v1/usage" || path == "/v1/timeline") {
        let fleet = chosen_sources::fleet(&*shared.settings, request.headers(), peer)?;
        let of_hosts = if path == "/v1/usage" { usage::of_hosts } else { timeline::of_hosts };
        let rest = rest.to_owned();
        let told = run_blocking(move || of_hosts(&rest, &shared, &hosts, fleet));
        return told.await.map(answer).map(Handled::Answered);
    }
    if reads && path == METRICS {
        let _ = query::parse(Some(rest), &[])?;
        let fleet = chosen_sources::fleet(&*shared.settings, request.headers(), peer)?;
        let page = run_blocking(move || {
            let live = Query::new(Wanted::Live);
            Ok(page_of_hosts(&shared.settings.list_over(&hosts, &live, fleet)?))
        });
        let kind = "text/plain; version=0.0.4; charset=utf-8";
        let page = page.await?;
        return Ok(Handled::Answered(([(header::CONTENT_TYPE, kind)], page).into_response()));
    }
    let [host] = hosts.as_slice() else {
        return Err(Problem::usage("this is asked of one machine at a time"));
    };
    let target = if rest.is_empty() { path.clone() } else { format!("{path}?{rest}") };
    if reads && streams(&path) {
        let cursor = request.headers().get("last-event-id").and_then(|cursor| cursor.to_str().ok());
        let (name, cursor, asked) = (host.clone(), cursor.map(str::to_owned), target.clone());
        let settings = shared.settings.clone();
        let events = run_blocking(move || Ok(settings.listen(&name, &asked, cursor.as_deref())?)).await?;
        if let Some(events) = events {
            return Ok(Handled::Answered(stream(shared, host.clone(), events)));
        }
        let (head, body) = request.into_parts();
        return here(head, body, &target);
    }
    let (head, body) = request.into_parts();
    let bytes = to_bytes(body, WORDS).await.map_err(|_| {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "usage", format!("the body has more than {WORDS} bytes"))
    })?;
    let text = String::from_utf8(bytes.to_vec()).map_err(|_| Problem::usage("the body is no text"))?;
    if !reads && !matches!(peer, Peer::Unix { .. }) && does(&STARTS, &path) {
        launch::check_passed_on(&path, &text)?;
    }
    let (name, method, asked) = (host.clone(), head.method.to_string(), target.clone());
    let body = (!reads).then(|| text.clone());
    let settings = shared.settings.clone();
    let far = run_blocking(move || {
        Ok(settings.pass_on(&name, FarRequest { method: &method, target: &asked, body: body.as_deref() })?)
    });
    match far.await? {
        Passed::Here => here(head, text.into(), &target),
        Passed::Answered { status, body } => Ok(Handled::Answered(named(host, status, &body))),
    }
}

/// The request without the name of this machine in it.
fn here(head: Parts, body: Body, target: &str) -> Result<Handled, Problem> {
    let target: PathAndQuery =
        target.parse().map_err(|_| Problem::usage("the address is not well encoded"))?;
    let mut request = Request::from_parts(head, body);
    *request.uri_mut() = Uri::from(target);
    Ok(Handled::Here(request))
}

/// Passes the events of another machine on until one of the three has gone. If it is that machine, the last event is an
/// `error` with a problem.
fn stream(shared: Arc<Shared>, host: String, mut events: Box<dyn Events>) -> Response {
    // The channel is small: a client that does not read only holds up its own stream.
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        let lost = loop {
            if sender.is_closed() || *shared.phase.borrow() != Phase::Serving {
                return;
            }
            match events.next(Some(TICK)) {
                Ok(Some(event)) => {
                    let passed = events.cursor().into_iter().fold(sse::Event::default(), sse::Event::id);
                    let passed = passed.event(&event.kind).data(of(&host, &event.data));
                    if sender.blocking_send(passed).is_err() {
                        return;
                    }
                    if event.kind == "end" || event.kind == "error" {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    if events.last_heard().elapsed() > SILENCE {
                        break format!("nothing came for {} s", SILENCE.as_secs());
                    }
                }
                Ok(None) => break "the stream ended".to_owned(),
                Err(error) => break error.to_string(),
            }
        };
        let words = format!("{host} is not heard any more: {lost}");
        let problem = Problem::of(ErrorKind::Incomplete, words).hint("ask again from behind the last id");
        let _ = sender.blocking_send(sse::Event::default().event("error").data(written(&problem)));
    });
    let lines = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let event: sse::Event = receiver.recv().await?;
        Some((Ok::<_, Infallible>(event), receiver))
    });
    Sse::new(lines).keep_alive(KeepAlive::default()).into_response()
}

/// The data of an event, under the name by which its machine was asked.
fn of(host: &str, data: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(data) else { return data.to_owned() };
    name(host, &mut value);
    value.to_string()
}

/// The answer of a machine, with the name under which it was asked.
fn named(host: &str, status: u16, body: &[u8]) -> Response {
    let kind = if status == 200 { "application/json" } else { "application/problem+json" };
    let Ok(mut value) = serde_json::from_slice::<Value>(body) else {
        let words = format!("{host} gave an answer that cannot be read");
        return Problem::of(ErrorKind::Incomplete, words).into_response();
    };
    name(host, &mut value);
    let body = value.to_string();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    (status, [(header::CONTENT_TYPE, kind)], body).into_response()
}

fn name(host: &str, value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(known) = object.get_mut(HOST).filter(|known| known.is_string()) {
                *known = host.into();
            }
            // What an agent keeps of its own is not ours to name.
            object.iter_mut().filter(|(key, _)| *key != "meta").for_each(|(_, value)| name(host, value));
        }
        Value::Array(array) => array.iter_mut().for_each(|value| name(host, value)),
        _ => {}
    }
}

/// The machines that the query names, and the rest of it as it stands.
fn split(raw: Option<&str>) -> Result<(Vec<String>, String), Problem> {
    let (mut hosts, mut rest) = (Vec::new(), Vec::new());
    for part in raw.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some((HOST, value)) => hosts.push(query::decode(value)?),
            None if part == HOST => return Err(Problem::usage("`host` names a machine")),
            _ => rest.push(part),
        }
    }
    Ok((hosts, rest.join("&")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_taken_out_of_a_query_and_nothing_else_is() {
        let (hosts, rest) = split(Some("all&host=box&cwd=%2Fa%26b&host=a%2Db")).unwrap();
        assert_eq!((hosts, rest.as_str()), (vec!["box".to_owned(), "a-b".to_owned()], "all&cwd=%2Fa%26b"));
        assert_eq!(split(None).unwrap(), (Vec::new(), String::new()));
        assert!(split(Some("host")).is_err() && split(Some("host=%zz")).is_err());
        for open in ["/v1/sessions", "/v1/sessions/x/stop", "/v1/inbox", "/v1/events", "/metrics"] {
            assert!(reaches(open), "{open}");
        }
        for own in ["/v1/hosts", "/v1/daemon", "/v1/daemon/stop", "/healthz", "/openapi.json"] {
            assert!(!reaches(own), "{own}");
        }
        let streamed =
            ["/v1/events", "/v1/search", "/v1/sessions/x/messages/stream", "/v1/sessions"].map(streams);
        assert_eq!(streamed, [true, true, true, false]);
    }

    #[test]
    fn an_answer_is_named_after_the_machine_that_was_asked() {
        let mut value = serde_json::json!({
            "host": "calls itself", "sessions": [{"host": "x", "meta": {"host": "y"}}], "sources": [{"host": null}],
        });
        name("box", &mut value);
        assert_eq!(
            value,
            serde_json::json!({
                "host": "box", "sessions": [{"host": "box", "meta": {"host": "y"}}], "sources": [{"host": null}],
            })
        );
    }
}
