//! Who may ask what: every rule stands before every route, and there is no way around it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;
use crate::server::Peer;
use crate::shared::Shared;
use crate::token::Admission;
use crate::wire::{VERSION, WRITE};

pub(crate) async fn guard(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    shared.requests.fetch_add(1, Ordering::Relaxed);
    let mut response = match check(&shared, &peer, &request) {
        Ok(()) => {
            request.extensions_mut().insert(peer);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (VERSION, shared.version.as_str()),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
    ] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    response
}

fn check(shared: &Shared, peer: &Peer, request: &Request) -> Result<(), Problem> {
    let writes = !matches!(*request.method(), Method::GET | Method::HEAD);
    match peer {
        Peer::Unix { uid } => {
            if *uid != Some(rustix::process::geteuid().as_raw()) {
                return Err(Problem::forbidden("this socket belongs to another user"));
            }
        }
        Peer::Tcp { served } => {
            check_addresses(*served, request.headers())?;
            check_token(shared, request.headers())?;
            if writes && request.headers().get(WRITE).is_none_or(|value| value != "1") {
                return Err(Problem::forbidden("a write over TCP needs the header X-Agentctl: 1"));
            }
        }
    }
    if writes && shared.read_only {
        return Err(Problem::forbidden("this daemon was started with --read-only"));
    }
    if writes && !is_json(request.headers()) {
        let detail = "a write needs Content-Type: application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "usage", detail));
    }
    Ok(())
}

/// A page of somebody else must not reach us, neither by a name that it points here nor from its own origin. Comparing
/// the two with each other would not do: rebinding makes them equal.
fn check_addresses(served: SocketAddr, headers: &HeaderMap) -> Result<(), Problem> {
    let port = served.port();
    let ours = [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::1]:{port}")];
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !ours.iter().any(|known| known.eq_ignore_ascii_case(host)) {
        return Err(Problem::forbidden(format!("the host `{host}` is not this daemon")));
    }
    for origin in headers.get_all(header::ORIGIN) {
        let own = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
        if !own.is_some_and(|own| ours.iter().any(|known| known.eq_ignore_ascii_case(own))) {
            return Err(Problem::forbidden("requests of other origins are refused"));
        }
    }
    Ok(())
}

fn check_token(shared: &Shared, headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    // Without a token nothing is served over TCP; if it were, nobody would be let in.
    match shared.token.as_ref().map_or(Admission::Denied, |token| token.admit(given)) {
        Admission::Granted => Ok(()),
        Admission::Denied => {
            let detail = "the token is missing or wrong";
            Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
                .hint("send Authorization: Bearer with what http.token in AGENTCTL_HOME holds"))
        }
        Admission::LockedOut => {
            let detail = "too many wrong tokens; nobody is let in for half a minute";
            Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "locked-out", detail))
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}
