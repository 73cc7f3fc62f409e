//! The client side of HTTP/1.1 for servers on this machine: blocking, one request per connection, over any stream.
//!
//! The deadline belongs to the stream (see `wire::deadline`). Reads are bounded here: a head, a body and
//! an event each have a maximum size. A body is decoded as it arrives, and no byte of it is examined twice.

mod body;
mod events;

use std::io::{self, Read, Write};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use self::body::Body;
pub use self::events::{Event, Events};

/// No head is larger.
/// How much memory the mere announcement of a length takes.
const MOST_RESERVED: usize = 32 << 20;
const LARGEST_HEAD: usize = 64 << 10;
/// No head has more lines.
const MOST_HEADERS: usize = 64;
/// How much is read from the stream at once.
const PIECE: usize = 64 << 10;

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    pub host: &'a str,
    pub accept: &'a str,
    /// The headers besides those that every request has.
    pub headers: &'a [(&'a str, &'a str)],
    /// Whether the connection is kept for the next request.
    pub keeps: bool,
    /// JSON.
    pub body: Option<&'a str>,
}

impl<'a> Request<'a> {
    pub fn get(host: &'a str, target: &'a str) -> Self {
        Self {
            method: "GET",
            target,
            host,
            accept: "application/json",
            headers: &[],
            keeps: false,
            body: None,
        }
    }

    pub fn write_to(&self, stream: &mut impl Write) -> io::Result<()> {
        let Self { method, target, host, accept, headers, keeps, body } = self;
        let connection = if *keeps { "keep-alive" } else { "close" };
        let mut request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: {connection}\r\nAccept: {accept}\r\n"
        );
        for (name, value) in *headers {
            request.extend([*name, ": ", value, "\r\n"]);
        }
        // A line break inside a target or a value would begin a header of its own.
        let (lines, breaks) = (4 + headers.len(), request.matches("\r\n").count());
        if breaks != lines || request.bytes().filter(u8::is_ascii_control).count() != 2 * lines {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a request with control characters"));
        }
        if let Some(body) = body {
            let length = body.len().to_string();
            request.extend(["Content-Type: application/json\r\nContent-Length: ", &length, "\r\n"]);
        }
        request.push_str("\r\n");
        request.push_str(body.unwrap_or_default());
        stream.write_all(request.as_bytes())
    }
}

/// The status line and the headers of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    fn all<'h>(&'h self, name: &str) -> impl Iterator<Item = &'h str> {
        let named = move |(known, _): &&(String, String)| known.eq_ignore_ascii_case(name);
        self.headers.iter().filter(named).map(|(_, value)| value.as_str())
    }

    fn parse(bytes: &[u8]) -> io::Result<Self> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Response::new(&mut headers);
        let status = match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(_)) => parsed.code,
            Ok(httparse::Status::Partial) => None,
            Err(error) => return Err(broken(format!("no HTTP answer: {error}"))),
        };
        let status = status.ok_or_else(|| broken("no HTTP answer"))?;
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let headers = parsed.headers.iter().map(|header| (header.name.to_owned(), text(header.value)));
        Ok(Self { status, headers: headers.collect() })
    }
}

/// A response whose head was read; its body is read on demand.
pub struct Response<S> {
    pub head: Head,
    body: Body,
    stream: S,
    /// What arrived after the head and was not decoded yet.
    arrived: Vec<u8>,
    /// The buffer for one read, allocated once.
    piece: Vec<u8>,
}

impl<S: Read> Response<S> {
    pub fn read(mut stream: S) -> io::Result<Self> {
        let mut arrived = Vec::new();
        let mut piece = vec![0; PIECE];
        let end = loop {
            let seen = arrived.len();
            match receive(&mut stream, &mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => arrived.extend_from_slice(&piece[..count]),
            }
            // The end may begin in the bytes that came before.
            let from = seen.saturating_sub(3);
            if let Some(end) = memchr::memmem::find(&arrived[from..], b"\r\n\r\n") {
                break from + end + 4;
            }
            if arrived.len() > LARGEST_HEAD {
                return Err(broken("a head that does not end"));
            }
        };
        let rest = arrived.split_off(end);
        let head = Head::parse(&arrived)?;
        Ok(Self { body: Body::of(&head)?, head, stream, arrived: rest, piece })
    }

    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Whether the response itself marks its end. One that does not ends with the connection, and cannot be told
    /// apart from one that was cut short.
    pub fn says_its_end(&self) -> bool {
        !matches!(self.body, Body::UntilClose)
    }

    /// The whole body, of at most this size.
    pub fn whole(&mut self, largest: usize) -> io::Result<Vec<u8>> {
        let too_large = || broken(format!("an answer of more than {largest} bytes"));
        if matches!(self.body, Body::Length(length) if length > largest as u64) {
            return Err(too_large());
        }
        let mut whole = Vec::new();
        if let Body::Length(length) = self.body {
            whole.reserve_exact(usize::try_from(length).unwrap_or(usize::MAX).min(MOST_RESERVED));
        }
        while self.more(&mut whole)? {
            if whole.len() > largest {
                return Err(too_large());
            }
        }
        Ok(whole)
    }

    /// The body as events, each of at most this size.
    pub fn events(self, largest: usize) -> Events<S> {
        Events::new(self, largest)
    }

    /// Waits for more of the body and appends it; `false` at its end. If the stream reports that nothing has arrived
    /// yet, nothing is lost.
    fn more(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        if !self.arrived.is_empty() {
            let arrived = std::mem::take(&mut self.arrived);
            self.body.decode(&arrived, into)?;
            return Ok(true);
        }
        if self.body.is_done() {
            return Ok(false);
        }
        match receive(&mut self.stream, &mut self.piece)? {
            0 if self.body.may_end_here() => {
                self.body = Body::Done;
                Ok(false)
            }
            // A truncated response is an error.
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => self.body.decode(&self.piece[..count], into).map(|()| true),
        }
    }
}

fn receive(stream: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// A text as one segment of a path or one value of a query: everything but letters, digits and `-._~` is escaped.
pub fn escaped(text: &str) -> String {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, ESCAPED).to_string()
}

fn broken(words: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words.into())
}

#[cfg(test)]
mod tests;
