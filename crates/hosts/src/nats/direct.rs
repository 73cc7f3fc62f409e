//! A conversation with one host over the bus. Each request has one answer, as the server lets a host reply once to each;
//! what is longer than a message, and every stream, comes in parts that are asked for one after the other.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentctl_adapters::wire::http;
use agentctl_model::Road;
use tokio::sync::mpsc;

use super::bus::{Bus, BusDoor, Line, Unanswered};
use super::message::{self, AnswerHead, PartHead, RequestHead, VERSION};
use super::subjects::{self, Tree};
use crate::failure::{RoadFailure, Step};
use crate::greeting::Greeting;
use crate::name::HostName;
use crate::road::{Answer, Ask, Connection, Events, Host};

/// No answer is larger.
pub(super) const LARGEST_ANSWER: usize = 256 << 20;
/// No event is larger.
const LARGEST_EVENT: usize = 64 << 20;
/// How long a host waits before it says that a stream has nothing to tell.
pub const QUIET: Duration = Duration::from_secs(10);
/// A host that acts was heard this long ago at most, so that a request does not lie with one that is stopped and is carried
/// out when nobody wants it any more.
const FRESH: Duration = Duration::from_secs(1);
/// How many parts of a stream wait here for their reader.
const PARTS_AHEAD: usize = 4;

/// The road to one host of the bus.
#[derive(Debug)]
pub struct NatsRoad {
    pub door: Arc<BusDoor>,
    pub name: HostName,
}

struct NatsConnection {
    door: Arc<BusDoor>,
    name: HostName,
    greeting: Greeting,
    heard: Instant,
}

struct NatsEvents {
    events: http::Events<Parts>,
}

impl Host for NatsRoad {
    fn via(&self) -> Road {
        Road::Nats
    }

    fn timeout(&self) -> Duration {
        self.door.settings.timeout
    }

    fn connect(&self) -> Result<Box<dyn Connection>, RoadFailure> {
        let bus = self.door.open()?;
        let greeting = bus.block_on(hello(&bus.line, &self.name, self.timeout()))?;
        let (door, name) = (self.door.clone(), self.name.clone());
        Ok(Box::new(NatsConnection { door, name, greeting, heard: Instant::now() }))
    }
}

/// Who is there.
async fn hello(line: &Line, name: &HostName, timeout: Duration) -> Result<Greeting, RoadFailure> {
    let reply = line.request(subjects::hello(name), Vec::new(), timeout).await;
    let reply = reply.map_err(|why| unheard(&why, Step::Program, timeout))?;
    let (_, body) = message::decode_answer(&reply).map_err(|why| {
        RoadFailure::new(Step::Version, why).hint("install the same version of agentctl there")
    })?;
    serde_json::from_slice(body)
        .map_err(|_| RoadFailure::new(Step::Version, "it does not say who it is as agentctl does"))
}

/// What a request without an answer means for its host. `before` is the step at which nothing was done yet.
pub(super) fn unheard(why: &Unanswered, before: Step, timeout: Duration) -> RoadFailure {
    match why {
        Unanswered::NobodyListens => RoadFailure::new(
            before,
            "it is not connected to the bus; the server knows no daemon of that name",
        )
        .hint("on that machine: `serve` in `[nats]`, and `agentctl daemon status`"),
        Unanswered::Silent => RoadFailure::new(
            Step::Answer,
            format!("it is connected to the bus and did not answer within {timeout:?}"),
        )
        .hint("is it busy, stopped or cut off? raise `timeout` in `[nats]` if it is only slow"),
        Unanswered::Forbidden(words) => {
            RoadFailure::new(Step::Authenticate, format!("the server does not let this user ask it: {words}"))
                .hint("docs/hosts.md names the rights that each user needs")
        }
        Unanswered::Failed(words) => {
            RoadFailure::new(Step::Answer, format!("the bus was lost: {words}")).hint("try again")
        }
    }
}

impl NatsConnection {
    fn bus(&self) -> Result<Arc<Bus>, RoadFailure> {
        self.door.open()
    }

