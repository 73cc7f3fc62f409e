//! Signing in to the page, and opening and closing its port.

use agentctl_model::text;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::body::Body;
use super::{App, answer, json};
use crate::run::clock;
use crate::serve::problem::Problem;
use crate::serve::server::Peer;
use crate::serve::web::codes::GOOD_FOR;
use crate::serve::web::tokens::{SignedIn, Tab};
use crate::serve::web::{port, view_of};

/// The longest nonce that is answered.
const LONGEST_NONCE: usize = 256;

/// What the page is to be opened for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[derive(Default)]
pub(crate) struct WebBody {
    /// The tab may look and not act.
    read_only: bool,
    /// Also write a file that leads a browser to the address.
    file: bool,
    /// The session that the tab opens on; without it the list.
    session: Option<PageSession>,
}

/// A session, as the page names it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PageSession {
    /// The machine it is on; without it this one.
    #[serde(default)]
    host: Option<String>,
    id: String,
    /// Its folder, where its id stands twice.
    #[serde(default)]
    cwd: Option<String>,
}

/// An address that signs in one tab of a browser, once and for a minute.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Invitation")]
pub struct WebInvitation {
    pub address: String,
    pub read_only: bool,
    /// A file of this user alone that leads a browser to the address; removed after the sign-in or a minute.
    pub file: Option<String>,
}

/// What the page knows about itself.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebState {
    /// This machine's name.
    host: String,
    read_only: bool,
    /// The port of the page; null while it is closed.
    port: Option<u16>,
}

/// Whether the page was open.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebClosed {
    pub was_open: bool,
}

/// The code of an address that `agentctl web` gave.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignInBody {
    code: String,
}

/// What a tab gets for its code.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignIn {
    token: String,
    /// Names the token; no secret.
    id: String,
    read_only: bool,
}

/// Which token the proof is about, and what is to be signed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProveBody {
    id: String,
    nonce: String,
}

/// The HMAC-SHA256 of the nonce under the SHA-256 of the token, in hexadecimal digits.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Proof {
    proof: String,
}

/// That the token of this tab has ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignedOut {
    signed_out: bool,
}

/// An object without keys.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoFields {}

pub(crate) async fn state(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    tab: Option<Extension<Tab>>,
) -> Result<Response, Problem> {
    if matches!(peer, Peer::Nats(_)) {
        return Err(Problem::forbidden("the page is a matter of its own machine"));
    }
    let read_only = app.read_only || tab.is_some_and(|Extension(tab)| tab.read_only);
    json(&WebState { host: app.host.clone(), read_only, port: app.web.open_port() }).map(answer)
}

pub(crate) async fn open(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Body(body): Body<WebBody>,
) -> Result<Response, Problem> {
    only_here(&peer)?;
    let failed = |error: std::io::Error| Problem::failed(format!("the page cannot be opened: {error}"));
    let port = port::open(&app).map_err(failed)?;
    let read_only = body.read_only || app.read_only;
    let view = body.session.map(|PageSession { host, id, cwd }| {
        view_of(host.as_deref().unwrap_or(&app.host), &id, cwd.as_deref())
    });
    let invitation = app.web.invite(port, view.as_deref(), read_only, body.file).map_err(failed)?;
    tokio::spawn(async move {
        tokio::time::sleep(GOOD_FOR).await;
        app.web.sweep();
    });
    let file = invitation.file.map(|file| file.to_string_lossy().into_owned());
    json(&WebInvitation { address: invitation.address, read_only, file }).map(answer)
}

pub(crate) async fn off(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Body(NoFields {}): Body<NoFields>,
) -> Result<Response, Problem> {
    only_here(&peer)?;
    let closed = app.web.close();
    let was_open = closed.map_err(|error| {
        Problem::failed(format!("the port is closed, but web.json cannot be removed: {error}"))
    })?;
    json(&WebClosed { was_open }).map(answer)
}

pub(crate) async fn sign_in(
    State(app): State<App>,
    Body(SignInBody { code }): Body<SignInBody>,
) -> Result<Response, Problem> {
    let signed = app.web.sign_in(&code, clock::now());
    let signed = signed.map_err(|error| Problem::failed(format!("nobody can sign in now: {error}")))?;
    let SignedIn { token, id, read_only } = signed.ok_or_else(|| {
        Problem::forbidden("this code was used, is older than a minute, or was never given")
            .hint("`agentctl web` gives another one")
    })?;
    json(&SignIn { token, id, read_only }).map(answer)
}

pub(crate) async fn prove(
    State(app): State<App>,
    Body(ProveBody { id, nonce }): Body<ProveBody>,
) -> Result<Response, Problem> {
    if nonce.len() > LONGEST_NONCE {
        return Err(Problem::usage(format!("a nonce has at most {LONGEST_NONCE} characters")));
    }
    let proof = app.web.prove(&id, &nonce, clock::now()).ok_or_else(|| {
        let detail = format!("nobody is signed in as {}", text::one_line(&id));
        Problem::new(StatusCode::FORBIDDEN, "forbidden", detail).hint("`agentctl web` opens another tab")
    })?;
    json(&Proof { proof }).map(answer)
}

pub(crate) async fn sign_out(
    State(app): State<App>,
    tab: Option<Extension<Tab>>,
    Body(NoFields {}): Body<NoFields>,
) -> Result<Response, Problem> {
    let Some(Extension(tab)) = tab else {
        return Err(Problem::forbidden("only a tab that is signed in can sign out"));
    };
    let ended = app.web.sign_out(&tab.id);
    ended.map_err(|error| Problem::failed(format!("signed out, until the next start: {error}")))?;
    json(&SignedOut { signed_out: true }).map(answer)
}

/// A tab is opened by a person at this machine.
fn only_here(peer: &Peer) -> Result<(), Problem> {
    match peer {
        Peer::Unix { .. } => Ok(()),
        Peer::Tcp | Peer::Page | Peer::Nats(_) => {
            Err(Problem::forbidden("the page is opened and closed on the unix socket alone")
                .hint("run `agentctl web` on that machine"))
        }
    }
}
