//! The smallest HTTP client that can ask a local server one question: `GET`, one answer, a deadline.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long one question may take in all.
const DEADLINE: Duration = Duration::from_millis(700);
/// No answer to these questions is longer.
const LONGEST: usize = 8 << 20;

/// The body of a successful answer; `None` for everything else.
pub(super) fn get(address: SocketAddr, path: &str) -> Option<Vec<u8>> {
    let until = Instant::now() + DEADLINE;
    let left = || Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
    let mut stream = TcpStream::connect_timeout(&local(address), left()?).ok()?;
    stream.set_write_timeout(left()).ok()?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    let mut chunk = [0; 16 << 10];
    while answer.len() < LONGEST {
        stream.set_read_timeout(Some(left()?)).ok()?;
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
        if let Some(body) = whole_body(&answer) {
            return Some(body);
        }
    }
    body_at_end(&answer)
}

/// A server that listens everywhere is asked on this machine's own address.
fn local(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::from((Ipv6Addr::LOCALHOST, address.port())),
        _ => address,
    }
}

struct Answer<'a> {
    ok: bool,
    length: Option<usize>,
    chunked: bool,
    body: &'a [u8],
}

fn parse(answer: &[u8]) -> Option<Answer<'_>> {
    let end = memchr::memmem::find(answer, b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.lines();
    let ok = lines.next()?.split(' ').nth(1)? == "200";
    let mut parsed = Answer { ok, length: None, chunked: false, body: &answer[end + 4..] };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            parsed.length = value.trim().parse().ok();
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            parsed.chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    Some(parsed)
}

/// The body, if the answer says itself that it is whole.
fn whole_body(answer: &[u8]) -> Option<Vec<u8>> {
    let parsed = parse(answer).filter(|parsed| parsed.ok)?;
    if parsed.chunked {
        return dechunk(parsed.body);
    }
    parsed.length.and_then(|length| parsed.body.get(..length)).map(<[u8]>::to_vec)
}

/// The body of an answer that ends with the connection.
fn body_at_end(answer: &[u8]) -> Option<Vec<u8>> {
    let parsed = parse(answer).filter(|parsed| parsed.ok && !parsed.chunked && parsed.length.is_none())?;
    Some(parsed.body.to_vec())
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
        let body = get(address, "/");
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
    fn nobody_there_is_no_answer() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(get(address, "/"), None);
        assert_eq!(escaped("/a b/日"), "%2Fa%20b%2F%E6%97%A5");
    }
}
