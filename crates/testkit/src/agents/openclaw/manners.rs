//! What a scripted gateway does, from correct answers to the worst faults.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;

use super::scripted::Connection;
use super::tls::Stream;
use super::wire;

/// What the gateway does.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// It does the correct thing: it accepts the upgrade, sends the challenge, or answers a request with this.
    Proper(Value),
    /// It refuses a request with this error.
    Refuse(Value),
    /// It sends some events, then does the same as `Proper`.
    After(Vec<Value>, Value),
    /// It does the same as `Proper`, then sends some events.
    Before(Value, Vec<Value>),
    /// It sends two answers with the same id.
    Twice(Value, Value),
    /// It sends nothing, for ever.
    Silence,
    /// It sends a text that is not a frame of the protocol.
    Say(String),
    /// It sends bytes that are not WebSocket, or unexpected frames ([`frame`]).
    Noise(Vec<u8>),
    /// It sends the same bytes again and again, as fast as the client reads.
    Forever(Vec<u8>),
    /// It sends the correct answer, then does this.
    Then(Value, Box<Act>),
    /// It sends a frame that claims this length, and as much of it as the client reads.
    Huge(u64),
    /// It sends one byte at this interval, for ever: of a frame, or with TLS of a record.
    Trickle(Duration),
    Close(u16, String),
    /// It cuts the connection.
    Cut,
}

/// One frame of a server: `first` is its first byte, such as 0x81 for a whole text, 0x01 and 0x00 for the first and the
/// next part of one, 0x89 for a ping.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = wire::head(0, payload.len() as u64, false);
    frame[0] = first;
    frame.extend_from_slice(payload);
    frame
}

impl Connection {
    /// Does everything that is not an answer.
    pub(super) fn misbehave(mut self, act: Act) -> io::Result<()> {
        match act {
            Act::Say(text) => wire::write(&mut self.stream, wire::TEXT, text.as_bytes(), false)?,
            Act::Noise(bytes) => self.stream.write_all(&bytes)?,
            Act::Close(code, reason) => {
                let payload = [&code.to_be_bytes()[..], reason.as_bytes()].concat();
                return wire::write(&mut self.stream, wire::CLOSE, &payload, false);
            }
            Act::Huge(length) => {
                self.stream.write_all(&wire::head(wire::TEXT, length, false))?;
                let chunk = vec![b'x'; 64 << 10];
                let mut sent = 0;
                while sent < length {
                    self.stream.write_all(&chunk)?;
                    sent += chunk.len() as u64;
                }
            }
            Act::Forever(bytes) => {
                // Continuation frames need a message that has begun.
                if bytes.first() == Some(&0x00) {
                    self.stream.write_all(&frame(0x01, b""))?;
                }
                // The client's answers are never read, so in the end neither side can write.
                while !self.stopping.load(Ordering::Relaxed) {
                    self.stream.write_all(&bytes)?;
                }
            }
            Act::Trickle(pause) => {
                let beginning = match &self.stream {
                    Stream::Plain(_) => wire::head(wire::TEXT, 1 << 20, false),
                    // This is the header of a record of 16 KiB, whose bytes follow one by one.
                    Stream::Secure(_) => b"\x17\x03\x03\x40\x00".to_vec(),
                };
                self.stream.line().write_all(&beginning)?;
                while !self.stopping.load(Ordering::Relaxed) {
                    self.stream.line().write_all(b" ")?;
                    std::thread::sleep(pause);
                }
            }
            Act::Silence => {}
            // The other acts are answers, which the caller handles.
            _ => return Ok(()),
        }
        // The connection stays open and silent until the client or the test closes it.
        self.stream.set_read_timeout(Some(Duration::from_millis(50)))?;
        while !self.stopping.load(Ordering::Relaxed) {
            match wire::read(&mut self.stream) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}
