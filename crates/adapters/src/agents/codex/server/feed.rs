//! Listens to an app-server. The server notifies every connected client of each thread that starts or changes
//! its state, without any subscription, so no content of a conversation travels over this connection.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Server;
use crate::feed::{Feed, FeedMessage, Lost};

/// How long a server may take for the handshake.
const GREETING: Duration = Duration::from_secs(5);

pub(crate) struct ServerFeed {
    socket: PathBuf,
    server: Option<Server>,
}

impl ServerFeed {
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self { socket, server: None }
    }

    fn listen(&mut self, timeout: Duration) -> io::Result<FeedMessage> {
        let Some(server) = &mut self.server else {
            self.server = Some(Server::connect(&self.socket, GREETING)?);
            return Ok(FeedMessage::Changed);
        };
        server.wait_until(Instant::now() + timeout);
        match server.receive() {
            Ok(message) => Ok(feed_message(&message)),
            Err(error) if is_silence(&error) => Ok(FeedMessage::Nothing),
            Err(error) => Err(error),
        }
    }
}

impl Feed for ServerFeed {
    fn next(&mut self, timeout: Duration) -> Result<FeedMessage, Lost> {
        self.listen(timeout).map_err(|error| {
            self.server = None;
            Lost::new(error.to_string())
        })
    }
}

pub(super) fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// Whether a message is about the state of a thread.
fn feed_message(message: &Value) -> FeedMessage {
    match message["method"].as_str() {
        Some(method) if method.starts_with("thread/") => FeedMessage::Changed,
        _ => FeedMessage::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_happens_to_threads_is_news() {
        assert_eq!(
            feed_message(&json!({"method": "thread/status/changed", "params": {}})),
            FeedMessage::Changed
        );
        assert_eq!(feed_message(&json!({"method": "thread/started"})), FeedMessage::Changed);
        assert_eq!(feed_message(&json!({"method": "account/updated"})), FeedMessage::Nothing);
        assert_eq!(feed_message(&json!({"id": 1, "result": {}})), FeedMessage::Nothing);
        assert_eq!(feed_message(&Value::Null), FeedMessage::Nothing);
    }

    #[test]
    fn a_server_that_is_not_there_is_lost_and_says_where() {
        let mut feed = ServerFeed::new("/nonexistent/app-server.sock".into());
        assert!(feed.next(Duration::ZERO).is_err());
    }
}
