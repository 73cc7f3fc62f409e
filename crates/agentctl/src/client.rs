//! Asking the daemon: HTTP/1.1 over its socket, blocking, one request per connection. No runtime is started for it.

mod answer;
mod stream;

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use agentctl_daemon::Problem;
use agentctl_daemon::wire::{CALLER, VERSION};

use crate::exit_codes::Exit;
use crate::failure::Failure;

pub(crate) use answer::Answer;
pub(crate) use stream::{ServerEvent, Stream};

/// The longest silence of a daemon that is asked: then we look ourselves. Reading ten thousand sessions takes a while.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The way to one daemon. Nothing is connected before something is asked.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    socket: PathBuf,
    caller: Option<String>,
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
        Self { socket, caller: None }
    }

    /// The same, telling the daemon whose sources are meant.
    pub(crate) fn speaking_for(self, caller: String) -> Self {
        Self { caller: Some(caller), ..self }
    }

    /// Whether somebody listens at the socket. It is not waited for an answer.
    pub(crate) fn is_heard(&self) -> bool {
        self.connect().is_ok()
    }

    /// Asks and takes the whole answer.
    pub(crate) fn ask(&self, ask: Ask<'_>) -> io::Result<Answer> {
        Answer::read(self.send(ask)?)
    }

    /// Asks for a stream of events.
    pub(crate) fn listen(&self, target: &str, cursor: Option<&str>) -> io::Result<Stream> {
        let ask = Ask { accept: "text/event-stream", ..Ask::get(target) };
        Stream::open(self.send_with(ask, cursor)?)
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
        let problem = serde_json::from_slice::<Problem>(&answer.body);
        let Ok(problem) = problem else {
            return Err(Failure::new(Exit::Failed, format!("the daemon answered {}", answer.status)));
        };
        let exit = match problem.code.as_str() {
            "usage" => Exit::Usage,
            "not-found" => Exit::NotFound,
            "ambiguous" => Exit::Ambiguous,
            "incomplete" => Exit::Incomplete,
            "refused" | "forbidden" => Exit::Refused,
            _ => Exit::Failed,
        };
        Err(Failure::new(exit, problem.detail.clone()))
    }

    /// Whoever could once write in agentctl's folder may have put a socket there. What we ask with, variables and prompts
    /// among it, is for our own daemon alone.
    fn connect(&self) -> io::Result<UnixStream> {
        let stream = UnixStream::connect(&self.socket)?;
        #[cfg(target_os = "linux")]
        {
            let listener = rustix::net::sockopt::socket_peercred(&stream)?.uid;
            if listener != rustix::process::geteuid() {
                let why = format!("another user (uid {}) listens at the daemon's socket", listener.as_raw());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
        }
        Ok(stream)
    }

    fn send(&self, ask: Ask<'_>) -> io::Result<UnixStream> {
        self.send_with(ask, None)
    }

    fn send_with(&self, ask: Ask<'_>, cursor: Option<&str>) -> io::Result<UnixStream> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let Ask { method, target, accept, body } = ask;
        let mut head = format!(
            "{method} {target} HTTP/1.1\r\nHost: agentctl\r\nConnection: close\r\nAccept: {accept}\r\n\
             X-Agentctl: 1\r\n"
        );
        let headers = [(CALLER, self.caller.as_deref()), ("Last-Event-ID", cursor)];
        for (name, value) in headers.iter().filter_map(|(name, value)| value.map(|value| (name, value))) {
            head.extend([name, ": ", value, "\r\n"]);
        }
        if let Some(body) = body {
            let length = body.len().to_string();
            head.extend(["Content-Type: application/json\r\nContent-Length: ", &length, "\r\n"]);
        }
        head.push_str("\r\n");
        head.push_str(body.unwrap_or_default());
        stream.write_all(head.as_bytes())?;
        Ok(stream)
    }
}

impl Answer {
    /// Only a daemon of this version gives the answers that we would give.
    pub(crate) fn is_of_our_version(&self) -> bool {
        self.header(VERSION) == Some(OWN_VERSION)
    }
}
