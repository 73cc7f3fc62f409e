//! Keeps a session in its agent's private server: begins it, stays connected so that the server does not unload it, and
//! minds its time limits.
//!
//! Nobody speaks through the keeper. Commands ask the server itself, and go on doing so when this runner is gone.

use std::io;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use agentctl_adapters::hold::{HeldState, PrivateServer, Said, TurnEnd};
use agentctl_model::ProcessRef;
use agentctl_process::wait_gone;

use super::holder::{Holder, Limits, Published, now};
use super::wire::Report;
use crate::keep::launches::LaunchFolder;

/// How long to pause before the server is tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// How long to listen at once.
const LISTEN: Duration = Duration::from_secs(30);

/// As much of the server's output as can name its address.
const OUTPUT: u64 = 16 << 10;

/// Begins the session with the first words and keeps it. `agent` is the server.
pub(crate) fn keep(
    (server, first): (Box<dyn PrivateServer>, String),
    folder: &LaunchFolder,
    agent: ProcessRef,
    limits: Limits,
) -> io::Result<Holder> {
    let state = HeldState {
        session: None,
        turn_open: false,
        last_end: None,
        pending: Vec::new(),
        queued: 0,
        lost: None,
    };
    let report = Report::of(state, false);
    let published = Arc::new(Published::of(report));
    let (holder, folder) = (Holder::of(published.clone()), folder.clone());
    let keeper = Keeper { server, folder, agent, limits, published, turn_since: None, idle_since: None };
    Builder::new().name("keeper".into()).spawn(move || keeper.run(&first))?;
    Ok(holder)
}

struct Keeper {
    server: Box<dyn PrivateServer>,
    folder: LaunchFolder,
    agent: ProcessRef,
    limits: Limits,
    published: Arc<Published>,
    /// Since when a turn is open that was not interrupted for its length.
    turn_since: Option<Instant>,
    /// Since when no turn is open; `None` before the first one and while one is.
    idle_since: Option<Instant>,
}

impl Keeper {
    fn run(mut self, first: &str) {
        if !self.connect() {
            return;
        }
        let begun = self.server.join().and_then(|session| {
            self.publish(|report| report.state.session = Some(session));
            self.server.say(first)
        });
        if let Err(error) = begun {
            self.publish(|report| report.first_refused = Some(error.message));
            return;
        }
        loop {
            match self.server.hear(self.patience()) {
                Ok(Some(said)) => self.take(said),
                Ok(None) => {}
                // The session goes on without us, and is unloaded only after a while.
                Err(_) => {
                    while !(self.connect() && self.server.join().is_ok()) {
                        if wait_gone(self.agent, PAUSE) {
                            return;
                        }
                    }
                }
            }
            self.mind_the_limits();
        }
    }

    /// Tries until the server listens. Returns false if it ended.
    fn connect(&mut self) -> bool {
        while self.server.connect(&self.folder.output("stdout", OUTPUT)).is_err() {
            if wait_gone(self.agent, PAUSE) {
                return false;
            }
        }
        true
    }

    fn patience(&self) -> Duration {
        let end = |limit: Option<Duration>, since: Option<Instant>| Some(since? + limit?);
        // At most one of the two is there: a turn is open or not.
        let end = end(self.limits.turn, self.turn_since).or(end(self.limits.idle, self.idle_since));
        end.map_or(LISTEN, |end| end.saturating_duration_since(Instant::now()).min(LISTEN))
    }

    fn take(&mut self, said: Said) {
        let was_open = self.published.report().state.turn_open;
        match said {
            Said::TurnOpened if !was_open => {
                (self.turn_since, self.idle_since) = (Some(Instant::now()), None);
                self.publish(|report| {
                    report.state.turn_open = true;
                    report.since = Some(now());
                });
            }
            // The prompt was taken, and no turn came of it.
            Said::TurnEnded(TurnEnd::Failed { words }) if self.is_unheard() => {
                self.publish(|report| report.first_refused = Some(words));
            }
            Said::TurnEnded(end) => {
                self.turn_since = None;
                self.idle_since.get_or_insert_with(Instant::now);
                self.publish(|report| {
                    report.state.turn_open = false;
                    report.state.last_end = Some(end);
                    report.since = Some(now());
                });
            }
            _ => {}
        }
    }

    /// No turn has begun yet.
    fn is_unheard(&self) -> bool {
        self.turn_since.is_none() && self.idle_since.is_none() && self.published.report().since.is_none()
    }

    fn mind_the_limits(&mut self) {
        let is_up = |limit: Option<Duration>, since: Option<Instant>| {
            limit.zip(since).is_some_and(|(limit, since)| since.elapsed() >= limit)
        };
        if is_up(self.limits.turn, self.turn_since) {
            self.turn_since = None;
            // A turn that cannot be interrupted is seen to go on.
            let _ = self.server.interrupt();
        }
        if is_up(self.limits.idle, self.idle_since) {
            // The runner ends the server, which nobody else may.
            self.idle_since = None;
            self.published.end();
        }
    }

    fn publish(&self, change: impl FnOnce(&mut Report)) {
        let mut report = self.published.report();
        change(&mut report);
        self.published.set(report);
    }
}