    fn head(&self, ask: Ask<'_>, cursor: Option<&str>) -> RequestHead {
        RequestHead {
            road: VERSION,
            method: ask.method.to_owned(),
            target: ask.target.to_owned(),
            accept: ask.accept.to_owned(),
            cursor: cursor.map(str::to_owned),
            instance: Some(self.greeting.instance.clone()),
            asker: None,
            nonce: None,
        }
    }

    /// The first part of the answer.
    fn first(
        &self,
        ask: Ask<'_>,
        cursor: Option<&str>,
        timeout: Duration,
    ) -> Result<(AnswerHead, Vec<u8>), RoadFailure> {
        let bus = self.bus()?;
        let tree = tree(&ask);
        let payload = message::encode(&self.head(ask, cursor), ask.body.unwrap_or_default().as_bytes());
        let most = bus.line.client.max_payload();
        if payload.len() > most {
            let words = format!("the request has {} bytes, and this server carries {most}", payload.len());
            return Err(
                RoadFailure::new(Step::Version, words).hint("shorten it, or ask that machine over ssh")
            );
        }
        let reply = bus.block_on(bus.line.request(tree.request(&self.name), payload, timeout));
        let reply = reply.map_err(|why| match (&why, tree) {
            // It was just heard, so it is there and does not listen to this.
            (Unanswered::NobodyListens, Tree::Act) => {
                RoadFailure::new(Step::Authenticate, "it lets the bus read and not act")
                    .hint("`serve = \"act\"` in `[nats]` of that machine lets it")
            }
            _ => unheard(&why, Step::Program, timeout),
        })?;
        let (head, body) = message::decode_answer(&reply).map_err(|why| garbage(&why))?;
        Ok((head, body.to_vec()))
    }
}

fn tree(ask: &Ask<'_>) -> Tree {
    if ask.only_reads() { Tree::Read } else { Tree::Act }
}

pub(super) fn garbage(why: &str) -> RoadFailure {
    RoadFailure::new(Step::Answer, format!("its answer cannot be read: {why}"))
        .hint("`agentctl doctor` on that machine says more")
}

impl Connection for NatsConnection {
    fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    fn ask(&mut self, ask: Ask<'_>, timeout: Duration) -> Result<Answer, RoadFailure> {
        if !ask.only_reads() && self.heard.elapsed() > FRESH {
            let bus = self.bus()?;
            bus.block_on(hello(&bus.line, &self.name, self.door.settings.timeout))
                .map_err(|failure| RoadFailure { step: failure.step.min(Step::Program), ..failure })?;
        }
        let until = Instant::now() + timeout;
        let (head, mut body) = self.first(ask, None, timeout)?;
        let bus = self.bus()?;
        let rest = rest(&bus.line, tree(&ask), &self.name, &head, &mut body, until);
        bus.block_on(rest)?;
        self.heard = Instant::now();
        Ok(Answer { status: head.status, body })
    }

    fn listen(
        self: Box<Self>,
        target: &str,
        cursor: Option<&str>,
        timeout: Duration,
    ) -> Result<Box<dyn Events>, RoadFailure> {
        let ask = Ask { accept: "text/event-stream", ..Ask::get(target) };
        let (head, body) = self.first(ask, cursor, timeout)?;
        if head.status != 200 {
            let words = format!("it answered {} to a request for events", head.status);
            return Err(RoadFailure::new(Step::Answer, words));
        }
        let parts = Parts::begin(self.door.clone(), self.name.clone(), head.more, body)?;
        let response = http::Response::read(parts).map_err(|error| garbage(&error.to_string()))?;
        Ok(Box::new(NatsEvents { events: response.events(LARGEST_EVENT) }))
    }
}

/// Asks for the further parts of an answer, one after the other.
pub(super) async fn rest(
    line: &Line,
    tree: Tree,
    host: &HostName,
    first: &AnswerHead,
    body: &mut Vec<u8>,
    until: Instant,
) -> Result<(), RoadFailure> {
    let mut more = first.more.clone();
    let mut part = 0;
    while let Some(answer) = more {
        part += 1;
        let left = until.saturating_duration_since(Instant::now());
        let (head, next) =
            one_part(line, tree, host, answer, part, left).await.map_err(|failure| match failure {
                PartFailure::Unanswered(_) => {
                    RoadFailure::new(Step::Answer, "it fell silent in the middle of an answer")
                        .hint("raise `timeout` in `[nats]` if it is only slow")
                }
                PartFailure::Garbage(why) => garbage(&why),
            })?;
        body.extend_from_slice(&next);
        if body.len() > LARGEST_ANSWER {
            return Err(garbage(&format!("an answer of more than {LARGEST_ANSWER} bytes")));
        }
        more = head.more;
    }
    Ok(())
}

