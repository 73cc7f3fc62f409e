//! Text messages over WebSocket, on a stream that has a deadline.
//!
//! The protocol is tungstenite's. What this module adds: the deadline belongs to the stream, a message has a maximum
//! size, and an error is an [`io::Error`] in words for a person. Nothing is sent before the server has proved, by the
//! `Sec-WebSocket-Accept` of its response, that it speaks WebSocket. The connection never reconnects by itself.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use tungstenite::client::client_with_config;
use tungstenite::error::{CapacityError, ProtocolError};
use tungstenite::handshake::HandshakeError;
use tungstenite::handshake::client::generate_key;
use tungstenite::http::Request;
use tungstenite::protocol::frame::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{Message, WebSocketConfig};
use tungstenite::{Bytes, Error};

use crate::wire::deadline::{Bounded, Timed};

/// How much is read from the stream at once.
const READ_BUFFER: usize = 16 << 10;

/// The server has announced that the connection is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) code: Option<u16>,
    pub(crate) reason: String,
}

impl fmt::Display for Closed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.reason.as_str()) {
            (None, _) => out.write_str("the server closed the connection"),
            (Some(code), "") => write!(out, "the server closed the connection ({code})"),
            (Some(code), reason) => write!(out, "the server closed the connection ({code}: {reason})"),
        }
    }
}

impl std::error::Error for Closed {}

impl From<Option<CloseFrame>> for Closed {
    fn from(frame: Option<CloseFrame>) -> Self {
        let reason = frame.as_ref().map_or("", |frame| frame.reason.as_str());
        Self { reason: agentctl_model::text::one_line(reason), code: frame.map(|frame| frame.code.into()) }
    }
}

/// What is requested at the upgrade, and the most that is read for it.
pub(crate) struct UpgradeRequest<'a> {
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    pub(crate) largest_message: usize,
}

pub(crate) struct WebSocket<S>(tungstenite::WebSocket<S>);

impl WebSocket<Bounded<UnixStream>> {
    pub(crate) fn connect(path: &Path, largest_message: usize, timeout: Duration) -> io::Result<Self> {
        let upgrade = UpgradeRequest { host: "localhost", path: "/", largest_message };
        let deadline = Instant::now() + timeout;
        Self::open(Bounded::new(UnixStream::connect(path)?, deadline), &upgrade)
    }
}

impl<S: Timed> WebSocket<S> {
    /// Asks the server to switch to WebSocket, within the stream's deadline.
    pub(crate) fn open(stream: S, upgrade: &UpgradeRequest<'_>) -> io::Result<Self> {
        let request = Request::builder()
            .uri(format!("ws://{}{}", upgrade.host, upgrade.path))
            .header("Host", upgrade.host)
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", generate_key())
            .body(())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(0)
            .max_message_size(Some(upgrade.largest_message))
            .max_frame_size(Some(upgrade.largest_message));
        match client_with_config(request, stream, Some(config)) {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(HandshakeError::Failure(error)) => Err(not_opened(error)),
            // A non-blocking stream reports this; ours blocks until its deadline.
            Err(HandshakeError::Interrupted(_)) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Sets the deadline of what follows.
    pub(crate) fn wait_until(&mut self, deadline: Instant) {
        self.0.get_mut().wait_until(deadline);
    }

    /// Closes the connection explicitly, so that the server need not guess. Does not wait for the answer.
    pub(crate) fn close(&mut self) {
        let _ = self.0.close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }));
    }

    pub(crate) fn say(&mut self, text: &str) -> io::Result<()> {
        self.0.send(Message::text(text)).map_err(broken)
    }

    /// The next message. Pings are answered meanwhile. A message that is incomplete at the deadline is kept: the next
    /// call returns all of it.
    pub(crate) fn receive(&mut self) -> io::Result<Bytes> {
        loop {
            match self.0.read().map_err(broken)? {
                Message::Close(frame) => {
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, Closed::from(frame)));
                }
                message @ (Message::Text(_) | Message::Binary(_)) => return Ok(message.into_data()),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }
}

/// The error of a connection that was open.
fn broken(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake | ProtocolError::SendAfterClosing) => {
            io::ErrorKind::UnexpectedEof.into()
        }
        Error::Capacity(CapacityError::MessageTooLong { size, .. }) => {
            odd(format!("a message of {size} bytes is too large"))
        }
        other => odd(other.to_string()),
    }
}

/// The error of a server that did not switch to WebSocket, in words that say whether to try again.
fn not_opened(error: Error) -> io::Error {
    match error {
        Error::Http(response) => match response.status().as_u16() {
            503 => io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the server is starting or stopping (HTTP 503), try again soon",
            ),
            status @ (401 | 403) => io::Error::new(
                io::ErrorKind::ConnectionAborted,
                format!("the server lets nobody in from here (HTTP {status})"),
            ),
            status => odd(format!("the server does not speak WebSocket (HTTP {status})")),
        },
        Error::Protocol(ProtocolError::HandshakeIncomplete) => io::ErrorKind::UnexpectedEof.into(),
        Error::Protocol(_) | Error::HttpFormat(_) => {
            odd(format!("the server does not speak WebSocket: {error}"))
        }
        Error::AttackAttempt => odd("the greeting has no end".to_owned()),
        other => broken(other),
    }
}

fn odd(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words)
}

#[cfg(test)]
#[path = "websocket_tests.rs"]
mod tests;
