//! Listening to a server of OpenCode: `GET /global/event` tells of everything that this process runs, in any directory.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::http::local;
use crate::feed::{Feed, Lost, News};

/// How long a server may take to greet.
const GREETING: Duration = Duration::from_secs(5);
/// No line that matters is longer; of one that is, only the end is heard.
const LONGEST_LINE: usize = 1 << 20;

pub(super) struct ServerFeed {
    address: SocketAddr,
    stream: Option<TcpStream>,
    /// The line that is not whole yet.
    line: Vec<u8>,
}

#[derive(Deserialize)]
struct Wrapped {
    payload: Event,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
}

impl ServerFeed {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, stream: None, line: Vec::new() }
    }

    fn connect(&mut self) -> io::Result<News> {
        let mut stream = TcpStream::connect_timeout(&local(self.address), GREETING)?;
        stream.set_write_timeout(Some(GREETING))?;
        stream.set_read_timeout(Some(GREETING))?;
        // As of old, so that no line is cut by the sizes of chunks.
        let request = format!(
            "GET /global/event HTTP/1.0\r\nHost: {}\r\nAccept: text/event-stream\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes())?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        if !status.ends_with(b" 200") {
            let words = format!("the server at {} has no events for us", self.address);
            return Err(io::Error::new(io::ErrorKind::Unsupported, words));
        }
        self.line.clear();
        self.stream = Some(stream);
        Ok(News::Changed)
    }

    fn listen(&mut self, patience: Duration) -> io::Result<News> {
        let until = Instant::now() + patience;
        let mut chunk = [0; 16 << 10];
        loop {
            let Some(stream) = &mut self.stream else { return self.connect() };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(News::Nothing);
            }
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    if take(&mut self.line, &chunk[..count]) == News::Changed {
                        return Ok(News::Changed);
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
                    return Ok(News::Nothing);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Feed for ServerFeed {
    fn next(&mut self, patience: Duration) -> Result<News, Lost> {
        self.listen(patience).map_err(|error| {
            self.stream = None;
            Lost::new(error.to_string())
        })
    }
}

/// Takes what arrived; says whether a whole line of it is news. Where a server sends in chunks all the same, their sizes are
/// lines of their own and say nothing.
fn take(line: &mut Vec<u8>, arrived: &[u8]) -> News {
    let mut heard = News::Nothing;
    for piece in arrived.split_inclusive(|byte| *byte == b'\n') {
        line.extend_from_slice(piece);
        if line.len() > LONGEST_LINE {
            line.clear();
        }
        if piece.ends_with(b"\n") {
            if news(line) == News::Changed {
                heard = News::Changed;
            }
            line.clear();
        }
    }
    heard
}

/// Whether a line tells of something that can change a list. The words of a reply in the making do not.
fn news(line: &[u8]) -> News {
    let event = line.strip_prefix(b"data:").and_then(|data| serde_json::from_slice::<Wrapped>(data).ok());
    match event.as_ref().map(|event| event.payload.kind.as_str()) {
        Some(kind)
            if kind.starts_with("session.")
                || kind.starts_with("permission.")
                || kind.starts_with("question.")
                || kind == "message.updated" =>
        {
            News::Changed
        }
        _ => News::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_about_sessions_are_news() {
        let mut line = Vec::new();
        let event = |kind: &str| format!("data: {{\"payload\":{{\"id\":\"evt_1\",\"type\":\"{kind}\"}}}}\n");
        for kind in
            ["session.status", "session.idle", "permission.asked", "question.asked", "message.updated"]
        {
            assert_eq!(take(&mut line, event(kind).as_bytes()), News::Changed, "{kind}");
        }
        for kind in ["server.heartbeat", "message.part.delta", "plugin.added"] {
            assert_eq!(take(&mut line, event(kind).as_bytes()), News::Nothing, "{kind}");
        }
        let whole = format!("4f\r\n{}\r\n", event("session.idle"));
        let (first, second) = whole.as_bytes().split_at(20);
        assert_eq!(take(&mut line, first), News::Nothing);
        assert_eq!(take(&mut line, second), News::Changed);
        assert_eq!(take(&mut line, &vec![b'x'; LONGEST_LINE + 1]), News::Nothing);
        assert!(line.is_empty(), "what has no end is not kept");
    }

    #[test]
    fn a_server_without_events_is_lost_and_says_so() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut feed = ServerFeed::new(listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").unwrap();
        });
        let lost = feed.next(Duration::from_mins(1)).unwrap_err();
        assert!(lost.why.contains("no events"), "{lost}");
        server.join().unwrap();
    }
}
