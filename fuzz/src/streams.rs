//! What servers say: HTTP answers, events and WebSocket messages. However the bytes are cut, they mean the same.

use std::io::{self, Read};

use agentctl_adapters::wire::http::{Event, Response};

use crate::sizes;

/// The largest body, event and message here.
const LARGEST: usize = 600;

/// A connection that gives as many bytes at once as `sizes` says.
struct Cut<'a> {
    rest: &'a [u8],
    sizes: &'a [u8],
    next: usize,
}

impl<'a> Cut<'a> {
    fn new(rest: &'a [u8], sizes: &'a [u8]) -> Self {
        Self { rest, sizes, next: 0 }
    }
}

impl Read for Cut<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let size = self
            .sizes
            .get(self.next % self.sizes.len().max(1))
            .map_or(usize::MAX, |size| usize::from(*size) + 1);
        self.next += 1;
        let count = into.len().min(size);
        self.rest.read(&mut into[..count])
    }
}

fn in_words<T: std::fmt::Debug>(result: io::Result<T>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

fn body(stream: Cut<'_>) -> Result<(u16, bool, Result<Vec<u8>, String>), String> {
    let mut response = Response::read(stream).map_err(|error| error.to_string())?;
    Ok((response.head.status, response.says_its_end(), in_words(response.whole(LARGEST))))
}

/// All events up to the end, each with the cursor behind it.
fn events(stream: Cut<'_>) -> Vec<Result<(Option<Event>, Option<String>), String>> {
    let Ok(response) = Response::read(stream) else { return Vec::new() };
    let mut events = response.events(LARGEST);
    let mut all = Vec::new();
    loop {
        let next = events.next_event();
        let (is_over, cursor) = (!matches!(next, Ok(Some(_))), events.cursor().map(str::to_owned));
        let goes_on = matches!(&next, Err(error) if error.kind() == io::ErrorKind::FileTooLarge);
        if let Ok(Some(event)) = &next {
            assert!(event.data.len() <= LARGEST, "an event of {} bytes", event.data.len());
        }
        all.push(in_words(next).map(|event| (event, cursor)));
        if is_over && !goes_on {
            return all;
        }
    }
}

pub fn http(bytes: &[u8]) {
    let (sizes, bytes) = sizes(bytes);
    let (at_once, cut) = (body(Cut::new(bytes, &[])), body(Cut::new(bytes, sizes)));
    if let Ok((_, _, Ok(whole))) = &at_once {
        assert!(whole.len() <= LARGEST);
    }
    // Of two things that are wrong, the one that is met first is told.
    let told = |(status, says_its_end, whole)| (status, says_its_end, Result::ok(whole));
    assert_eq!(at_once.map(told).ok(), cut.map(told).ok(), "the body");
    let (at_once, cut) = (events(Cut::new(bytes, &[])), events(Cut::new(bytes, sizes)));
    // A broken stream loses what came with the break, and nothing else.
    let is_broken = |events: &[_]| matches!(events.last(), Some(Err(_)));
    if is_broken(&at_once) || is_broken(&cut) {
        let told = at_once.len().min(cut.len()).saturating_sub(1);
        assert_eq!(at_once[..told], cut[..told], "the events before the break");
    } else {
        assert_eq!(at_once, cut, "the events");
    }
}

pub fn websocket(bytes: &[u8]) {
    let (sizes, bytes) = sizes(bytes);
    let Some((first, bytes)) = bytes.split_first() else { return };
    let read = |sizes: &[u8]| agentctl_adapters::fuzzing::websocket(bytes, sizes, first % 4 != 0, LARGEST);
    // A greeting in many pieces is refused as an attack.
    let (at_once, cut) = (read(&[]), read(sizes));
    assert!(at_once == cut || first % 4 == 0, "{at_once:?} {cut:?}");
}

pub fn http_seeds() -> Vec<Vec<u8>> {
    let answers: [&[u8]; 7] = [
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"status\":{}}",
        b"HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n{\"name\":\"NotFoundError\"}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: x\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: a-1\r\nevent: snapshot\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\n: comment\n\nid: a-2\ndata: x\n\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10\r\ndata: {\"x\":1}\n\n\n\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    ];
    let head: [&[u8]; 3] = [&[0], &[1, 0], &[2, 6, 40]];
    let mut seeds: Vec<Vec<u8>> =
        answers.iter().flat_map(|answer| head.map(|head| [head, answer].concat())).collect();
    let long = "y".repeat(LARGEST);
    for end in ["\n", "\r\n"] {
        let events = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: 1{end}data: {long}{end}{end}id: 2{end}data: small{end}{end}"
        );
        seeds.extend(head.map(|head| [head, events.as_bytes()].concat()));
    }
    seeds
}

/// Frames of a server, which are not masked.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match u8::try_from(payload.len()) {
        Ok(short @ ..126) => frame.push(short),
        _ => {
            frame.push(126);
            frame.extend(u16::try_from(payload.len()).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

pub fn websocket_seeds() -> Vec<Vec<u8>> {
    let said: [Vec<Vec<u8>>; 5] = [
        vec![frame(0x81, br#"{"type":"event","event":"connect.challenge"}"#)],
        vec![frame(0x01, b"half "), frame(0x89, b"ping"), frame(0x80, b"and half")],
        vec![frame(0x82, &[0xff; 200]), frame(0x88, &[3, 232, b'b', b'y', b'e'])],
        vec![frame(0x81, &[b'x'; LARGEST + 1])],
        vec![frame(0x81, b"\xff\xfe"), frame(0x8a, b"")],
    ];
    let head: [&[u8]; 2] = [&[0, 1], &[2, 0, 30, 1]];
    let mut seeds: Vec<Vec<u8>> =
        said.iter().flat_map(|frames| head.map(|head| [head, &frames.concat()].concat())).collect();
    for answer in [
        &b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n"[..],
        b"HTTP/1.1 503 Service Unavailable\r\n\r\n",
        b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
    ] {
        seeds.push([&[1, 9, 0][..], answer].concat());
    }
    seeds
}