enum PartFailure {
    Unanswered(Unanswered),
    Garbage(String),
}

async fn one_part(
    line: &Line,
    tree: Tree,
    host: &HostName,
    answer: String,
    part: u32,
    timeout: Duration,
) -> Result<(AnswerHead, Vec<u8>), PartFailure> {
    let payload = message::encode(&PartHead { road: VERSION, answer, part }, &[]);
    let reply = line.request(tree.part(host), payload, timeout).await.map_err(PartFailure::Unanswered)?;
    let (head, body) = message::decode_answer(&reply).map_err(PartFailure::Garbage)?;
    if head.status != 200 {
        return Err(PartFailure::Garbage("it no longer has the rest of its answer".to_owned()));
    }
    if head.part != part {
        return Err(PartFailure::Garbage("another part than the one that was asked for".to_owned()));
    }
    Ok((head, body.to_vec()))
}

/// The parts of a stream as bytes to read: asked for in the background, so that a reader who does not want to wait loses
/// nothing.
struct Parts {
    // Its runtime drives the task.
    door: Arc<BusDoor>,
    parts: mpsc::Receiver<io::Result<Vec<u8>>>,
    now: Vec<u8>,
    read: usize,
    deadline: Option<Instant>,
    heard: Instant,
}

impl Parts {
    fn begin(
        door: Arc<BusDoor>,
        host: HostName,
        more: Option<String>,
        first: Vec<u8>,
    ) -> Result<Self, RoadFailure> {
        let (sender, parts) = mpsc::channel(PARTS_AHEAD);
        let bus = door.open()?;
        let line = bus.line.clone();
        bus.runtime.spawn(async move {
            let timeout = QUIET + line.settings.timeout;
            let (mut more, mut part) = (more, 0);
            while let Some(answer) = more {
                part += 1;
                let asked = one_part(&line, Tree::Read, &host, answer, part, timeout).await;
                let sent = match asked {
                    Ok((head, body)) => {
                        more = head.more;
                        sender.send(Ok(body)).await
                    }
                    Err(failure) => {
                        more = None;
                        let words = match failure {
                            PartFailure::Unanswered(why) => unheard(&why, Step::Program, timeout).message,
                            PartFailure::Garbage(why) => why,
                        };
                        sender.send(Err(io::Error::new(io::ErrorKind::ConnectionReset, words))).await
                    }
                };
                if sent.is_err() {
                    return;
                }
            }
        });
        // The reader of events expects the head of a response before them.
        let mut now = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        now.extend_from_slice(&first);
        Ok(Self { door, parts, now, read: 0, deadline: None, heard: Instant::now() })
    }
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.now.len() {
            let Ok(bus) = self.door.open() else { return Err(io::ErrorKind::NotConnected.into()) };
            let wait = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let parts = &mut self.parts;
            let next = bus.block_on(async move {
                match wait {
                    None => Ok(parts.recv().await),
                    Some(wait) => tokio::time::timeout(wait, parts.recv()).await,
                }
            });
            match next {
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(None) => return Ok(0),
                Ok(Some(part)) => {
                    self.now = part?;
                    self.read = 0;
                    self.heard = Instant::now();
                }
            }
        }
        let count = buffer.len().min(self.now.len() - self.read);
        buffer[..count].copy_from_slice(&self.now[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}

impl Events for NatsEvents {
    fn next(&mut self, timeout: Option<Duration>) -> io::Result<Option<http::Event>> {
        self.events.stream().deadline = timeout.map(|timeout| Instant::now() + timeout);
        self.events.next_event()
    }

    fn cursor(&self) -> Option<&str> {
        self.events.cursor()
    }

    fn last_heard(&mut self) -> Instant {
        self.events.stream().heard
    }
}
