//! What a scripted gateway does, from the proper to the worst.

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
    /// What is proper: the upgrade is accepted, the challenge sent, a question answered with this.
    Proper(Value),
    /// A question is refused with this error.
    Refuse(Value),
    /// Some events first, then the same as `Proper`.
    After(Vec<Value>, Value),
    /// The same as `Proper`, then some events.
    Before(Value, Vec<Value>),
    /// The answer twice under the same id.
    Twice(Value, Value),
    /// Nothing, for ever.
    Silence,
    /// A text that is no frame of the protocol.
    Say(String),
    /// Bytes that are no WebSocket at all, or frames that nobody expects ([`frame`]).
    Noise(Vec<u8>),
    /// The same bytes over and over, as fast as they are taken.
    Forever(Vec<u8>),
    /// The proper answer, and then this.
    Then(Value, Box<Act>),
    /// A frame that says it is this long, and as much of it as is taken.
    Huge(u64),
    /// One byte each this often, for ever: of a frame, or with TLS of a record.
    Trickle(Duration),
    Close(u16, String),
    /// The connection is cut.
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
    /// Everything that is not an answer.
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
                // The parts of a message belong to one that has begun.
                if bytes.first() == Some(&0x00) {
                    self.stream.write_all(&frame(0x01, b""))?;
                }
                // What the client answers to it is never read: sooner or later nobody can write any more.
                while !self.stopping.load(Ordering::Relaxed) {
                    self.stream.write_all(&bytes)?;
                }
            }
            Act::Trickle(pause) => {
                let beginning = match &self.stream {
                    Stream::Plain(_) => wire::head(wire::TEXT, 1 << 20, false),
                    // A record of 16 KiB, of which one byte after the other comes.
                    Stream::Secure(_) => b"\x17\x03\x03\x40\x00".to_vec(),
                };
                self.stream.line().write_all(&beginning)?;
                while !self.stopping.load(Ordering::Relaxed) {
                    self.stream.line().write_all(b" ")?;
                    std::thread::sleep(pause);
                }
            }
            Act::Silence => {}
            // The rest is proper, and does not come here.
            _ => return Ok(()),
        }
        // Stays connected without a word until the client or the test has enough.
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
