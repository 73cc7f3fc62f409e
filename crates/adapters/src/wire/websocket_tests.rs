use std::io::{Read, Write};

use proptest::prelude::*;
use tungstenite::handshake::derive_accept_key;

use super::*;

/// A recorded server: it sends its bytes in small pieces, whatever it receives, except that it accepts the key.
#[derive(Default)]
struct Recorded {
    says: Vec<u8>,
    at: usize,
    /// Accepts this key instead of the one that the client sent.
    accepts: Option<&'static str>,
    /// Sends nothing now and then, like a slow network.
    hesitates: bool,
    asked: usize,
    heard: Vec<u8>,
}

/// The placeholder in a recording for the answer to the client's key.
const ACCEPT: &[u8] = b"ACCEPT";

impl Read for Recorded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.asked += 1;
        if self.hesitates && self.asked % 2 == 1 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.at == 0
            && let Some(at) = memchr::memmem::find(&self.says, ACCEPT)
        {
            let heard = String::from_utf8_lossy(&self.heard).into_owned();
            let key = heard.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
            let accepted = derive_accept_key(self.accepts.or(key).unwrap().as_bytes());
            self.says.splice(at..at + ACCEPT.len(), accepted.into_bytes());
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

const GREETING: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
    sec-websocket-accept: ACCEPT\r\n\r\n";
const LARGEST: usize = 1 << 20;

fn open(says: &[u8]) -> io::Result<WebSocket<Recorded>> {
    opened(Recorded { says: says.to_vec(), ..Recorded::default() })
}

fn opened<S: Timed>(stream: S) -> io::Result<WebSocket<S>> {
    WebSocket::open(stream, &UpgradeRequest { host: "h", path: "/", largest_message: LARGEST })
}

fn greeted(says: &[u8]) -> WebSocket<Recorded> {
    open(&[GREETING, says].concat()).unwrap()
}

/// The client's last frame, without the mask.
fn unmasked(frame: &[u8]) -> (u8, Vec<u8>) {
    let head = match frame[1] & 0x7f {
        126 => 4,
        127 => 10,
        _ => 2,
    };
    assert_ne!(frame[1] & 0x80, 0, "a client masks");
    let (mask, text) = frame[head..].split_at(4);
    (frame[0], text.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect())
}

#[test]
fn messages_are_put_together_and_pings_answered() {
    let long = vec![b'x'; 300];
    let mut says = b"\x89\x02hi\x01\x02ab\x80\x01c\x81\x7e\x01\x2c".to_vec();
    says.extend(&long);
    says.extend(b"\x88\x05\x03\xf0bye");
    let mut socket = greeted(&says);
    let sent = socket.0.get_ref().heard.len();
    assert_eq!(socket.receive().unwrap(), &b"abc"[..]);
    assert_eq!(unmasked(&socket.0.get_ref().heard[sent..]), (0x8a, b"hi".to_vec()));
    assert_eq!(socket.receive().unwrap(), long);
    let error = socket.receive().unwrap_err();
    assert_eq!(error.to_string(), "the server closed the connection (1008: bye)");
}

#[test]
fn who_stops_waiting_in_the_middle_of_a_message_loses_nothing() {
    let mut says = b"\x01\x02ab\x80\x01c\x81\x7e\x00\x80".to_vec();
    says.extend([b'x'; 128]);
    let mut socket = greeted(&says);
    socket.0.get_mut().hesitates = true;
    let mut next = || {
        let heard = (0..1000).find_map(|_| match socket.receive() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            other => Some(other.unwrap()),
        });
        heard.unwrap()
    };
    assert_eq!(next(), &b"abc"[..]);
    assert_eq!(next(), &[b'x'; 128][..]);
}

