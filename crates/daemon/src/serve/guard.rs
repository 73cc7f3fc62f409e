//! Access control. Every rule applies to every route; only the page's own port gives its files to a tab that has not
//! signed in yet, and lets it sign in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use hyper::body::Body as _;

use crate::run::clock;
use crate::serve::connections::Pass;
use crate::serve::problem;
use crate::serve::problem::Problem;
use crate::serve::server::{BusRights, Peer};
use crate::serve::token::Admission;
use crate::serve::web::tokens::Tab;
use crate::shared::Shared;
use crate::wire::{VERSION, WRITE};

pub(crate) async fn guard(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    shared.requests.fetch_add(1, Ordering::Relaxed);
    let asked = format!("{} {}", request.method(), request.uri().path());
    let admitted = match check(&shared, &peer, &request) {
        Ok(caller) => shared.body_budget.room_for(request.headers()).await.map(|room| (caller, room)),
        Err(problem) => Err(problem),
    };
    let mut response = match admitted {
        // The room for the body is kept until the request has been answered.
        Ok((caller, _room)) => {
            if let Some(connection) = request.extensions().get::<Pass>()
                && !matches!(caller, Caller::Stranger)
            {
                connection.authenticated();
            }
            request.extensions_mut().insert(peer);
            if let Caller::Tab(tab) = &caller {
                request.extensions_mut().insert(tab.clone());
            }
            let response = problem::in_its_form(next.run(request).await, &asked).await;
            match caller {
                Caller::Tab(tab) => cut_at_end(response, tab, shared.clone()),
                Caller::Known | Caller::Stranger => response,
            }
        }
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (VERSION, shared.version.as_str()),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", POLICY),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    response
}

/// What a browser may do with any answer: run our own scripts, and be framed by nobody.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    base-uri 'none'; frame-ancestors 'none'; form-action 'none'";

/// Who was let in.
enum Caller {
    Known,
    Tab(Tab),
    /// A tab that has not signed in yet.
    Stranger,
}

/// A token that ends cuts what is being told to its tab; a stream that still runs is a use of it.
fn cut_at_end(response: Response, tab: Tab, shared: Arc<Shared>) -> Response {
    let (parts, body) = response.into_parts();
    let Tab { id, mut ended, .. } = tab;
    // What is answered at once is told whole.
    if body.size_hint().exact().is_some() {
        return Response::from_parts(parts, body);
    }
    let told = body.into_data_stream().map(move |part| {
        shared.web.used(&id, clock::now());
        part
    });
    let end = async move {
        // The sender is dropped after it has said so.
        let _ = ended.wait_for(|ended| *ended).await;
    };
    Response::from_parts(parts, Body::from_stream(told.take_until(Box::pin(end))))
}

/// What a tab without a token may ask for, over POST.
const SIGNING_IN: [&str; 2] = ["/v1/web/sign-in", "/v1/web/prove"];
const SIGN_OUT: &str = "/v1/web/sign-out";

/// Lets in a tab of the page.
fn check_tab(shared: &Shared, request: &Request, writes: bool) -> Result<Caller, Problem> {
    let path = request.uri().path();
    if writes && request.headers().get(WRITE).is_none_or(|value| value != "1") {
        return Err(Problem::forbidden("a write over TCP needs the header X-Agentctl: 1"));
    }
    if (!writes && (path == "/" || path.starts_with("/app/"))) || (writes && SIGNING_IN.contains(&path)) {
        return Ok(Caller::Stranger);
    }
    let given = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let tab = shared.web.admit(given, clock::now()).ok_or_else(|| {
        Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "this tab is not signed in")
            .hint("`agentctl web` opens one that is")
    })?;
    if writes && tab.read_only && path != SIGN_OUT {
        return Err(Problem::forbidden("this tab was opened to read only")
            .hint("`agentctl web` opens one that may act"));
    }
    Ok(Caller::Tab(tab))
}

fn check(shared: &Shared, peer: &Peer, request: &Request) -> Result<Caller, Problem> {
    let mut caller = Caller::Known;
    let writes = !matches!(*request.method(), Method::GET | Method::HEAD);
    match peer {
        Peer::Unix { uid, .. } => {
            if *uid != Some(rustix::process::geteuid().as_raw()) {
                return Err(Problem::forbidden("this socket belongs to another user"));
            }
        }
        Peer::Tcp => {
            check_addresses(request.uri(), request.headers())?;
            check_token(shared, request.headers())?;
            if writes && request.headers().get(WRITE).is_none_or(|value| value != "1") {
                return Err(Problem::forbidden("a write over TCP needs the header X-Agentctl: 1"));
            }
        }
        Peer::Page => {
            check_addresses(request.uri(), request.headers())?;
            caller = check_tab(shared, request, writes)?;
        }
        Peer::Nats(rights) if writes => check_deed(*rights, request.uri().path())?,
        // This would ask every machine that this one knows.
        Peer::Nats(_) if request.uri().path() == "/v1/hosts" => {
            return Err(Problem::forbidden("a machine of the bus asks no other machine for somebody else"));
        }
        Peer::Nats(_) => {}
    }
    if writes && shared.daemon_lock.is_none() && needs_daemon(request.uri().path()) {
        return Err(Problem::failed("this needs a daemon, and none runs on this machine")
            .hint("`agentctl daemon start` on that machine starts one"));
    }
    if writes && shared.read_only && !request.uri().path().starts_with("/v1/web") {
        return Err(Problem::forbidden("this daemon was started with --read-only"));
    }
    if writes && !is_json(request.headers()) {
        let detail = "a write needs Content-Type: application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "usage", detail));
    }
    Ok(caller)
}

