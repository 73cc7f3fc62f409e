//! A connection to one gateway: the handshake, then requests and their responses.
//!
//! Every step has its own deadline; a gateway that hangs, lies or disappears costs bounded time and memory. The
//! connection never reconnects by itself and requests no more rights than its caller names.

use std::io;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::device::{Challenge, Claims, Device};
use super::error::{GatewayError, Refusal};
use super::weight::{self, MOST_VALUES};
use crate::agents::openclaw::settings::address::Address;
use crate::wire::deadline::Timed;
use crate::wire::dial::dial;
use crate::wire::tls;
use crate::wire::websocket::{UpgradeRequest, WebSocket};
use crate::{Keys, Secret};

/// How long a gateway may take for the handshake, and for each response. A list gives up earlier, by the timeout of
/// its source; this limit is for everything that nothing else bounds. A gateway on a busy machine was seen to take 12
/// s.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// A thousand sessions take little more than one megabyte.
const LARGEST_MESSAGE: usize = 16 << 20;
/// The only protocol version that was observed.
const PROTOCOL: u64 = 4;
/// The gateway knows its clients by name and refuses others; this is the name for programs such as ours.
const CLIENT: &str = "cli";
/// A pause that the gateway itself requests is waited for if it is no longer than this.
const SHORT_PAUSE: Duration = Duration::from_secs(1);

pub(crate) const READ: &str = "operator.read";
pub(crate) const WRITE: &str = "operator.write";
pub(crate) const APPROVALS: &str = "operator.approvals";
pub(crate) const ADMIN: &str = "operator.admin";

/// What the gateway reported about itself in the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) version: String,
    /// Identifies one run of the gateway: when it changes, everything must be read again.
    pub(crate) boot: Option<String>,
    pub(crate) scopes: Vec<String>,
}

impl Hello {
    pub(crate) fn grants(&self, scope: &str) -> bool {
        // An administrator has all other rights.
        self.scopes.iter().any(|granted| granted == scope || granted == ADMIN)
    }
}

/// One response to one request, or an event.
#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    ok: bool,
    #[serde(borrow, default)]
    payload: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Refusal>,
    #[serde(default)]
    event: Option<String>,
}

/// An event that the gateway sent, as far as it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    /// The phase of a run, if the event reports one.
    pub(crate) phase: Option<String>,
}

