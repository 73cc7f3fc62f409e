//! A conversation over the streams of a child process, which ends with this value.

use std::io::{self, Read};
use std::process::Child;
use std::time::{Duration, Instant};

use agentctl_adapters::wire::http::{self, Request, Response};

use crate::failure::{RoadFailure, Step};
use crate::greeting::{Greeting, Search, search};
use crate::pipe::PipeStream;
use crate::road::{Answer, Ask, Connection, Events};

/// No answer is larger.
const LARGEST_ANSWER: usize = 256 << 20;
/// No event is larger.
const LARGEST_EVENT: usize = 64 << 20;
/// The header that names the caller's sources, as on the daemon's socket.
const CALLER: &str = "x-agentctl-caller";
const HOST: &str = "agentctl";

struct PipeEvents {
    events: http::Events<PipeStream>,
    _child: OwnChild,
}

pub(crate) struct PipeConnection {
    stream: PipeStream,
    child: OwnChild,
    greeting: Greeting,
}

/// A child of ours that does not outlive this value.
struct OwnChild(Child);

impl Drop for OwnChild {
    fn drop(&mut self) {
        // It ends by itself at the end of its input; one that is stuck is not waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl PipeConnection {
    /// Waits for the greeting. The failure of a road that ends before it is told by `explain`, which gets the child.
    pub(crate) fn open(
        mut child: Child,
        deadline: Instant,
        explain: impl FnOnce(&mut Child, Option<&io::Error>) -> RoadFailure,
    ) -> Result<Self, RoadFailure> {
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(RoadFailure::new(Step::Connect, "the road has no streams"));
        };
        let mut child = OwnChild(child);
        let greeted = PipeStream::new(to, from).and_then(|mut stream| {
            stream.set_deadline(Some(deadline));
            greeting(&mut stream).map(|greeting| (stream, greeting))
        });
        match greeted {
            Ok((stream, Some(Ok(greeting)))) => Ok(Self { stream, child, greeting }),
            Ok((_, Some(Err(why)))) => Err(RoadFailure::new(Step::Version, why)
                .hint("install the same version of agentctl there, or name it with `program`")),
            Ok((_, None)) => Err(explain(&mut child.0, None)),
            Err(error) => Err(explain(&mut child.0, Some(&error))),
        }
    }

    fn send(&mut self, ask: Ask<'_>, more: &[(&str, &str)]) -> io::Result<()> {
        let Ask { method, target, accept, body } = ask;
        let caller = self.greeting.caller.as_deref().map(|caller| (CALLER, caller));
        let headers: Vec<(&str, &str)> = caller.into_iter().chain(more.iter().copied()).collect();
        Request { method, target, host: HOST, accept, headers: &headers, keeps: true, body }
            .write_to(&mut self.stream)
    }
}

impl Connection for PipeConnection {
    fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    fn ask(&mut self, ask: Ask<'_>, timeout: Duration) -> Result<Answer, RoadFailure> {
        self.stream.set_deadline(Some(Instant::now() + timeout));
        let asked = self.send(ask, &[]).and_then(|()| {
            let mut response = Response::read(&mut self.stream)?;
            if !response.says_its_end() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer without its length"));
            }
            let body = response.whole(LARGEST_ANSWER)?;
            Ok(Answer { status: response.head.status, body })
        });
        asked.map_err(|error| unanswered(&error, timeout))
    }

    fn listen(
        mut self: Box<Self>,
        target: &str,
        cursor: Option<&str>,
        timeout: Duration,
    ) -> Result<Box<dyn Events>, RoadFailure> {
        self.stream.set_deadline(Some(Instant::now() + timeout));
        let ask = Ask { accept: "text/event-stream", ..Ask::get(target) };
        let headers: Vec<(&str, &str)> = cursor.map(|cursor| ("Last-Event-ID", cursor)).into_iter().collect();
        self.send(ask, &headers).map_err(|error| unanswered(&error, timeout))?;
        let Self { stream, child, .. } = *self;
        let mut response = Response::read(stream).map_err(|error| unanswered(&error, timeout))?;
        if response.head.status != 200 {
            let words = format!("it answered {} to a request for events", response.head.status);
            return Err(RoadFailure::new(Step::Answer, words));
        }
        response.stream().set_deadline(None);
        Ok(Box::new(PipeEvents { events: response.events(LARGEST_EVENT), _child: child }))
    }
}

impl Events for PipeEvents {
    fn next(&mut self, timeout: Option<Duration>) -> io::Result<Option<http::Event>> {
        self.events.stream().set_deadline(timeout.map(|timeout| Instant::now() + timeout));
        self.events.next_event()
    }

    fn cursor(&self) -> Option<&str> {
        self.events.cursor()
    }

    fn last_heard(&mut self) -> Instant {
        self.events.stream().last_heard()
    }
}

fn unanswered(error: &io::Error, timeout: Duration) -> RoadFailure {
    let words = match error.kind() {
        io::ErrorKind::TimedOut => format!("it did not answer within {timeout:?}"),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
            "the connection was cut in the middle of an answer".to_owned()
        }
        _ => format!("its answer cannot be read: {error}"),
    };
    let hint = match error.kind() {
        io::ErrorKind::TimedOut => "raise `timeout` of this host if it is only slow",
        _ => "`agentctl doctor` on that machine says more",
    };
    RoadFailure::new(Step::Answer, words).hint(hint)
}

/// Reads up to the greeting; `None` where the stream ends before it. The other side says nothing more until it is
/// asked, so nothing is read that belongs to an answer.
fn greeting(stream: &mut PipeStream) -> io::Result<Option<Result<Greeting, String>>> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece)? {
            0 => return Ok(None),
            count => bytes.extend_from_slice(&piece[..count]),
        }
        match search(&bytes) {
            Search::Found(greeting, end) if end == bytes.len() => return Ok(Some(Ok(greeting))),
            Search::Found(..) => return Ok(Some(Err("it speaks without being asked".to_owned()))),
            Search::Never(why) => return Ok(Some(Err(why))),
            Search::NotYet => {}
        }
    }
}