/// What the bus may do, if it may do anything. Whatever is not named here is refused: a new route has to be thought about
/// first.
const DEEDS: [&str; 6] =
    ["/v1/sessions", "/v1/groups", "/v1/inbox", "/v1/locks", "/v1/fuses", "/v1/worktrees"];

/// A host never does more than its own settings say, whatever the server lets through.
fn check_deed(rights: BusRights, path: &str) -> Result<(), Problem> {
    if !rights.acts {
        return Err(Problem::forbidden("this machine lets the bus read and not act")
            .hint("`serve = \"act\"` in `[nats]` of that machine lets it"));
    }
    let is_below =
        |deed: &str| path.strip_prefix(deed).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if DEEDS.iter().any(|deed| is_below(deed)) {
        return Ok(());
    }
    Err(Problem::forbidden(format!("{path} is not done over the bus")).hint("ask that machine over ssh"))
}

/// Whether only a process that stays can keep what this route promises.
fn needs_daemon(path: &str) -> bool {
    ["/v1/fuses", "/v1/daemon", "/v1/web"].iter().any(|prefix| path.starts_with(prefix))
}

/// Rejects requests of foreign web pages, which could come through a name that points here or from their own
/// origin. Comparing the two headers with each other would not help, because rebinding makes them equal. Any
/// port is accepted, since it may be forwarded; the name must be one that means this machine everywhere.
fn check_addresses(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        let detail = "there are two Host headers; which of them is meant cannot be known";
        return Err(Problem::usage(detail).hint("send one"));
    }
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    // An absolute address in the request line has the meaning of a Host header.
    let meant = uri.authority().map_or(host, |authority| authority.as_str());
    for host in [host, meant] {
        if !is_loopback(host) {
            return Err(Problem::forbidden(format!("the host `{host}` is not this daemon")));
        }
    }
    for origin in headers.get_all(header::ORIGIN) {
        let own = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
        if !own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
            return Err(Problem::forbidden("requests of other origins are refused"));
        }
    }
    Ok(())
}

/// Whether this is a name or address, with its port, that means the local machine everywhere.
fn is_loopback(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let named = host.rsplit_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("localhost"));
    named.is_some_and(|(_, port)| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
    })
}

fn check_token(shared: &Shared, headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    // TCP is never served without a token; if it were, every request would be denied.
    match shared.token.as_ref().map_or(Admission::Denied, |token| token.admit(given)) {
        Admission::Granted => Ok(()),
        Admission::Denied => {
            let detail = "the token is missing or wrong";
            Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
                .hint("send Authorization: Bearer with what http.token in AGENTCTL_HOME holds"))
        }
        Admission::LockedOut => {
            let detail = "this token is wrong and was tried too often; the right one is let in";
            Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "locked-out", detail))
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(target: &str, lines: &[(&'static str, &str)]) -> Result<(), u16> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        let uri: Uri = target.parse().unwrap();
        check_addresses(&uri, &headers).map_err(|problem| problem.into_response().status().as_u16())
    }

    #[test]
    fn a_host_is_one_loopback_name_or_address_with_any_port() {
        for host in
            ["127.0.0.1:80", "127.0.0.2:7788", "127.9.8.7:1", "localhost:9", "LocalHost:9", "[::1]:80"]
        {
            assert_eq!(checked("/v1/sessions", &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "",
            "127.0.0.1",
            "localhost",
            "::1:80",
            "[::1]",
            "128.0.0.1:80",
            "[::ffff:127.0.0.1]:80",
            "0.0.0.0:80",
            "evil.example:80",
            "localhost.evil.example:80",
            "localhost:80.evil.example",
            "127.0.0.1.evil.example:80",
            "localhost:+80",
            "localhost:99999",
            "x@127.0.0.1:80",
        ] {
            assert_eq!(checked("/v1/sessions", &[("host", host)]), Err(403), "{host}");
        }
        assert_eq!(checked("/", &[]), Err(403));
        let ours = ("host", "127.0.0.1:80");
        assert_eq!(checked("/", &[ours, ours]), Err(400), "a second one, even the same");
        assert_eq!(checked("/", &[ours, ("host", "evil.example")]), Err(400));
        assert_eq!(checked("http://evil.example:80/", &[ours]), Err(403), "a whole address means the same");
        assert_eq!(checked("http://127.0.0.1:80/", &[ours]), Ok(()));
    }

    #[test]
    fn the_bus_does_only_what_is_named_and_only_where_it_may_act() {
        let status = |acts, path: &str| {
            let checked = check_deed(BusRights { acts, allows_bypass: true }, path);
            checked.map_err(|problem| problem.into_response().status().as_u16())
        };
        for path in ["/v1/sessions", "/v1/sessions/x/stop", "/v1/inbox/x/done", "/v1/fuses"] {
            assert_eq!(status(true, path), Ok(()), "{path}");
            assert_eq!(status(false, path), Err(403), "{path}");
        }
        for path in ["/v1/daemon/stop", "/v1/web/sign-in", "/v1/sessionsx", "/", "/v2/sessions"] {
            assert_eq!(status(true, path), Err(403), "{path}");
        }
    }

    #[test]
    fn an_origin_is_the_host_that_was_asked_for() {
        let host = ("host", "127.0.0.1:80");
        assert_eq!(checked("/", &[host, ("origin", "http://127.0.0.1:80")]), Ok(()));
        for origin in
            ["null", "http://localhost:80", "http://127.0.0.1:81", "https://127.0.0.1:80", "http://x"]
        {
            assert_eq!(checked("/", &[host, ("origin", origin)]), Err(403), "{origin}");
        }
    }
}
