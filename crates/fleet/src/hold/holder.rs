//! The holder: drives one agent's protocol over its pipes and answers those who ask.
//!
//! One thread owns the protocol, so everything that the agent says and everything that callers want has one order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use agentctl_adapters::hold::{Protocol, Said, Step, Ticket, Verb};
use agentctl_model::{EndedBy, ProcessRef};
use jiff::{SignedDuration, Timestamp};

use super::callers::Callers;
use super::wire::{self, Reply, Report};
use crate::keep::launches::{LaunchFolder, LaunchOrder};

/// What the reader of the agent's output takes at once.
pub(super) const CHUNK: usize = 64 << 10;

/// More than this is never waiting to be parsed; then whoever has more waits.
pub(super) const MOST_INPUTS: usize = 64;

/// An agent that leaves more than this unread is no longer spoken with.
const LARGEST_BACKLOG: usize = if cfg!(test) { 256 << 10 } else { 256 << 20 };

/// How long an interrupted turn may take to end before the line is closed all the same.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(3);

/// The ticket of the first words. Those of callers begin behind it.
const FIRST: Ticket = Ticket(0);

/// The two ends of the line that belong to us.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) to_agent: File,
    pub(crate) from_agent: File,
}

impl Pipes {
    /// Makes the line and gives the child its ends in place of these files.
    pub(crate) fn for_child(stdin: &mut Option<File>, stdout: &mut File) -> io::Result<Self> {
        let cloexec = rustix::pipe::PipeFlags::CLOEXEC;
        let (childs_input, to_agent) = rustix::pipe::pipe_with(cloexec)?;
        let (from_agent, childs_output) = rustix::pipe::pipe_with(cloexec)?;
        (*stdin, *stdout) = (Some(childs_input.into()), childs_output.into());
        Ok(Self { to_agent: to_agent.into(), from_agent: from_agent.into() })
    }
}

/// How long a held session may take.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// A turn that takes longer is interrupted.
    pub(crate) turn: Option<Duration>,
    /// A session to which nobody talked for so long after its last turn is ended.
    pub(crate) idle: Option<Duration>,
}

impl Limits {
    /// The limits that a launch was given.
    pub(crate) fn of(order: &LaunchOrder) -> Self {
        let time = |ms: Option<u64>| ms.map(Duration::from_millis);
        Self { turn: time(order.timeout_ms), idle: time(order.idle_timeout_ms) }
    }

    /// Why a session ends to which nobody talked.
    pub(crate) fn idle_end(self) -> EndedBy {
        let length = self.idle.and_then(|limit| SignedDuration::try_from(limit).ok());
        EndedBy::timeout(length.map(|length| format!("--idle-timeout {length:#}")))
    }
}

/// What reaches the thread that owns the protocol.
pub(super) enum Input {
    Heard(Vec<u8>),
    /// The agent closed its end.
    Closed,
    Call(Call),
    Withdraw(Ticket),
    End,
}

/// One caller that waits for the agent.
pub(super) struct Call {
    pub(super) ticket: Ticket,
    pub(super) verb: Verb,
    pub(super) reply: Sender<Reply>,
}

/// What can be asked of the holder at any moment.
pub(super) struct Published {
    now: Mutex<(u64, Report)>,
    changed: Condvar,
    /// Nobody talked to the session for too long, and only its runner can end it.
    is_over: AtomicBool,
}

impl Published {
    pub(super) fn of(report: Report) -> Self {
        Self { now: Mutex::new((0, report)), changed: Condvar::new(), is_over: AtomicBool::new(false) }
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Report)> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn report(&self) -> Report {
        self.lock().1.clone()
    }

    /// Waits at most this long for another state than the one of this version.
    pub(super) fn changed_since(&self, seen: Option<u64>, timeout: Duration) -> Option<(u64, Report)> {
        let wait = self.changed.wait_timeout_while(self.lock(), timeout, |now| seen == Some(now.0));
        let (now, waited) = wait.unwrap_or_else(PoisonError::into_inner);
        (!waited.timed_out()).then(|| now.clone())
    }

    pub(super) fn set(&self, report: Report) {
        let mut now = self.lock();
        if now.1 != report {
            *now = (now.0 + 1, report);
            self.changed.notify_all();
        }
    }
}

/// A held session, as its runner sees it.
pub(crate) struct Holder {
    published: Arc<Published>,
}

