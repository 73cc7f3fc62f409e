//! A scripted gateway on loopback, which can also behave badly.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::manners::Act;
use super::tls::{self, Stream};
use super::wire;

/// The stage of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step<'a> {
    /// The client has requested the WebSocket upgrade.
    Upgrade,
    /// The gateway must send the challenge.
    Challenge,
    /// The client has sent a request.
    Request { method: &'a str, params: &'a Value },
}

/// Connections by their number.
type Lines = Arc<Mutex<HashMap<usize, Line>>>;

/// An open connection without TLS.
struct Line {
    stream: TcpStream,
    /// Whether the upgrade was answered: before that an event would stand in the place of the answer.
    upgraded: Arc<AtomicBool>,
}

type Script = Box<dyn Fn(Step<'_>) -> Act + Send + Sync>;

/// The proper answer to a client that asks for WebSocket.
fn accepted(request: &str) -> String {
    let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap_or_default();
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Accept: {}\r\n\r\n",
        tungstenite::handshake::derive_accept_key(key.as_bytes())
    )
}

/// The running gateway. It stops when dropped.
pub struct ScriptedGateway {
    address: SocketAddr,
    secure: bool,
    stop: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
    /// The open connections without TLS, to which events are pushed.
    lines: Lines,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl ScriptedGateway {
    pub fn start(script: impl Fn(Step<'_>) -> Act + Send + Sync + 'static) -> Self {
        Self::serve(script, None)
    }

    /// Starts a gateway with TLS.
    pub fn start_secure(
        identity: tls::Identity,
        script: impl Fn(Step<'_>) -> Act + Send + Sync + 'static,
    ) -> Self {
        Self::serve(script, Some(tls::server(identity)))
    }

    fn serve(
        script: impl Fn(Step<'_>) -> Act + Send + Sync + 'static,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Self {
        let secure = tls.is_some();
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind a loopback port");
        let address = listener.local_addr().expect("read the listener's address");
        let (stop, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let script: Arc<Script> = Arc::new(Box::new(script));
        let lines: Lines = Arc::default();
        let pushed = Arc::clone(&lines);
        let (stopping, counted) = (Arc::clone(&stop), Arc::clone(&connections));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopping.load(Ordering::Relaxed) {
                    return;
                }
                let number = counted.fetch_add(1, Ordering::Relaxed);
                let (script, stopping) = (Arc::clone(&script), Arc::clone(&stopping));
                let tls = tls.clone();
                let upgraded = Arc::new(AtomicBool::new(false));
                if let (None, Ok(stream)) = (&tls, stream.try_clone()) {
                    let line = Line { stream, upgraded: Arc::clone(&upgraded) };
                    pushed.lock().expect("the lines").insert(number, line);
                }
                let lines = Arc::clone(&pushed);
                std::thread::spawn(move || {
                    let stream = Stream::of(stream, tls);
                    // The client sees how its connection ends.
                    let _ = Connection { stream, stopping, upgraded }.serve(script.as_ref());
                    lines.lock().expect("the lines").remove(&number);
                });
            }
        });
        Self { address, secure, stop, connections, lines, thread: Some(thread) }
    }

    /// `ws://127.0.0.1:PORT`, or `wss://` with TLS
    pub fn url(&self) -> String {
        format!("{}://{}", if self.secure { "wss" } else { "ws" }, self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Sends an event to every connected client. Works only without TLS.
    pub fn push(&self, event: &str, payload: &Value) {
        let frame = json!({"type": "event", "event": event, "payload": payload}).to_string();
        let mut lines = self.lines.lock().expect("the lines");
        // Connections that are closed are dropped.
        lines.retain(|_, line| {
            !line.upgraded.load(Ordering::Relaxed)
                || wire::write(&mut line.stream, wire::TEXT, frame.as_bytes(), false).is_ok()
        });
    }

    /// Cuts every connection, as if the gateway was killed; new connections are still accepted.
    pub fn cut_all(&self) {
        for (_, line) in self.lines.lock().expect("the lines").drain() {
            let _ = line.stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// How many connections are open. Works only without TLS.
    pub fn standing(&self) -> usize {
        self.lines.lock().expect("the lines").len()
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for ScriptedGateway {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for the next connection.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) stopping: Arc<AtomicBool>,
    upgraded: Arc<AtomicBool>,
}

impl Connection {
    fn serve(mut self, script: &Script) -> io::Result<()> {
        let accepted = accepted(&wire::read_http_head(&mut self.stream)?);
        match script(Step::Upgrade) {
            Act::Proper(_) => self.stream.write_all(accepted.as_bytes())?,
            Act::Then(_, worse) => {
                self.stream.write_all(accepted.as_bytes())?;
                return self.misbehave(*worse);
            }
            other => return self.misbehave(other),
        }
        match script(Step::Challenge) {
            Act::Proper(_) => {
                let challenge = json!({"nonce": "n-1", "ts": 1_794_725_739_451_i64});
                self.say(&json!({"type": "event", "event": "connect.challenge", "payload": challenge}))?;
            }
            other => return self.misbehave(other),
        }
        self.upgraded.store(true, Ordering::Relaxed);
        loop {
            let (kind, payload) = wire::read(&mut self.stream)?;
            if kind == wire::CLOSE {
                return Ok(());
            }
            let request: Value = serde_json::from_slice(&payload).map_err(io::Error::other)?;
            let (id, method) = (&request["id"], request["method"].as_str().unwrap_or_default());
            let answer = |payload: Value| json!({"type": "res", "id": id, "ok": true, "payload": payload});
            match script(Step::Request { method, params: &request["params"] }) {
                Act::Proper(payload) => self.say(&answer(payload))?,
                Act::Refuse(error) => {
                    self.say(&json!({"type": "res", "id": id, "ok": false, "error": error}))?;
                }
                Act::After(events, payload) => {
                    events.iter().try_for_each(|event| self.say(event))?;
                    self.say(&answer(payload))?;
                }
                Act::Before(payload, events) => {
                    self.say(&answer(payload))?;
                    events.iter().try_for_each(|event| self.say(event))?;
                }
                Act::Twice(first, second) => {
                    self.say(&answer(first))?;
                    self.say(&answer(second))?;
                }
                Act::Then(payload, worse) => {
                    self.say(&answer(payload))?;
                    return self.misbehave(*worse);
                }
                other => return self.misbehave(other),
            }
        }
    }

    fn say(&mut self, frame: &Value) -> io::Result<()> {
        wire::write(&mut self.stream, wire::TEXT, frame.to_string().as_bytes(), false)
    }
}
