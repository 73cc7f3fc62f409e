//! Asking the daemon: HTTP/1.1 over its socket, blocking, one request per connection. No runtime is started for it.

mod answer;
mod patient;
mod stream;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agentctl_adapters::wire::http::Request;
use agentctl_daemon::wire::CALLER;

use crate::exit_codes::Exit;
use crate::failure::Failure;

pub(crate) use answer::Answer;
use patient::Patient;
pub(crate) use patient::is_silent;
pub(crate) use stream::{Event, Stream};

/// How long a daemon may take to say that it is there: where we can look ourselves, and where nobody else can do it.
const HURRIED: Duration = Duration::from_millis(700);
const PATIENT: Duration = Duration::from_secs(2);

/// What the daemon is called on its own socket.
const HOST: &str = "agentctl";

pub(crate) const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The way to one daemon. Nothing is connected before something is asked.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    socket: PathBuf,
    caller: Option<String>,
    patience: Duration,
    /// Why it cannot be asked, once that was found out. Whoever shares this knows it from then on.
    silent: Arc<OnceLock<Silence>>,
}

/// Why nobody asks the daemon any more, and what to do about it.
#[derive(Debug)]
pub(crate) struct Silence {
    pub(crate) why: String,
    pub(crate) hint: &'static str,
}

impl Silence {
    /// `None` for an error that is no reason: then there is simply no daemon.
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

/// What is asked for.
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
        Self { socket, caller: None, patience: PATIENT, silent: Arc::default() }
    }

    /// For somebody who can do without it: then nobody waits for long, and it is noted that it does not answer.
    pub(crate) fn hurried(self, silent: Arc<OnceLock<Silence>>) -> Self {
        Self { patience: HURRIED, silent, ..self }
    }

    /// Whether it is known not to answer.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.get().is_some()
    }

    /// The same, telling the daemon whose sources are meant.
    pub(crate) fn speaking_for(self, caller: String) -> Self {
        Self { caller: Some(caller), ..self }
    }

    /// Whether the daemon listens at the socket. It is not waited for an answer.
    pub(crate) fn is_heard(&self) -> bool {
        match agentctl_daemon::call(&self.socket) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Asks and takes the whole answer.
    pub(crate) fn ask(&self, ask: Ask<'_>) -> io::Result<Answer> {
        self.noting(self.send(ask, None).and_then(Answer::read))
    }

    /// Asks for a stream of events.
    pub(crate) fn listen(&self, target: &str, cursor: Option<&str>) -> io::Result<Stream> {
        let ask = Ask { accept: "text/event-stream", ..Ask::get(target) };
        self.noting(self.send(ask, cursor).and_then(Stream::open))
    }

    fn noting<T>(&self, talk: io::Result<T>) -> io::Result<T> {
        if let Some(silence) = talk.as_ref().err().and_then(Silence::of) {
            // What was found first stays.
            let _ = self.silent.set(silence);
        }
        talk
    }

    /// Asks for something to be done. What went wrong is told in the daemon's words.
    pub(crate) fn done(&self, ask: Ask<'_>) -> Result<Vec<u8>, Failure> {
        let answer = self.ask(ask).map_err(|error| {
            Failure::new(Exit::NoDaemon, format!("the daemon does not answer: {error}"))
                .hint("`agentctl daemon status` and `agentctl daemon logs` say more")
        })?;
        if answer.is_done() {
            return Ok(answer.body);
        }
        Err(answer.failure())
    }

    fn send(&self, ask: Ask<'_>, cursor: Option<&str>) -> io::Result<Patient> {
        // What is written to one that is stopped would be done when it goes on, long after we have said that it was not.
        if ask.method != "GET" {
            patient::is_there(&self.socket, self.patience)?;
        }
        let mut stream = Patient::connect(self.socket.clone(), self.patience)?;
        // What was done cannot be asked for a second time, so its answer is worth waiting for.
        if ask.method != "GET" {
            stream.bear_slowness();
        }
        let Ask { method, target, accept, body } = ask;
        let mut headers = vec![("X-Agentctl", "1")];
        headers.extend(self.caller.as_deref().map(|caller| (CALLER, caller)));
        headers.extend(cursor.map(|cursor| ("Last-Event-ID", cursor)));
        Request { method, target, host: HOST, accept, headers: &headers, body }.write_to(&mut stream)?;
        Ok(stream)
    }
}