impl Holder {
    /// Opens the line, says the first words and serves the socket in the launch folder. `agent` is the process at the other
    /// end.
    pub(crate) fn start(
        (protocol, first): (Box<dyn Protocol>, String),
        pipes: Pipes,
        folder: &LaunchFolder,
        agent: Option<ProcessRef>,
        limits: Limits,
    ) -> io::Result<Self> {
        let (inbox, inputs) = sync_channel(MOST_INPUTS);
        let published = Arc::new(Published::of(Report::of(protocol.state(), protocol.takes_reasons())));
        let listener = wire::listen(folder.path())?;
        let callers = Arc::new(Callers {
            inbox: inbox.clone(),
            published: published.clone(),
            agent,
            tickets: AtomicU64::new(1),
            present: AtomicUsize::new(0),
        });
        let (writes, frames) = channel();
        let backlog = Arc::new(AtomicUsize::new(0));
        let unread = backlog.clone();
        let (to_agent, from_agent, heard) = (pipes.to_agent, pipes.from_agent, inbox.clone());
        let line = Line {
            protocol,
            writes: Some(writes),
            backlog,
            given_up: None,
            waiting: BTreeMap::new(),
            own_tickets: u64::MAX,
            first_refused: None,
            first_taken: false,
            asked_at: BTreeMap::new(),
            since: None,
            limits,
            turn_since: None,
            idle_since: None,
            folder: folder.clone(),
            published: published.clone(),
        };
        let thread = |name: &str| Builder::new().name(name.into()).stack_size(512 << 10);
        thread("reader").spawn(move || read(from_agent, &heard))?;
        thread("writer").spawn(move || write(to_agent, &frames, &unread))?;
        thread("line").spawn(move || line.run(first, &inputs))?;
        thread("callers").spawn(move || callers.serve(&listener))?;
        Ok(Self { published })
    }

    pub(super) fn of(published: Arc<Published>) -> Self {
        Self { published }
    }

    pub(crate) fn report(&self) -> Report {
        self.published.report()
    }

    /// Whether the agent has said that a turn began, or even that one ended.
    pub(crate) fn has_heard_turn(&self) -> bool {
        let report = self.published.report();
        report.state.turn_open || report.state.last_end.is_some() || !report.state.pending.is_empty()
    }

    /// Whether the idle time is up and the runner must end the process.
    pub(crate) fn is_over(&self) -> bool {
        self.published.is_over.load(Ordering::Acquire)
    }
}

