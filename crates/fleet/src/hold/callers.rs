//! Those who call at a holder's socket: each on its own thread, checked before it is heard.

use std::io::{self, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, channel};
use std::time::Duration;

use agentctl_adapters::hold::{Ticket, Verb};
use agentctl_model::{Observed, ProcessRef};

use super::holder::{Call, Input, Published};
use super::wire::{Ask, Reader, Reply, write_line};
use crate::act::asker::descends;

/// More callers than this at once are hung up on.
const MOST: usize = 64;

/// How long a caller may take to say what it wants, and to take its answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often a caller that watches is checked for having left.
const WATCH_CHECK: Duration = Duration::from_secs(15);

/// What serves the callers of one holder.
pub(super) struct Callers {
    pub(super) inbox: SyncSender<Input>,
    pub(super) published: Arc<Published>,
    /// The agent, whose own children must not answer for a person.
    pub(super) agent: Option<ProcessRef>,
    pub(super) tickets: AtomicU64,
    pub(super) present: AtomicUsize,
}

impl Callers {
    /// Serves until the process ends.
    pub(super) fn serve(self: Arc<Self>, listener: &UnixListener) {
        for stream in listener.incoming() {
            // Out of descriptors: the next caller may have more luck.
            let Ok(stream) = stream else {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            if self.present.fetch_add(1, Ordering::Relaxed) >= MOST {
                self.present.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let callers = self.clone();
            let serve = move || {
                // A caller that hangs up in the middle needs no answer.
                let _ = callers.serve_one(stream);
                callers.present.fetch_sub(1, Ordering::Relaxed);
            };
            if std::thread::Builder::new().name("caller".into()).stack_size(256 << 10).spawn(serve).is_err() {
                self.present.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn serve_one(&self, mut stream: UnixStream) -> io::Result<()> {
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        if peer.uid != rustix::process::geteuid() {
            return Ok(());
        }
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let ask: Ask = Reader::of(&stream)?.line()?;
        let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).unwrap_or_default();
        let is_forbidden = |allow_self: bool| !allow_self && self.descends_from_the_agent(pid);
        let reply = match ask {
            Ask::State => Reply::State(Box::new(self.published.report())),
            Ask::Watch => return self.watch(stream),
            // A session may talk to itself, but not decide for a person.
            Ask::Tell { verb: Verb::Answer { .. } | Verb::Interrupt | Verb::Choose { .. }, allow_self }
            | Ask::End { allow_self }
                if is_forbidden(allow_self) =>
            {
                Reply::Refused("a process of this session may not steer the session itself".into())
            }
            Ask::End { .. } => {
                let _ = self.inbox.send(Input::End);
                Reply::Ending
            }
            Ask::Tell { verb, .. } => {
                let ticket = Ticket(self.tickets.fetch_add(1, Ordering::Relaxed));
                let (reply, answer) = channel();
                let told = self.inbox.send(Input::Call(Call { ticket, verb, reply }));
                let withdrawal = self.notice_withdrawal(&stream, ticket)?;
                let reply = told.ok().and_then(|()| answer.recv().ok());
                drop(withdrawal);
                reply.unwrap_or_else(|| Reply::Lost("the session is ending".into()))
            }
        };
        write_line(&mut stream, &reply)
    }

    /// Writes a line whenever the state may have changed, for as long as the caller listens.
    fn watch(&self, mut stream: UnixStream) -> io::Result<()> {
        let mut seen = None;
        loop {
            if let Some((version, report)) = self.published.changed_since(seen, WATCH_CHECK) {
                seen = Some(version);
                write_line(&mut stream, &Reply::State(Box::new(report)))?;
            }
            stream.set_nonblocking(true)?;
            let has_left = stream.read(&mut [0]).is_ok();
            stream.set_nonblocking(false)?;
            if has_left {
                return Ok(());
            }
        }
    }

    /// Withdraws what the caller asked for, as soon as it says so or hangs up. After its question a caller says nothing
    /// else.
    fn notice_withdrawal(&self, stream: &UnixStream, ticket: Ticket) -> io::Result<Withdrawal> {
        let mut line = stream.try_clone()?;
        line.set_read_timeout(None)?;
        let inbox = self.inbox.clone();
        std::thread::Builder::new().name("withdrawal".into()).stack_size(128 << 10).spawn(move || {
            let _ = line.read(&mut [0]);
            let _ = inbox.send(Input::Withdraw(ticket));
        })?;
        Ok(Withdrawal(stream.try_clone()?))
    }

    /// Whether the agent is this process or among its ancestors. A table that cannot be read says yes: an answer that
    /// nobody allowed is worse than one that must be given again.
    fn descends_from_the_agent(&self, pid: u32) -> bool {
        let Some(agent) = self.agent else { return true };
        match agentctl_process::system().heads() {
            Observed::Seen(heads) => descends(&heads, pid, agent),
            Observed::Unobservable(_) => true,
        }
    }
}

/// Ends the thread that waits for a withdrawal.
struct Withdrawal(UnixStream);

impl Drop for Withdrawal {
    fn drop(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Read);
    }
}
