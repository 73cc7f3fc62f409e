//! A connection to a live app-server over its socket: requests, answers and notifications. No subscription
//! outlives the connection.

pub(super) mod ask;
pub(super) mod feed;
pub(super) mod held;
mod requests;
pub(super) mod steer;

use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agentctl_model::Process;
use serde::Deserialize;
use serde_json::{Value, json};
use tungstenite::Bytes;

use crate::agents::codex::processes::listens_on;
use crate::wire::deadline::Bounded;
use crate::wire::websocket::WebSocket;

/// A larger message cannot be an answer to any request made here.
const LARGEST_ANSWER: usize = 4 << 20;

/// The socket on which a server process can be reached.
pub(crate) fn socket_of(root: &Path, process: &Process) -> Option<PathBuf> {
    match listens_on(&process.head)? {
        "" => Some(root.join("app-server-control/app-server-control.sock")),
        path => Some(PathBuf::from(path)),
    }
}

/// A connection to an app-server.
pub(crate) struct Server {
    socket: WebSocket<Bounded<UnixStream>>,
    asked: u64,
    /// What the server said by itself while an answer was awaited.
    unread: VecDeque<Value>,
}

#[derive(Deserialize)]
struct Envelope {
    id: Option<Value>,
    /// Present only in the server's own requests and notifications, which may have any id.
    method: Option<String>,
}

impl Server {
    /// Connects with one timeout for everything, from the handshake to the last answer.
    pub(crate) fn connect(socket: &Path, timeout: Duration) -> io::Result<Self> {
        let mut server = Self {
            socket: WebSocket::connect(socket, LARGEST_ANSWER, timeout)?,
            asked: 0,
            unread: VecDeque::new(),
        };
        let client = json!({"name": "agentctl", "title": null, "version": env!("CARGO_PKG_VERSION")});
        let greeting = json!({"clientInfo": client, "capabilities": {"experimentalApi": true}});
        server.call("initialize", &greeting)?;
        server.socket.say(&json!({"method": "initialized"}).to_string())?;
        Ok(server)
    }

    /// Sends one request and waits for its answer, success or error. Other messages of the server are kept meanwhile.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> io::Result<Bytes> {
        let number = self.asked;
        self.asked += 1;
        self.socket.say(&json!({"id": number, "method": method, "params": params}).to_string())?;
        loop {
            let message = self.socket.receive()?;
            let Ok(envelope) = serde_json::from_slice::<Envelope>(&message) else { continue };
            if envelope.method.is_none() && envelope.id == Some(number.into()) {
                return Ok(message);
            }
            if envelope.method.is_some() {
                self.unread.extend(serde_json::from_slice::<Value>(&message));
            }
        }
    }

    /// Answers a request of the server.
    pub(crate) fn reply(&mut self, id: &Value, result: &Value) -> io::Result<()> {
        self.socket.say(&json!({"id": id, "result": result}).to_string())
    }

    /// Sets the deadline for the following operations.
    pub(crate) fn wait_until(&mut self, deadline: Instant) {
        self.socket.wait_until(deadline);
    }

    /// The result of a request, or the server's own error message.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> io::Result<Result<Value, String>> {
        let answer = self.call(method, params)?;
        let mut answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        Ok(match answer["error"]["message"].as_str() {
            Some(words) => Err(words.to_owned()),
            None => Ok(answer["result"].take()),
        })
    }

    /// The next message that the server sends, in order.
    pub(crate) fn receive(&mut self) -> io::Result<Value> {
        if let Some(message) = self.unread.pop_front() {
            return Ok(message);
        }
        Ok(serde_json::from_slice(&self.socket.receive()?).unwrap_or(Value::Null))
    }
}
