//! A running OpenCode server, and a client for tests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::background::Background;
use crate::wait::until_seen;

const TIMEOUT: Duration = Duration::from_mins(3);
const HEALTH: &str = "/global/health";

pub struct Server {
    /// When dropped, it is killed together with every process that it has started.
    pub process: Background,
    port: u16,
}

impl Server {
    pub(super) fn start(spawn: impl FnOnce(u16) -> Background) -> Self {
        let port = crate::nats::free_port();
        let server = Self { process: spawn(port), port };
        until_seen(TIMEOUT, "the server", || {
            let words = || format!("{}{}", server.process.stdout(), server.process.stderr());
            server.ask("GET", HEALTH, "").ok_or_else(words)
        });
        server
    }

    /// Sends a request and returns the body if it succeeds. The server does not always close the connection afterwards.
    pub fn ask(&self, method: &str, target: &str, body: &str) -> Option<String> {
        // A request that is sent while the server starts may never be answered.
        let timeout = if target == HEALTH { Duration::from_secs(2) } else { TIMEOUT };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(timeout)).ok()?;
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).ok()?;
        let (mut answer, mut chunk) = (String::new(), [0; 4096]);
        loop {
            let count = stream.read(&mut chunk).ok()?;
            answer.push_str(&String::from_utf8_lossy(&chunk[..count]));
            let Some((head, body)) = answer.split_once("\r\n\r\n") else { continue };
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if count == 0 || head.contains(" 204") || length.is_some_and(|length: usize| body.len() >= length)
            {
                return head.contains(" 20").then(|| body.to_owned());
            }
        }
    }
}
