//! Private parsers, for the fuzzer alone (fuzz/README.md). Each function panics where a property does not hold.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::time::Instant;

use tungstenite::handshake::derive_accept_key;

use crate::agents::opencode::conversation::records::{Message, Part, SessionFile};
use crate::agents::opencode::conversation::turn::turn;
use crate::wire::deadline::Timed;
use crate::wire::websocket::{UpgradeRequest, WebSocket};

/// What the columns and files of OpenCode hold. Nothing is read from the beginning of a part that the whole does not say.
pub fn opencode_record(bytes: &[u8]) {
    if let Some(message) = Message::parse(bytes) {
        let _ = (message.model(), message.tokens());
        let _ = turn(&message, &[]);
        if let Some(part) = Part::parse(bytes) {
            let _ = turn(&message, &[part]);
        }
    }
    let _ = serde_json::from_slice::<SessionFile<'_>>(bytes);
    let beginning = Part::parse_beginning(bytes);
    if let Some(part) = Part::parse(bytes) {
        let _ = (part.words(), part.tool_at_work(), part.was_denied(), part.latest(), part.is_known());
        // The keys of a part stand in one order, and this one is read by its first ones alone.
        let plain = bytes.starts_with(br#"{"type":"text","text":""#);
        if let (true, Some(beginning), Some(whole)) = (plain, beginning, &part.text)
            && part.kind == "text"
            && memchr::memmem::find_iter(bytes, br#""text":"#).count() == 1
        {
            let beginning = beginning.text.unwrap_or_default();
            assert!(whole.starts_with(beginning.as_ref()), "{beginning:?} does not begin {whole:?}");
        }
    }
}

/// The reader that walks over what nobody asked for says what `serde_json` says, of every line.
pub fn quick_line(line: &[u8]) {
    use std::collections::HashMap;

    use serde::de::IgnoredAny;
    use serde_json::Value;
    use serde_json::value::RawValue;

    use crate::transcript::jsonl::quick;

    assert_eq!(quick::from_slice::<Value>(line).ok(), serde_json::from_slice(line).ok());
    let ignored = |read: serde_json::Result<IgnoredAny>| read.is_ok();
    assert_eq!(ignored(quick::from_slice(line)), ignored(serde_json::from_slice(line)));
    let raw = |read: serde_json::Result<HashMap<String, &RawValue>>| {
        let named = |members: HashMap<String, &RawValue>| -> HashMap<String, String> {
            members.into_iter().map(|(key, value)| (key, value.get().to_owned())).collect()
        };
        read.ok().map(named)
    };
    assert_eq!(raw(quick::from_slice(line)), raw(serde_json::from_slice(line)));
}

/// A server that says these bytes, cut where `cuts` says, after a greeting that is right or after none. The greeting comes
/// at once: one in many pieces is refused as an attack.
struct Scripted {
    greeting: Option<Vec<u8>>,
    says: VecDeque<u8>,
    cuts: Vec<u8>,
    next: usize,
    greets: bool,
    heard: Vec<u8>,
}

impl Read for Scripted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.greets && self.heard.ends_with(b"\r\n\r\n") {
            self.greets = false;
            let heard = String::from_utf8_lossy(&self.heard).into_owned();
            let key = heard.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
            let accept = derive_accept_key(key.unwrap_or_default().as_bytes());
            let head = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
            );
            self.greeting = Some(head.into_bytes());
        }
        if let Some(greeting) = self.greeting.take() {
            return greeting.as_slice().read(into);
        }
        let cut =
            self.cuts.get(self.next % self.cuts.len().max(1)).map_or(usize::MAX, |cut| usize::from(*cut) + 1);
        self.next += 1;
        let count = into.len().min(self.says.len()).min(cut);
        for (place, byte) in into.iter_mut().zip(self.says.drain(..count)) {
            *place = byte;
        }
        Ok(count)
    }
}

impl Write for Scripted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // What is answered to pings is nobody's business here.
        if self.greets {
            self.heard.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Timed for Scripted {
    fn wait_until(&mut self, _: Instant) {}
}

/// The messages of a server that says these bytes.
pub fn websocket(bytes: &[u8], cuts: &[u8], greets: bool, largest: usize) -> Vec<Vec<u8>> {
    let says = bytes.iter().copied().collect();
    let stream = Scripted { greeting: None, says, cuts: cuts.to_vec(), next: 0, greets, heard: Vec::new() };
    let upgrade = UpgradeRequest { host: "localhost", path: "/", largest_message: largest };
    let Ok(mut socket) = WebSocket::open(stream, &upgrade) else { return Vec::new() };
    let mut messages = Vec::new();
    while let Ok(message) = socket.receive() {
        assert!(message.len() <= largest, "a message of {} bytes", message.len());
        messages.push(message.to_vec());
    }
    messages
}