#[derive(Deserialize)]
struct OfRun {
    #[serde(default)]
    stream: String,
    #[serde(default)]
    data: RunData,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RunData {
    phase: Option<String>,
}

#[derive(Deserialize)]
struct ChallengeEvent {
    nonce: String,
    ts: i64,
}

#[derive(Deserialize)]
struct Welcome {
    protocol: u64,
    #[serde(default)]
    server: Server,
    #[serde(default)]
    auth: Granted,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Server {
    version: String,
    boot_id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Granted {
    scopes: Vec<String>,
}

/// Plain TCP on this machine and in private networks, TLS everywhere else.
type Stream = Box<dyn Timed + Send>;

pub(crate) struct Connection {
    socket: WebSocket<Stream>,
    pub(crate) hello: Hello,
    /// The timeout of one request.
    timeout: Duration,
    asked: u64,
    received: usize,
}

impl Connection {
    /// Connects with these scopes, of which the first is required. A gateway that does not know this machine receives
    /// its device identity, if there is a device key; on loopback no gateway asks for it, and the pairing list stays
    /// short.
    pub(crate) fn connect(
        address: &Address,
        keys: &Keys,
        scopes: &[&'static str],
        timeout: Duration,
    ) -> Result<Self, GatewayError> {
        let device = keys.device.as_ref().and_then(Device::from_seed);
        let first = device.as_ref().filter(|_| !address.is_loopback());
        let attempt = |device: Option<&Device>| -> Result<Self, GatewayError> {
            let connection = Self::handshake(address, keys, scopes, device, timeout)?;
            match scopes.first() {
                Some(scope) if !connection.hello.grants(scope) => {
                    Err(GatewayError::NoScope { scope, paired: device.is_some() })
                }
                _ => Ok(connection),
            }
        };
        match (attempt(first), &device) {
            (Err(error), Some(device)) if first.is_none() && asks_who_we_are(&error) => attempt(Some(device)),
            (result, _) => result,
        }
    }

    fn handshake(
        address: &Address,
        keys: &Keys,
        scopes: &[&str],
        device: Option<&Device>,
        timeout: Duration,
    ) -> Result<Self, GatewayError> {
        let until = Instant::now() + timeout;
        let mut socket = open(address, keys, until, timeout)?;
        let during = "connect";
        let asked: ChallengeEvent = loop {
            let message = socket.receive().map_err(|error| GatewayError::of(error, during, timeout))?;
            let frame = parse(&message, during)?;
            match (frame.event.as_deref(), frame.payload) {
                (Some("connect.challenge"), Some(payload)) => break understood(payload, during)?,
                (Some(_), _) => {}
                _ => return Err(odd(during, "no challenge came first")),
            }
        };
        let params = connect_params(keys, scopes, device, &asked);
        let mut connection = Self {
            socket,
            hello: Hello { version: String::new(), boot: None, scopes: Vec::new() },
            timeout,
            asked: 0,
            received: 0,
        };
        let welcome: Welcome = connection.ask_until(during, &params, until)?;
        if welcome.protocol != PROTOCOL {
            return Err(odd(during, &format!("it chose protocol {}", welcome.protocol)));
        }
        connection.hello = Hello {
            version: welcome.server.version,
            boot: welcome.server.boot_id,
            scopes: welcome.auth.scopes,
        };
        Ok(connection)
    }

    /// Sends one request and reads its response. If the gateway itself requests a short pause, the request is sent
    /// once more.
    pub(crate) fn ask<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Result<T, GatewayError> {
        match self.ask_once(method, params) {
            Err(GatewayError::Refused { refusal, during }) => {
                let pause = Duration::from_millis(refusal.retry_after_ms.unwrap_or(0));
                if !refusal.retryable || pause > SHORT_PAUSE {
                    return Err(GatewayError::Refused { during, refusal });
                }
                std::thread::sleep(pause);
                self.ask_once(method, params)
            }
            other => other,
        }
    }

    /// How many bytes of responses were received so far, for callers that limit them.
    pub(crate) fn received(&self) -> usize {
        self.received
    }

    /// Sets the timeout of each further request.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    fn ask_once<T: DeserializeOwned>(&mut self, method: &str, params: &Value) -> Result<T, GatewayError> {
        self.ask_until(method, params, Instant::now() + self.timeout)
    }

    fn ask_until<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &Value,
        until: Instant,
    ) -> Result<T, GatewayError> {
        let timeout = self.timeout;
        self.asked += 1;
        let id = self.asked.to_string();
        self.socket.wait_until(until);
        let lost = |error: io::Error| GatewayError::of(error, method, timeout);
        let request = json!({"type": "req", "id": id, "method": method, "params": params});
        self.socket.say(&request.to_string()).map_err(lost)?;
        loop {
            let message = self.socket.receive().map_err(lost)?;
            self.received += message.len();
            let frame = parse(&message, method)?;
            // Events, and late second responses to older requests, are skipped.
            if frame.kind != "res" || frame.id.as_deref() != Some(&id) {
                continue;
            }
            if !frame.ok {
                let refusal = Box::new(frame.error.unwrap_or_default());
                return Err(GatewayError::Refused { during: method.to_owned(), refusal });
            }
            return understood(frame.payload.unwrap_or(RawValue::NULL), method);
        }
    }

    /// The next event of the gateway; `None` when there is none for that long.
    pub(crate) fn listen(&mut self, timeout: Duration) -> Result<Option<Event>, GatewayError> {
        let until = Instant::now() + timeout;
        loop {
            self.socket.wait_until(until);
            let message =
                match self.socket.receive().map_err(|error| GatewayError::of(error, "events", timeout)) {
                    Ok(message) => message,
                    Err(GatewayError::Silent { .. }) => return Ok(None),
                    Err(error) => return Err(error),
                };
            let frame = parse(&message, "events")?;
            if let Some(name) = frame.event {
                let run = frame.payload.filter(|_| name == "agent");
                let run: Option<OfRun> = run.and_then(|payload| serde_json::from_str(payload.get()).ok());
                let phase = run.filter(|run| run.stream == "lifecycle").and_then(|run| run.data.phase);
                return Ok(Some(Event { name, phase }));
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.socket.wait_until(Instant::now() + Duration::from_millis(100));
        self.socket.close();
    }
}

fn asks_who_we_are(error: &GatewayError) -> bool {
    match error {
        GatewayError::NoScope { .. } => true,
        GatewayError::Refused { refusal, .. } => refusal.code() == "DEVICE_IDENTITY_REQUIRED",
        _ => false,
    }
}

/// A connection over which keys may be sent. A certificate proves who the peer is; without one the kernel reports who
/// accepted the connection.
fn open(
    address: &Address,
    keys: &Keys,
    until: Instant,
    timeout: Duration,
) -> Result<WebSocket<Stream>, GatewayError> {
    if !address.secure && !address.is_private() {
        let why = "the token would cross a public network in plain words: use wss://, or tunnel it, for example \
            `ssh -N -L 18789:127.0.0.1:18789 HOST`, and use ws://127.0.0.1:18789";
        return Err(GatewayError::Unsafe(why.to_owned()));
    }
    let lost = |error| GatewayError::of(error, "connect", timeout);
    let stream = dial(&address.host, address.port, until).map_err(GatewayError::Unreachable)?;
    let ends = stream.ends().map_err(lost)?;
    let stream: Stream = if address.secure {
        let secured = tls::shake_hands(stream, &address.host, keys.pin.as_ref());
        Box::new(secured.map_err(|error| match tls::distrust(&error) {
            Some(why) => GatewayError::Unsafe(format!(
                "{why}; if it is the right one, name its fingerprint as `tlsFingerprint` of the gateway in config.toml"
            )),
            None => lost(error),
        })?)
    } else {
        Box::new(stream)
    };
    let host = address.authority();
    let greeting = UpgradeRequest { host: &host, path: &address.path, largest_message: LARGEST_MESSAGE };
    let socket = WebSocket::open(stream, &greeting).map_err(lost)?;
    let objection = if address.secure { None } else { keys.peer_check.objection(ends.0, ends.1) };
    objection.map_or(Ok(socket), |why| Err(GatewayError::Unsafe(why)))
}

/// The parameters of `connect`.
fn connect_params(keys: &Keys, scopes: &[&str], device: Option<&Device>, asked: &ChallengeEvent) -> Value {
    let platform = std::env::consts::OS;
    let mut params = json!({
        "minProtocol": PROTOCOL, "maxProtocol": PROTOCOL,
        "client": {
            "id": CLIENT, "mode": CLIENT, "platform": platform, "version": env!("CARGO_PKG_VERSION"),
            "displayName": "agentctl",
        },
        "role": "operator", "scopes": scopes, "caps": [],
    });
    let (token, password) = (keys.token.as_ref(), keys.password.as_ref());
    let secret = token.or(password).map_or("", Secret::reveal);
    if token.is_some() {
        params["auth"] = json!({"token": secret});
    } else if password.is_some() {
        params["auth"] = json!({"password": secret});
    }
    if let Some(device) = device {
        let claims = Claims { client: CLIENT, mode: CLIENT, role: "operator", scopes, platform, secret };
        params["device"] = device.block(&claims, &Challenge { nonce: &asked.nonce, at_ms: asked.ts });
    }
    params
}

fn parse<'m>(message: &'m [u8], during: &str) -> Result<Frame<'m>, GatewayError> {
    serde_json::from_slice(message).map_err(|error| odd(during, &error.to_string()))
}

fn understood<T: DeserializeOwned>(payload: &RawValue, during: &str) -> Result<T, GatewayError> {
    let values = weight::values(payload.get().as_bytes());
    if values > MOST_VALUES {
        return Err(GatewayError::TooHeavy { during: during.to_owned(), values });
    }
    serde_json::from_str(payload.get()).map_err(|error| odd(during, &error.to_string()))
}

fn odd(during: &str, what: &str) -> GatewayError {
    GatewayError::Odd { during: during.to_owned(), what: what.to_owned() }
}