/// Passes on what the agent writes, no faster than it is parsed.
pub(super) fn read(mut from_agent: File, heard: &SyncSender<Input>) {
    let mut chunk = vec![0; CHUNK];
    loop {
        match from_agent.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => {
                if heard.send(Input::Heard(chunk[..count].to_vec())).is_err() {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let _ = heard.send(Input::Closed);
}

/// Writes to the agent. An agent that does not read blocks this thread and nobody else. The pipe is closed when nobody
/// can write any more.
fn write(mut to_agent: File, frames: &Receiver<Vec<u8>>, unread: &AtomicUsize) {
    for frame in frames {
        if to_agent.write_all(&frame).is_err() {
            break;
        }
        unread.fetch_sub(frame.len(), Ordering::Relaxed);
    }
}

/// What the one thread owns that speaks the protocol.
struct Line {
    protocol: Box<dyn Protocol>,
    /// `None` once the line to the agent is closed.
    writes: Option<Sender<Vec<u8>>>,
    /// How many bytes the agent has not read yet.
    backlog: Arc<AtomicUsize>,
    /// Why the agent is no longer spoken with, although it lives.
    given_up: Option<String>,
    waiting: BTreeMap<Ticket, Sender<Reply>>,
    /// Counts down, so that our own tickets never meet those of callers.
    own_tickets: u64,
    /// Why the agent did not take the first words.
    first_refused: Option<String>,
    first_taken: bool,
    asked_at: BTreeMap<String, Timestamp>,
    since: Option<Timestamp>,
    limits: Limits,
    /// Since when a turn is open that was not interrupted for its length.
    turn_since: Option<Instant>,
    /// Since when no turn is open; `None` before the first one and while one is.
    idle_since: Option<Instant>,
    folder: LaunchFolder,
    published: Arc<Published>,
}

impl Line {
    fn run(mut self, first: String, inputs: &Receiver<Input>) {
        let step = self.protocol.open();
        self.apply(step);
        let step = self.protocol.tell(FIRST, Verb::Send { words: first, as_command: false });
        self.apply(step);
        // When the line is closed in any case, after it was asked to end.
        let mut closes_at: Option<Instant> = None;
        loop {
            let turn_end = self.limits.turn.and_then(|limit| Some(self.turn_since? + limit));
            let idle_end = self.limits.idle.and_then(|limit| Some(self.idle_since? + limit));
            // At most one of the two is there: a turn is open or not.
            let input = match closes_at.or(turn_end).or(idle_end) {
                Some(at) => inputs.recv_timeout(at.saturating_duration_since(Instant::now())),
                None => inputs.recv().map_err(RecvTimeoutError::from),
            };
            match input {
                Ok(Input::Heard(bytes)) => {
                    let step = self.protocol.hear(&bytes);
                    self.apply(step);
                }
                // What is asked now can no longer be written.
                Ok(Input::Call(call)) if self.writes.is_none() => {
                    let why = self.given_up.as_deref().unwrap_or("the session is ending");
                    let _ = call.reply.send(Reply::Lost(why.to_owned()));
                }
                Ok(Input::Call(call)) => {
                    self.waiting.insert(call.ticket, call.reply);
                    let step = self.protocol.tell(call.ticket, call.verb);
                    self.apply(step);
                }
                Ok(Input::Withdraw(ticket)) => self.withdraw(ticket),
                Ok(Input::End) if closes_at.is_none() => {
                    if self.protocol.state().turn_open {
                        self.interrupt();
                    }
                    closes_at = Some(Instant::now() + INTERRUPT_TIMEOUT);
                }
                Ok(Input::End) => {}
                Ok(Input::Closed) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if closes_at.is_some() => self.close(),
                Err(RecvTimeoutError::Timeout) if self.turn_since.is_some() => self.interrupt(),
                Err(RecvTimeoutError::Timeout) => {
                    self.note_idle_end();
                    self.close();
                }
            }
            if closes_at.is_some() && !self.protocol.state().turn_open {
                self.close();
            }
            if self.writes.is_none() {
                (closes_at, self.limits) = (None, Limits::default());
            }
        }
        self.writes = None;
        for (_, waiting) in std::mem::take(&mut self.waiting) {
            let _ = waiting.send(Reply::Lost("the agent ended before it answered".into()));
        }
    }

    /// Interrupts the open turn on behalf of nobody who waits for it.
    fn interrupt(&mut self) {
        self.turn_since = None;
        self.own_tickets -= 1;
        let step = self.protocol.tell(Ticket(self.own_tickets), Verb::Interrupt);
        self.apply(step);
    }

    /// Writes down why the session is about to end, for the process that sees the exit.
    fn note_idle_end(&self) {
        let _ = self.folder.ask_to_end(&self.limits.idle_end());
    }

    /// Says goodbye and closes the pipe; the agent then exits.
    fn close(&mut self) {
        let goodbye = self.protocol.close();
        if let Some(writes) = self.writes.take().filter(|_| !goodbye.is_empty()) {
            let _ = writes.send(goodbye);
        }
    }

    fn withdraw(&mut self, ticket: Ticket) {
        let was_here = self.protocol.withdraw(ticket);
        self.publish();
        // Nobody waits any more once the agent has answered.
        self.reply(if was_here {
            (ticket, Reply::Withdrawn)
        } else {
            (ticket, Reply::Lost("the agent has it and has not said whether it takes it".into()))
        });
    }

    /// Carries out a step. What is published is never older than what a caller was told.
    fn apply(&mut self, step: Step) {
        if let Some(writes) = self.writes.as_ref().filter(|_| !step.write.is_empty()) {
            let unread = self.backlog.fetch_add(step.write.len(), Ordering::Relaxed);
            if unread > LARGEST_BACKLOG {
                self.writes = None;
                self.given_up = Some("the agent does not read what it is told".to_owned());
            } else {
                let _ = writes.send(step.write);
            }
        }
        let mut replies = Vec::new();
        for said in step.said {
            match said {
                // Whoever asks next for the session that the agent has now must find its runner by it.
                Said::Ready { session } => drop(self.folder.follow_session(&session)),
                Said::TurnOpened => {
                    (self.since, self.turn_since, self.idle_since) =
                        (Some(now()), Some(Instant::now()), None);
                }
                Said::TurnEnded(_) => {
                    (self.since, self.turn_since, self.idle_since) =
                        (Some(now()), None, Some(Instant::now()));
                }
                Said::Asked(request) => drop(self.asked_at.insert(request.id, now())),
                Said::Gone { request } => drop(self.asked_at.remove(&request)),
                Said::Accepted { ticket: FIRST, .. } => self.first_taken = true,
                Said::Accepted { ticket, how } => replies.push((ticket, Reply::Accepted(how))),
                Said::Refused { ticket: FIRST, reason } => self.first_refused = Some(reason),
                Said::Refused { ticket, reason } => replies.push((ticket, Reply::Refused(reason))),
                Said::Lost { why } => {
                    replies.extend(self.waiting.keys().map(|ticket| (*ticket, Reply::Lost(why.clone()))));
                }
            }
        }
        self.publish();
        for reply in replies {
            self.reply(reply);
        }
        if let Some(why) = &self.given_up {
            for (_, waiting) in std::mem::take(&mut self.waiting) {
                let _ = waiting.send(Reply::Lost(why.clone()));
            }
        }
    }

    fn publish(&self) {
        let mut state = self.protocol.state();
        state.lost = state.lost.or_else(|| self.given_up.clone());
        let asked_at =
            state.pending.iter().filter_map(|request| self.asked_at.get(&request.id).copied()).collect();
        let takes_reasons = self.protocol.takes_reasons();
        self.published.set(Report {
            state,
            asked_at,
            since: self.since,
            takes_reasons,
            first_refused: self.first_refused.clone(),
            first_taken: self.first_taken,
            about: self.protocol.about().cloned(),
        });
    }

    fn reply(&mut self, (ticket, reply): (Ticket, Reply)) {
        if let Some(waiting) = self.waiting.remove(&ticket) {
            // A caller that has left needs no answer.
            let _ = waiting.send(reply);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "when the agent said it is known to nobody else")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}
