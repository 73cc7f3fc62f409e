//! Servers that tell by themselves when something changes. What they tell is a reason to look again, never a fact:
//! news can be lost, and what is true is for the next survey to say.

use std::fmt;
use std::time::Duration;

/// One server that is listened to. Making one costs nothing: it connects when it is first asked for news.
pub trait Feed: Send {
    /// Waits at most this long for news, connecting first where there is no connection. Having connected is news: what
    /// was told before is lost. After an error it is asked again once the pause is over, and connects anew.
    fn next(&mut self, patience: Duration) -> Result<FeedMessage, Lost>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedMessage {
    Nothing,
    /// Something may have changed.
    Changed,
    /// The server is another one than before, by the name that it gives to each of its lives: everything may have changed.
    Restarted,
}

/// It cannot be heard. Nothing is known of its sessions until somebody asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    pub why: String,
    /// How long the server wants to be left alone; `None` when it does not say.
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

/// A feed under the name that tells it from the others of its source.
pub struct Line {
    pub name: String,
    pub feed: Box<dyn Feed>,
}

impl Line {
    pub fn new(name: impl Into<String>, feed: impl Feed + 'static) -> Self {
        Self { name: name.into(), feed: Box::new(feed) }
    }
}
