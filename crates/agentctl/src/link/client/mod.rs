//! A client of the daemon: HTTP/1.1 over its socket, blocking, one request per connection, without an async
//! runtime.

mod answer;
mod deadline;
mod stream;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agentctl_adapters::wire::http::Request;
use agentctl_daemon::wire::CALLER;
use agentctl_model::ErrorKind;

use crate::failure::Failure;

pub(crate) use answer::Answer;
use deadline::DeadlineStream;
pub(crate) use deadline::is_silent;
pub(crate) use stream::{Event, Stream};

/// How long a daemon may take to show that it is alive: when we could survey ourselves, and when only the
/// daemon can do it.
const SHORT_TIMEOUT: Duration = Duration::from_millis(700);
const LONG_TIMEOUT: Duration = Duration::from_secs(2);

/// The daemon's host name on its own socket.
const HOST: &str = "agentctl";

pub(crate) const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// A client of one daemon. It connects only when it sends a request.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    socket: PathBuf,
    caller: Option<String>,
    timeout: Duration,
    /// Why the daemon cannot be asked, once that is known. All holders of this value learn it at once.
    silent: Arc<OnceLock<Silence>>,
}

/// Why the daemon is no longer asked, and what to do about it.
#[derive(Debug)]
pub(crate) struct Silence {
    pub(crate) why: String,
    pub(crate) hint: &'static str,
}

impl Silence {
    /// Returns `None` for an error that only means that no daemon runs.
    fn of(error: &io::Error) -> Option<Self> {
        if is_silent(error) {
            let why = "the daemon holds its lock and does not answer".to_owned();
            let hint = "`agentctl daemon restart` ends it and starts another one; agents go on";
            return Some(Self { why, hint });
        }
        let hint =
            "end that process; `agentctl daemon restart` starts a daemon in its place, and agents go on";
        agentctl_daemon::is_impostor(error).then(|| Self { why: error.to_string(), hint })
    }
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    /// Path and query.
    pub(crate) target: &'a str,
    pub(crate) accept: &'a str,
    pub(crate) body: Option<&'a str>,
}

impl<'a> Ask<'a> {
    pub(crate) fn get(target: &'a str) -> Self {
        Self { method: "GET", target, accept: "application/json", body: None }
    }

    pub(crate) fn write(method: &'a str, target: &'a str, body: &'a str) -> Self {
        Self { method, target, accept: "application/json", body: Some(body) }
    }
}

impl Client {
    pub(crate) fn at(socket: PathBuf) -> Self {
        Self { socket, caller: None, timeout: LONG_TIMEOUT, silent: Arc::default() }
    }

    /// For a caller that can do without the daemon: it does not wait long, and records that the daemon does
    /// not answer.
    pub(crate) fn with_short_timeout(self, silent: Arc<OnceLock<Silence>>) -> Self {
        Self { timeout: SHORT_TIMEOUT, silent, ..self }
    }

    /// Whether the daemon is known not to answer.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.get().is_some()
    }

    /// The same client, sending the caller's sources with each request.
    pub(crate) fn on_behalf_of(self, caller: String) -> Self {
        Self { caller: Some(caller), ..self }
    }

    /// Whether the daemon listens at the socket, without waiting for an answer.
    pub(crate) fn is_heard(&self) -> bool {
        match agentctl_daemon::call(&self.socket) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Sends a request and reads the whole response.
    pub(crate) fn ask(&self, ask: Ask<'_>) -> io::Result<Answer> {
        self.noting(self.send(ask, None).and_then(Answer::read))
    }

    /// Requests a stream of events.
    pub(crate) fn listen(&self, target: &str, cursor: Option<&str>) -> io::Result<Stream> {
        let ask = Ask { accept: "text/event-stream", ..Ask::get(target) };
        self.noting(self.send(ask, cursor).and_then(Stream::open))
    }

    fn noting<T>(&self, talk: io::Result<T>) -> io::Result<T> {
        if let Some(silence) = talk.as_ref().err().and_then(Silence::of) {
            // The first reason found is kept.
            let _ = self.silent.set(silence);
        }
        talk
    }

    /// Requests an action. A failure is reported in the daemon's words.
    pub(crate) fn done(&self, ask: Ask<'_>) -> Result<Vec<u8>, Failure> {
        let answer = self.ask(ask).map_err(|error| {
            Failure::new(ErrorKind::NoDaemon, format!("the daemon does not answer: {error}"))
                .hint("`agentctl daemon status` and `agentctl daemon logs` say more")
        })?;
        if answer.is_done() {
            return Ok(answer.body);
        }
        Err(answer.failure())
    }

    fn send(&self, ask: Ask<'_>, cursor: Option<&str>) -> io::Result<DeadlineStream> {
        // A stopped daemon would perform the request when it continues, long after we have reported that it
        // failed.
        if ask.method != "GET" {
            deadline::check_alive(&self.socket, self.timeout)?;
        }
        let mut stream = DeadlineStream::connect(self.socket.clone(), self.timeout)?;
        // An action cannot be requested a second time, so its response is worth waiting for.
        if ask.method != "GET" {
            stream.allow_slow_answer();
        }
        let Ask { method, target, accept, body } = ask;
        let mut headers = vec![("X-Agentctl", "1")];
        headers.extend(self.caller.as_deref().map(|caller| (CALLER, caller)));
        headers.extend(cursor.map(|cursor| ("Last-Event-ID", cursor)));
        Request { method, target, host: HOST, accept, headers: &headers, keeps: false, body }
            .write_to(&mut stream)?;
        Ok(stream)
    }
}
