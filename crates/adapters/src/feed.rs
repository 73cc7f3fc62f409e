//! Servers that announce changes themselves. An announcement is a reason to survey again, never a fact: announcements
//! can be lost, and only the next survey says what is true.

use std::fmt;
use std::time::Duration;

/// One server that is listened to. Creating one costs nothing: it connects when it is first asked for a message.
pub trait Feed: Send {
    /// Waits at most this long for a message, and connects first if there is no connection. A new connection is
    /// itself reported as a change, because announcements before it are lost. After an error the caller asks again
    /// once the pause is over, and the feed reconnects.
    fn next(&mut self, timeout: Duration) -> Result<FeedMessage, Lost>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedMessage {
    Nothing,
    /// Something may have changed.
    Changed,
    /// The server is a different one than before, by the id that it gives to each of its runs: everything may have
    /// changed.
    Restarted,
}

/// The feed cannot be read. Nothing is known about its sessions until the next survey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    pub why: String,
    /// How long the server asks us to wait before reconnecting; `None` when it does not say.
    pub retry_in: Option<Duration>,
}

impl Lost {
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), retry_in: None }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.why)
    }
}

/// A feed with a name that is unique within its source.
pub struct Line {
    pub name: String,
    pub feed: Box<dyn Feed>,
}

impl Line {
    pub fn new(name: impl Into<String>, feed: impl Feed + 'static) -> Self {
        Self { name: name.into(), feed: Box::new(feed) }
    }
}
