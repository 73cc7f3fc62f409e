//! Sends one request to an OpenCode server: one request, one response, a deadline.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::wire::deadline::Bounded;
use crate::wire::http::{Request, Response};

/// How long one request of a survey may take in total; a server that does not answer is skipped.
pub(crate) const SURVEY_TIMEOUT: Duration = Duration::from_millis(700);
/// The same for actions that the user wants: long enough for a loaded machine.
pub(crate) const ACTION_TIMEOUT: Duration = Duration::from_secs(20);
/// No response to these requests is longer.
const LONGEST: usize = 8 << 20;

/// The response of a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// The body of a successful response; `None` for everything else.
pub(crate) fn get(address: SocketAddr, path: &str, timeout: Duration) -> Option<Vec<u8>> {
    let reply = call(address, "GET", path, None, timeout).ok()?;
    (reply.status == 200).then_some(reply.body)
}

/// Asks a server to do something; `body` is JSON.
pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> io::Result<Reply> {
    call(address, "POST", path, Some(body), ACTION_TIMEOUT)
}

fn call(
    address: SocketAddr,
    method: &str,
    target: &str,
    body: Option<&str>,
    timeout: Duration,
) -> io::Result<Reply> {
    let host = address.to_string();
    let mut response = ask(address, &Request { method, body, ..Request::get(&host, target) }, timeout)?;
    Ok(Reply { status: response.head.status, body: response.whole(LONGEST)? })
}

/// Sends a request and reads the head of its response, within the timeout. The same deadline bounds the body.
pub(crate) fn ask(
    address: SocketAddr,
    request: &Request<'_>,
    timeout: Duration,
) -> io::Result<Response<Bounded<TcpStream>>> {
    let deadline = Instant::now() + timeout;
    let mut stream = Bounded::new(TcpStream::connect_timeout(&local(address), timeout)?, deadline);
    request.write_to(&mut stream)?;
    Response::read(stream)
}

/// A server that listens on all addresses is reached on this machine's own address.
fn local(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::from((Ipv6Addr::LOCALHOST, address.port())),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    fn served(answer: &'static [u8]) -> Option<Vec<u8>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            stream.write_all(answer).unwrap();
        });
        let body = get(address, "/", SURVEY_TIMEOUT);
        server.join().unwrap();
        body
    }

    #[test]
    fn only_a_whole_success_is_an_answer() {
        assert_eq!(served(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").as_deref(), Some(&b"{}"[..]));
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
                // The connection stays open until the client has its response.
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
        assert_eq!(get(address, "/", SURVEY_TIMEOUT), None);
    }
}
