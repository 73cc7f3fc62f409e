//! The least of a WebSocket client that a question to an agent's server needs: text messages over any stream.
//!
//! It waits no longer than its deadline, keeps no more than one message, and never reconnects.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::wire::deadline::{Bounded, Timed};

const LARGEST_GREETING: usize = 16 << 10;

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The server's own word that the connection is over.
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

/// What is asked for at the upgrade, and the most that is read for it.
pub(crate) struct Greeting<'a> {
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    pub(crate) largest_message: usize,
}

pub(crate) struct WebSocket<S> {
    stream: S,
    largest: usize,
    /// Bytes that arrived and were not used yet.
    held: Vec<u8>,
    /// The parts of a message that is not whole yet.
    begun: Vec<u8>,
}

impl WebSocket<Bounded<UnixStream>> {
    pub(crate) fn connect(path: &Path, largest_message: usize, patience: Duration) -> io::Result<Self> {
        let greeting = Greeting { host: "localhost", path: "/", largest_message };
        let deadline = Instant::now() + patience;
        Self::open(Bounded::new(UnixStream::connect(path)?, deadline), &greeting)
    }
}

impl<S: Timed> WebSocket<S> {
    /// Asks the server to speak WebSocket, in the time that the stream has. The key is no secret and needs not be random: it only keeps caches away.
    pub(crate) fn open(stream: S, greeting: &Greeting<'_>) -> io::Result<Self> {
        let largest = greeting.largest_message;
        let mut socket = Self { stream, largest, held: Vec::new(), begun: Vec::new() };
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Key: YWdlbnRjdGwtYXNrcy1pdA==\r\nSec-WebSocket-Version: 13\r\n\r\n",
            greeting.path, greeting.host
        );
        socket.stream.write_all(request.as_bytes())?;
        let end = loop {
            if let Some(end) = memchr::memmem::find(&socket.held, b"\r\n\r\n") {
                break end + 4;
            }
            if socket.held.len() > LARGEST_GREETING {
                return Err(odd("the greeting has no end"));
            }
            socket.receive()?;
        };
        let status = socket.held.split(|byte| *byte == b' ').nth(1);
        if status != Some(b"101") {
            let status = status.and_then(|status| std::str::from_utf8(status).ok()?.parse().ok());
            return Err(turned_away(status));
        }
        socket.held.drain(..end);
        Ok(socket)
    }

    /// How long what follows may take.
    pub(crate) fn wait_until(&mut self, deadline: Instant) {
        self.stream.wait_until(deadline);
    }

    /// Says goodbye, so that the server needs not guess. Nobody waits for its answer.
    pub(crate) fn close(&mut self) {
        let _ = self.frame(CLOSE, &1000u16.to_be_bytes());
    }

    pub(crate) fn say(&mut self, text: &str) -> io::Result<()> {
        self.frame(TEXT, text.as_bytes())
    }

    /// The next text message; control frames are answered or passed over.
    pub(crate) fn hear(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let (last, kind, mut payload) = self.next_frame()?;
            match kind {
                CLOSE => return Err(io::Error::new(io::ErrorKind::ConnectionAborted, closed(&payload))),
                PING => self.frame(PONG, &payload)?,
                PONG => {}
                // Mostly a message is one frame, which is then not copied.
                _ if last && self.begun.is_empty() => return Ok(payload),
                _ => {
                    if self.begun.len() + payload.len() > self.largest {
                        return Err(too_large((self.begun.len() + payload.len()) as u64));
                    }
                    self.begun.append(&mut payload);
                    if last {
                        return Ok(std::mem::take(&mut self.begun));
                    }
                }
            }
        }
    }

    fn frame(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        // A client must mask what it sends; a mask of zeros is one.
        let mut frame = vec![0x80 | kind];
        match u16::try_from(payload.len()) {
            Ok(length @ 0..126) => frame.push(0x80 | length.to_be_bytes()[1]),
            Ok(length) => {
                frame.push(0x80 | 0x7e);
                frame.extend(length.to_be_bytes());
            }
            Err(_) => {
                frame.push(0x80 | 0x7f);
                frame.extend((payload.len() as u64).to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame)
    }

    /// Taken only when it is whole: who stops waiting in the middle of one finds it there the next time.
    fn next_frame(&mut self) -> io::Result<(bool, u8, Vec<u8>)> {
        loop {
            if let Some((head, length)) = self.size_of_next()?
                && self.held.len() >= head + length
            {
                let first = self.held[0];
                let rest = self.held.split_off(head + length);
                let mut payload = std::mem::replace(&mut self.held, rest);
                payload.drain(..head);
                return Ok((first & 0x80 != 0, first & 0x0f, payload));
            }
            self.receive()?;
        }
    }

    /// How long the head of the next frame is, and what it carries; `None` until that is known.
    fn size_of_next(&self) -> io::Result<Option<(usize, usize)>> {
        let [_, second, rest @ ..] = self.held.as_slice() else { return Ok(None) };
        if second & 0x80 != 0 {
            return Err(odd("a server must not mask"));
        }
        let (head, length) = match second & 0x7f {
            126 => (4, rest.first_chunk().map(|bytes| u64::from(u16::from_be_bytes(*bytes)))),
            127 => (10, rest.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))),
            short => (2, Some(u64::from(short))),
        };
        let Some(length) = length else { return Ok(None) };
        let fits = usize::try_from(length).ok().filter(|length| *length <= self.largest);
        fits.map(|length| Some((head, length))).ok_or_else(|| too_large(length))
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut chunk = [0; 16 << 10];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => {
                self.held.extend_from_slice(&chunk[..got]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn closed(payload: &[u8]) -> Closed {
    let (code, reason) = payload.split_at(payload.len().min(2));
    Closed {
        code: code.try_into().ok().map(u16::from_be_bytes),
        reason: agentctl_model::text::one_line(&String::from_utf8_lossy(reason)),
    }
}

fn too_large(length: u64) -> io::Error {
    odd(&format!("a message of {length} bytes is too large"))
}

/// No WebSocket at this door, in words that say whether to come back.
fn turned_away(status: Option<u16>) -> io::Error {
    match status {
        Some(503) => io::Error::new(
            io::ErrorKind::ConnectionAborted,
            "the server is starting or stopping (HTTP 503), try again soon",
        ),
        Some(status @ (401 | 403)) => io::Error::new(
            io::ErrorKind::ConnectionAborted,
            format!("the server lets nobody in from here (HTTP {status})"),
        ),
        Some(status) => odd(&format!("the server does not speak WebSocket (HTTP {status})")),
        None => odd("the server does not speak WebSocket"),
    }
}

fn odd(words: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};

    /// A server that was recorded: it says its bytes in small pieces, whatever it is told.
    struct Recorded {
        says: Vec<u8>,
        at: usize,
        /// Says nothing now and then, as a slow network does.
        hesitates: bool,
        asked: usize,
        heard: Vec<u8>,
    }

    impl Read for Recorded {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.asked += 1;
            if self.hesitates && self.asked % 2 == 1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let rest = &self.says[self.at..];
            let most = if self.hesitates { 1 } else { 7 };
            let count = rest.len().min(into.len()).min(most);
            into[..count].copy_from_slice(&rest[..count]);
            self.at += count;
            Ok(count)
        }
    }

    impl Write for Recorded {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.heard.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Timed for Recorded {
        fn wait_until(&mut self, _: Instant) {}
    }

    const GREETING: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n";

    fn open(says: &[u8]) -> io::Result<WebSocket<Recorded>> {
        let recorded = Recorded { says: says.to_vec(), at: 0, hesitates: false, asked: 0, heard: Vec::new() };
        let greeting = Greeting { host: "h", path: "/", largest_message: 1 << 20 };
        WebSocket::open(recorded, &greeting)
    }

    #[test]
    fn messages_are_put_together_and_pings_answered() {
        let long = vec![b'x'; 300];
        let mut says = GREETING.to_vec();
        says.extend(b"\x89\x02hi\x01\x02ab\x80\x01c\x81\x7e\x01\x2c");
        says.extend(&long);
        says.extend(b"\x88\x05\x03\xf0bye");
        let mut socket = open(&says).unwrap();
        let greeted = socket.stream.heard.len();
        assert_eq!(socket.hear().unwrap(), b"abc");
        assert_eq!(&socket.stream.heard[greeted..], b"\x8a\x82\0\0\0\0hi");
        assert_eq!(socket.hear().unwrap(), long);
        let error = socket.hear().unwrap_err();
        assert_eq!(error.to_string(), "the server closed the connection (1008: bye)");
    }

    #[test]
    fn who_stops_waiting_in_the_middle_of_a_message_loses_nothing() {
        let mut says = GREETING.to_vec();
        says.extend(b"\x01\x02ab\x80\x01c\x81\x7e\x00\x80");
        says.extend([b'x'; 128]);
        let mut socket = open(&says).unwrap();
        socket.stream.hesitates = true;
        let mut next = || {
            let heard = (0..1000).find_map(|_| match socket.hear() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                other => Some(other.unwrap()),
            });
            heard.unwrap()
        };
        assert_eq!(next(), b"abc");
        assert_eq!(next(), [b'x'; 128]);
    }

    #[test]
    fn long_questions_have_the_right_length() {
        let mut socket = open(GREETING).unwrap();
        for (length, beginning) in
            [(5, &[0x81, 0x85][..]), (200, &[0x81, 0xfe, 0, 200]), (70_000, &[0x81, 0xff, 0, 0])]
        {
            socket.stream.heard.clear();
            socket.say(&"q".repeat(length)).unwrap();
            assert!(socket.stream.heard.starts_with(beginning) && socket.stream.heard.ends_with(b"qqqqq"));
        }
    }

    #[test]
    fn another_protocol_is_no_answer() {
        for (status, words) in [
            ("404 Not Found", "does not speak WebSocket (HTTP 404)"),
            ("503 Service Unavailable", "starting or stopping"),
            ("403 Forbidden", "lets nobody in"),
            ("x y", "does not speak WebSocket"),
        ] {
            let error = open(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).err().unwrap();
            assert!(error.to_string().contains(words), "{error}");
        }
        assert!(open(b"hello").is_err());
        let mut says = GREETING.to_vec();
        says.extend(b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff");
        assert!(open(&says).unwrap().hear().is_err(), "nobody is that large");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_hang(noise in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = open(&noise);
            let mut says = GREETING.to_vec();
            says.extend(&noise);
            if let Ok(mut socket) = open(&says) {
                while socket.hear().is_ok() {}
            }
        }
    }
}
