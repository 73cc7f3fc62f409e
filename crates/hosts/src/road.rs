//! What every road offers. Whoever asks a machine does not know which road leads there.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use agentctl_adapters::wire::http;
use agentctl_model::Road;

use crate::failure::RoadFailure;
use crate::greeting::Greeting;

/// A machine that can be asked.
pub trait Host: fmt::Debug + Send + Sync {
    fn via(&self) -> Road;

    /// How long it may take to connect, and how long an answer that is not known to be slow may take.
    fn timeout(&self) -> Duration;

    fn connect(&self) -> Result<Box<dyn Connection>, RoadFailure>;

    /// The command that runs agentctl there with these words in this terminal; `None` where no terminal can be had.
    fn terminal(&self, words: &[String]) -> Option<Vec<String>> {
        let _ = words;
        None
    }
}

/// A conversation with the API of a machine: requests one after the other.
pub trait Connection: Send {
    fn greeting(&self) -> &Greeting;

    /// Sends a request and reads the whole answer. A failure at [`Step::Answer`](crate::Step::Answer) leaves open
    /// whether the request was carried out; one at any earlier step says that it was not.
    fn ask(&mut self, ask: Ask<'_>, timeout: Duration) -> Result<Answer, RoadFailure>;

    /// Asks for a stream of events, which the connection then carries until its end.
    fn listen(
        self: Box<Self>,
        target: &str,
        cursor: Option<&str>,
        timeout: Duration,
    ) -> Result<Box<dyn Events>, RoadFailure>;
}

/// The events of a stream that was asked for.
pub trait Events: Send {
    /// The next event; `None` at the end. An error of the kind `TimedOut` says that none came in time, and the next
    /// call goes on.
    fn next(&mut self, timeout: Option<Duration>) -> io::Result<Option<http::Event>>;

    /// The cursor of the last event.
    fn cursor(&self) -> Option<&str>;

    /// When anything came last. A machine that has nothing to tell still says so several times a minute.
    fn last_heard(&mut self) -> Instant;
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    pub accept: &'a str,
    /// JSON.
    pub body: Option<&'a str>,
}

impl<'a> Ask<'a> {
    pub fn get(target: &'a str) -> Self {
        Self { method: "GET", target, accept: "application/json", body: None }
    }

    pub fn write(method: &'a str, target: &'a str, body: &'a str) -> Self {
        Self { method, target, accept: "application/json", body: Some(body) }
    }

    /// Whether it changes nothing, so that it may be asked again.
    pub fn only_reads(&self) -> bool {
        self.method == "GET"
    }
}

/// One complete response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn is_done(&self) -> bool {
        self.status == 200
    }
}
