//! Listens to an OpenCode server: `GET /global/event` announces everything that this process runs, in any directory.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::http::{Door, ask};
use crate::feed::{Feed, FeedMessage, Lost};
use crate::wire::deadline::{Bounded, Timed};
use crate::wire::http::{Events, Request};

/// How long a server may take to send its greeting.
const GREETING: Duration = Duration::from_secs(5);
/// No event that matters is larger.
const LARGEST_EVENT: usize = 1 << 20;

pub(crate) struct ServerFeed {
    door: Door,
    events: Option<Events<Bounded<TcpStream>>>,
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

/// Subscribes to everything that the server announces.
pub(super) fn subscribe(door: &Door) -> io::Result<Events<Bounded<TcpStream>>> {
    let host = door.to_string();
    let request = Request { accept: "text/event-stream", ..Request::get(&host, "/global/event") };
    let response = ask(door, &request, GREETING)?;
    if response.head.status != 200 {
        let words = format!("the server at {door} has no events for us");
        return Err(io::Error::new(io::ErrorKind::Unsupported, words));
    }
    Ok(response.events(LARGEST_EVENT))
}

impl ServerFeed {
    pub(crate) fn new(door: Door) -> Self {
        Self { door, events: None }
    }

    fn listen(&mut self, timeout: Duration) -> io::Result<FeedMessage> {
        let until = Instant::now() + timeout;
        let Some(events) = &mut self.events else {
            self.events = Some(subscribe(&self.door)?);
            return Ok(FeedMessage::Changed);
        };
        events.stream().wait_until(until);
        loop {
            match events.next_event() {
                Ok(None) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(Some(event)) if feed_message(&event.data) == FeedMessage::Nothing => {}
                Ok(Some(_)) => return Ok(FeedMessage::Changed),
                // It is unknown what the event was about; the next survey finds out.
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => return Ok(FeedMessage::Changed),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(FeedMessage::Nothing),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Feed for ServerFeed {
    fn next(&mut self, timeout: Duration) -> Result<FeedMessage, Lost> {
        self.listen(timeout).map_err(|error| {
            self.events = None;
            Lost::new(error.to_string())
        })
    }
}

/// Whether an event announces something that can change a list. The text of a reply in progress cannot.
fn feed_message(data: &str) -> FeedMessage {
    let event = serde_json::from_str::<Wrapped>(data);
    match event.as_ref().map(|event| event.payload.kind.as_str()) {
        Ok(kind)
            if kind.starts_with("session.")
                || kind.starts_with("permission.")
                || kind.starts_with("question.")
                || kind == "message.updated" =>
        {
            FeedMessage::Changed
        }
        _ => FeedMessage::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn events_about_sessions_are_news() {
        let event = |kind: &str| format!("{{\"payload\":{{\"id\":\"evt_1\",\"type\":\"{kind}\"}}}}");
        for kind in
            ["session.status", "session.idle", "permission.asked", "question.asked", "message.updated"]
        {
            assert_eq!(feed_message(&event(kind)), FeedMessage::Changed, "{kind}");
        }
        for kind in ["server.heartbeat", "message.part.delta", "plugin.added"] {
            assert_eq!(feed_message(&event(kind)), FeedMessage::Nothing, "{kind}");
        }
        assert_eq!(feed_message("no JSON"), FeedMessage::Nothing);
    }

    /// The server writes each piece on request, so that the feed must process what has arrived.
    #[test]
    fn a_server_is_heard_until_it_goes_away() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut feed = ServerFeed::new(listener.local_addr().unwrap().into());
        let (say, said) = std::sync::mpsc::channel::<String>();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            for text in said {
                write!(stream, "{:x}\r\n{text}\r\n", text.len()).unwrap();
            }
        });
        let long = Duration::from_mins(1);
        assert_eq!(feed.next(long).unwrap(), FeedMessage::Changed, "it was not heard before");
        assert_eq!(feed.next(Duration::from_millis(20)).unwrap(), FeedMessage::Nothing);
        say.send("data: {\"payload\":{\"type\":\"server.heartbeat\"}}\n\ndata: {\"payload\":".into())
            .unwrap();
        assert_eq!(feed.next(Duration::from_millis(100)).unwrap(), FeedMessage::Nothing);
        say.send("{\"type\":\"session.idle\"}}\n\n".into()).unwrap();
        assert_eq!(feed.next(long).unwrap(), FeedMessage::Changed);
        say.send(format!("data: {}\n\n", "x".repeat(LARGEST_EVENT))).unwrap();
        assert_eq!(feed.next(long).unwrap(), FeedMessage::Changed, "too large to be understood");
        drop(say);
        assert!(feed.next(long).is_err());
        server.join().unwrap();
    }

    #[test]
    fn a_server_without_events_is_lost_and_says_so() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut feed = ServerFeed::new(listener.local_addr().unwrap().into());
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
