//! The smallest HTTP client that can ask a local server one thing: one request, one answer, a deadline.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long one question of a survey may take in all; who does not answer is left alone.
pub(super) const SOON: Duration = Duration::from_millis(700);
/// The same for what somebody wants done: long enough for a machine under load.
pub(super) const PATIENTLY: Duration = Duration::from_secs(20);
/// No answer to these questions is longer.
const LONGEST: usize = 8 << 20;

/// What a server answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// The body of a successful answer; `None` for everything else.
pub(super) fn get(address: SocketAddr, path: &str, patience: Duration) -> Option<Vec<u8>> {
    let reply = call(address, &format!("GET {path}"), "", patience).ok()?;
    (reply.status == 200).then_some(reply.body)
}

/// Asks a server to do something; `body` is JSON.
pub(super) fn post(address: SocketAddr, path: &str, body: &str) -> io::Result<Reply> {
    call(address, &format!("POST {path}"), body, PATIENTLY)
}

fn call(address: SocketAddr, what: &str, body: &str, patience: Duration) -> io::Result<Reply> {
    let until = Instant::now() + patience;
    let left = || match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(left),
    };
    let mut stream = TcpStream::connect_timeout(&local(address), left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    let about_body = if body.is_empty() {
        String::new()
    } else {
        format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len())
    };
    let request = format!(
        "{what} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json\r\n{about_body}Connection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut chunk = [0; 16 << 10];
    while answer.len() < LONGEST {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if let Some(reply) = whole_reply(&answer) {
            return Ok(reply);
        }
    }
    reply_at_end(&answer).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// A server that listens everywhere is asked on this machine's own address.
pub(super) fn local(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::from((Ipv6Addr::LOCALHOST, address.port())),
        _ => address,
    }
}

struct Answer<'a> {
    status: u16,
    length: Option<usize>,
    chunked: bool,
    body: &'a [u8],
}

fn parse(answer: &[u8]) -> Option<Answer<'_>> {
    let end = memchr::memmem::find(answer, b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let mut parsed = Answer { status, length: None, chunked: false, body: &answer[end + 4..] };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            parsed.length = value.trim().parse().ok();
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            parsed.chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    Some(parsed)
}

/// The reply, if it says itself that it is whole.
fn whole_reply(answer: &[u8]) -> Option<Reply> {
    let parsed = parse(answer)?;
    let body = match parsed {
        // These have no body, and the connection may stay open behind them.
        Answer { status: 204 | 304, .. } => Vec::new(),
        Answer { chunked: true, body, .. } => dechunk(body)?,
        Answer { length, body, .. } => body.get(..length?)?.to_vec(),
    };
    Some(Reply { status: parsed.status, body })
}

/// A reply that ends with the connection.
fn reply_at_end(answer: &[u8]) -> Option<Reply> {
    let parsed = parse(answer).filter(|parsed| !parsed.chunked && parsed.length.is_none())?;
    Some(Reply { status: parsed.status, body: parsed.body.to_vec() })
}

fn dechunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = memchr::memmem::find(rest, b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

/// A value for a query: everything but the plainest characters is escaped.
pub(super) fn escaped(value: &str) -> String {
    use std::fmt::Write;
    let mut escaped = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte));
            }
            other => {
                let _ = write!(escaped, "%{other:02X}");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn served(answer: &'static [u8]) -> Option<Vec<u8>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            stream.write_all(answer).unwrap();
        });
        let body = get(address, "/", SOON);
        server.join().unwrap();
        body
    }

    #[test]
    fn bodies_are_taken_whole_or_not_at_all() {
        let served = |answer| served(answer).map(|body| String::from_utf8(body).unwrap());
        assert_eq!(served(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").as_deref(), Some("{}"));
        assert_eq!(served(b"HTTP/1.1 200 OK\r\n\r\n{}").as_deref(), Some("{}"));
        let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n1;x\r\n}\r\n0\r\n\r\n";
        assert_eq!(served(chunked).as_deref(), Some("{}"));
        assert_eq!(served(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"), None, "cut short");
        assert_eq!(served(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}"), None);
        assert_eq!(served(b"\0\xff"), None);
    }

    #[test]
    fn what_was_refused_is_told_and_no_content_is_an_answer() {
        let posted = |answer: &'static [u8]| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            std::thread::scope(|scope| {
                let client = scope.spawn(move || post(address, "/x", "{}"));
                let (mut stream, _) = listener.accept().unwrap();
                let mut heard = [0; 1024];
                let count = stream.read(&mut heard).unwrap();
                let heard = String::from_utf8_lossy(&heard[..count]).into_owned();
                assert!(
                    heard.starts_with("POST /x HTTP/1.1\r\n") && heard.ends_with("\r\n\r\n{}"),
                    "{heard}"
                );
                stream.write_all(answer).unwrap();
                // The connection stays open until the client has its answer.
                client.join().unwrap()
            })
        };
        let refused = posted(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno").unwrap();
        assert_eq!(refused, Reply { status: 404, body: b"no".to_vec() });
        let nothing = posted(b"HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n").unwrap();
        assert_eq!(nothing, Reply { status: 204, body: Vec::new() });
    }

    #[test]
    fn nobody_there_is_no_answer() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(get(address, "/", SOON), None);
        assert_eq!(escaped("/a b/日"), "%2Fa%20b%2F%E6%97%A5");
    }
}