#[test]
fn long_questions_have_the_right_length() {
    let mut socket = greeted(b"");
    for (length, beginning) in
        [(5, &[0x81, 0x85][..]), (200, &[0x81, 0xfe, 0, 200]), (70_000, &[0x81, 0xff, 0, 0])]
    {
        socket.0.get_mut().heard.clear();
        let question = "q".repeat(length);
        socket.say(&question).unwrap();
        let heard = &socket.0.get_ref().heard;
        assert!(heard.starts_with(beginning));
        assert_eq!(unmasked(heard), (0x81, question.into_bytes()));
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
    let endless = open(&b"HTTP/1.1 101 x\r\n".repeat(1 << 12)).err().unwrap();
    assert_eq!(endless.kind(), io::ErrorKind::InvalidData, "{endless}");
}

/// A server that cannot answer the key does not speak WebSocket and gets no secret: only the upgrade request was
/// sent.
#[test]
fn a_wrong_accept_key_is_found_out_before_anything_is_said() {
    let recorded = Recorded {
        says: [GREETING, b"\x81\x02hi"].concat(),
        accepts: Some("dGhlIHNhbXBsZSBub25jZQ=="),
        ..Recorded::default()
    };
    let error = opened(recorded).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(error.to_string().contains("does not speak WebSocket"), "{error}");
    let without = String::from_utf8_lossy(GREETING).replace("sec-websocket-accept: ACCEPT\r\n", "");
    assert!(open(without.as_bytes()).is_err(), "nor one that does not even try");
}

#[test]
fn what_is_too_large_is_refused_before_it_is_read() {
    let most = u64::try_from(LARGEST).unwrap();
    for length in [u64::MAX, u64::MAX >> 1, most + 1] {
        let error = greeted(&[b"\x81\x7f", &length.to_be_bytes()[..]].concat()).receive().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        assert!(error.to_string().contains("too large"), "{error}");
    }
    // Each part is small, but together they are too much.
    let part = |first: u8| [&[first, 0x7e, 0xff, 0xff][..], &vec![b'x'; 0xffff]].concat();
    let mut parts = part(0x01);
    for _ in 0..=LARGEST / 0xffff {
        parts.extend(part(0x00));
    }
    let error = greeted(&parts).receive().unwrap_err();
    assert!(error.to_string().contains("too large"), "{error}");
}

/// A server that never ends what it began costs the time of the deadline and no more, whatever it sends.
#[test]
fn the_deadline_ends_whoever_goes_on_for_ever() {
    for (greets, endless) in [
        // Pings, and the empty parts of a message that never ends.
        (true, &b"\x89\x00"[..]),
        (true, b"\x01\x00\x00\x00"),
        // A message that is announced and arrives slowly, and nothing at all.
        (true, b""),
        (false, b""),
    ] {
        let (near, mut far) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || {
            let mut heard = Vec::new();
            while greets && !heard.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                far.read_exact(&mut byte).unwrap();
                heard.push(byte[0]);
            }
            if greets {
                let heard = String::from_utf8(heard).unwrap();
                let key = heard.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
                let accept = derive_accept_key(key.as_bytes());
                let greeting = String::from_utf8_lossy(GREETING).replace("ACCEPT", &accept);
                far.write_all(greeting.as_bytes()).unwrap();
                // The first part once, then the rest over and over; or an announced message that arrives byte by
                // byte.
                let (first, rest): (&[u8], &[u8]) = match endless {
                    b"" => (b"\x81\x7f\0\0\0\0\0\x0f\0\0", b"x"),
                    parts => parts.split_at(2),
                };
                let rest = if rest.is_empty() { first } else { rest };
                far.write_all(first).unwrap();
                while far.write_all(rest).is_ok() {
                    if endless.is_empty() {
                        std::thread::yield_now();
                    }
                }
            } else {
                let _ = far.read_to_end(&mut heard);
            }
        });
        let began = Instant::now();
        let timeout = if greets { Duration::from_secs(20) } else { Duration::from_millis(100) };
        let opened = opened(Bounded::new(near, began + timeout));
        let error = match opened {
            Ok(mut socket) => {
                socket.wait_until(Instant::now() + Duration::from_millis(100));
                socket.receive().map(|message| message.len()).unwrap_err()
            }
            Err(error) => {
                assert!(!greets, "{error}");
                error
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{endless:?}");
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        server.join().unwrap();
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_hang(noise in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = open(&noise);
        let mut socket = greeted(&noise);
        while socket.receive().is_ok() {}
    }
}
