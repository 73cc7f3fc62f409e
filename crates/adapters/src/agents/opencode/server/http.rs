//! Sends one request to an OpenCode server: one request, one response, a deadline.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use agentctl_model::Process;

use crate::wire::deadline::Bounded;
use crate::wire::http::{Request, Response};

/// How long one request of a survey may take in total; a server that does not answer is skipped.
pub(crate) const SURVEY_TIMEOUT: Duration = Duration::from_millis(700);
/// The same for actions that the user wants: long enough for a loaded machine.
pub(crate) const ACTION_TIMEOUT: Duration = Duration::from_secs(20);
/// No response to these requests is longer.
const LONGEST: usize = 8 << 20;

/// The variables in which a server finds the name and the password that it demands.
pub(crate) const USER: &str = "OPENCODE_SERVER_USERNAME";
pub(crate) const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";
/// The name if none is set.
pub(crate) const DEFAULT_USER: &str = "opencode";

/// Where a server is reached, and what it demands.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    /// The whole value of the header, which nobody may see.
    authorization: Option<String>,
}

impl fmt::Display for Door {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(out)
    }
}

impl From<SocketAddr> for Door {
    /// A server without a password.
    fn from(address: SocketAddr) -> Self {
        Self { address, authorization: None }
    }
}

impl Door {
    pub(crate) fn with_password(address: SocketAddr, user: &str, password: &str) -> Self {
        let pair = data_encoding::BASE64.encode(format!("{user}:{password}").as_bytes());
        Self { address, authorization: Some(format!("Basic {pair}")) }
    }

    /// Every address on which this process listens. The user who may read its environment may use its password.
    pub(crate) fn all_of(process: &Process) -> Vec<Self> {
        let user = process.variable(USER).unwrap_or(DEFAULT_USER);
        let door = |address: &SocketAddr| match process.variable(PASSWORD) {
            Some(password) => Self::with_password(*address, user, password),
            None => Self::from(*address),
        };
        process.listening.seen().into_iter().flatten().map(door).collect()
    }
}

/// The response of a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// The body of a successful response; `None` for everything else.
pub(crate) fn get(door: &Door, path: &str, timeout: Duration) -> Option<Vec<u8>> {
    let reply = call(door, "GET", path, None, timeout).ok()?;
    (reply.status == 200).then_some(reply.body)
}

/// Asks a server to do something; `body` is JSON.
pub(crate) fn post(door: &Door, path: &str, body: &str) -> io::Result<Reply> {
    call(door, "POST", path, Some(body), ACTION_TIMEOUT)
}

fn call(door: &Door, method: &str, target: &str, body: Option<&str>, timeout: Duration) -> io::Result<Reply> {
    let host = door.to_string();
    let mut response = ask(door, &Request { method, body, ..Request::get(&host, target) }, timeout)?;
    Ok(Reply { status: response.head.status, body: response.whole(LONGEST)? })
}

/// Sends a request and reads the head of its response, within the timeout. The same deadline bounds the body.
pub(crate) fn ask(
    door: &Door,
    request: &Request<'_>,
    timeout: Duration,
) -> io::Result<Response<Bounded<TcpStream>>> {
    let deadline = Instant::now() + timeout;
    let mut stream = Bounded::new(TcpStream::connect_timeout(&local(door.address), timeout)?, deadline);
    let authorization = door.authorization.as_deref().map(|value| ("Authorization", value));
    Request { headers: authorization.as_slice(), ..*request }.write_to(&mut stream)?;
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

    /// Of these servers each answers or closes the connection, so that only the machine is slow.
    const PATIENCE: Duration = Duration::from_mins(1);

    fn served(answer: &'static [u8]) -> Option<Vec<u8>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            stream.write_all(answer).unwrap();
        });
        let body = get(&address.into(), "/", PATIENCE);
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
    fn the_password_of_the_servers_own_environment_is_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let door = Door::with_password(listener.local_addr().unwrap(), "opencode", "secret");
        let client = std::thread::spawn(move || get(&door, "/", PATIENCE));
        let (mut stream, _) = listener.accept().unwrap();
        let mut heard = [0; 1024];
        let count = stream.read(&mut heard).unwrap();
        let heard = String::from_utf8_lossy(&heard[..count]).into_owned();
        assert!(heard.contains("\r\nAuthorization: Basic b3BlbmNvZGU6c2VjcmV0\r\n"), "{heard}");
        drop(stream);
        assert_eq!(client.join().unwrap(), None);
    }

    #[test]
    fn what_was_refused_is_told_and_no_content_is_an_answer() {
        let posted = |answer: &'static [u8]| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            std::thread::scope(|scope| {
                let client = scope.spawn(move || post(&address.into(), "/x", "{}"));
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
        assert_eq!(get(&address.into(), "/", PATIENCE), None);
    }
}
