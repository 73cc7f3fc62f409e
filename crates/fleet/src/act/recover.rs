//! Resumes sessions that went down with the machine, each once.
//!
//! Only one process at a time does this, and it looks at the sessions while it holds the lock. Before a session is
//! resumed, that is noted in `marks.json` together with its last record. Whoever is killed at any moment leaves a state
//! that the next look understands: without a launch record and without a new record of the agent nothing was begun.

use std::num::NonZeroUsize;
use std::time::Duration;

use agentctl_model::{Error, ErrorKind, Session, SessionKey, Surveyed};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Query;
use crate::act::launch::{Launcher, Launching, clean_up};
use crate::keep::fault::reach;
use crate::keep::kernel_lock::KernelLock;
use crate::keep::marks::{Marks, RecoverDeed};
use crate::keep::store::Store;
use crate::read::recover::{Lost, LostSessions, RecoverQuery, is_of};

/// The file whose lock only one process that recovers has.
const LOCK: &str = "recover.lock";

/// A session that was not resumed, and why.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotRecovered {
    pub id: String,
    pub adapter: String,
    pub error: String,
    #[serde(skip)]
    pub kind: ErrorKind,
}

/// What `recover --yes --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recovered {
    /// What the sessions were told.
    pub message: String,
    /// The sessions that were resumed, as they were when their turn was seen.
    pub sessions: Vec<Session>,
    pub failed: Vec<NotRecovered>,
}

/// What `recover --dismiss --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dismissed {
    pub dismissed: Vec<DismissedSession>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DismissedSession {
    pub id: String,
    pub adapter: String,
}

/// The right to recover, as long as it lives.
pub struct Recoverer<'l> {
    launcher: &'l Launcher,
    marks: Marks,
    _alone: KernelLock,
}

impl<'l> Recoverer<'l> {
    /// Takes the right to recover; refuses if another process has it.
    pub fn of(launcher: &'l Launcher, now: Timestamp) -> Result<Self, Error> {
        launcher.make_ready(now)?;
        let home = &launcher.caller.home;
        let path = home.join(LOCK);
        let alone = KernelLock::on_file(&path, Duration::ZERO)
            .map_err(|error| Error::failed(format!("{}: {error}", path.display())))?;
        let alone = alone.ok_or_else(|| {
            Error::refused("another `agentctl recover` is at work").hint("try again when it has ended")
        })?;
        Ok(Self { launcher, marks: Marks::of(Store::at(home)), _alone: alone })
    }

    /// Returns what can be recovered now.
    pub fn lost(&self, query: &RecoverQuery) -> Result<LostSessions, Error> {
        self.launcher.fleet.lost(query, &self.marks)
    }

    /// Puts a session away; it is not offered again.
    pub fn dismiss(&self, lost: &Lost, now: Timestamp) -> Result<DismissedSession, Error> {
        let boot = self.launcher.fleet.kernel().boot();
        self.marks.note_recovery(&lost.surveyed, RecoverDeed::Dismiss, boot, now)?;
        let SessionKey { id, adapter, .. } = lost.surveyed.key.clone();
        Ok(DismissedSession { id, adapter })
    }

    /// Resumes these sessions with the message, at most `jobs` of them starting at once. One that fails does not keep
    /// the others. Those that have not begun are left alone once `cancelled` returns true.
    pub fn resume(
        &self,
        lost: Vec<Lost>,
        message: &str,
        jobs: NonZeroUsize,
        now: impl Fn() -> Timestamp,
        cancelled: impl Fn() -> bool,
    ) -> Recovered {
        let (mut waiting, mut starting) = (lost.into_iter(), Vec::<(Lost, Launching)>::new());
        let mut done = Recovered { message: message.to_owned(), sessions: Vec::new(), failed: Vec::new() };
        loop {
            while starting.len() < jobs.get() && !cancelled() {
                let Some(lost) = waiting.next() else { break };
                match self.begin(&lost, message, now()) {
                    Ok(launching) => starting.push((lost, launching)),
                    Err(error) => done.failed.push(not_recovered(&lost, error)),
                }
            }
            if starting.is_empty() {
                break;
            }
            let mut going_on = Vec::new();
            for (lost, mut launching) in starting {
                if cancelled() {
                    launching.cancel();
                }
                match launching.outcome(&self.launcher.fleet) {
                    None => going_on.push((lost, launching)),
                    Some(Ok(surveyed)) => done.sessions.push(*surveyed.session),
                    Some(Err(error)) => done.failed.push(not_recovered(&lost, error)),
                }
            }
            starting = going_on;
            Launching::rest(starting.iter().map(|(_, launching)| launching));
        }
        done.failed.extend(waiting.map(|lost| {
            let error =
                Error::new(ErrorKind::Interrupted, "it was not begun, because the command was interrupted");
            not_recovered(&lost, error)
        }));
        done
    }

    fn begin(&self, lost: &Lost, message: &str, now: Timestamp) -> Result<Launching, Error> {
        let Launcher { fleet, caller, .. } = self.launcher;
        let (key, boot) = (&lost.surveyed.key, fleet.kernel().boot());
        // What a killed runner left may still be about to start; it is ended before anything else begins.
        let ledger = fleet.ledger();
        let left = ledger.entries().iter().filter(|(folder, record)| {
            is_of(record, key) && record.process.is_none() && !folder.is_held() && !folder.is_awaited()
        });
        left.for_each(|(folder, record)| clean_up(fleet, folder, record));
        let found = self.again(&lost.surveyed)?;
        let order = fleet.resume_order(&found, &lost.request(), &caller.programs)?;
        self.marks.note_recovery(&found, RecoverDeed::Resume, boot, now)?;
        reach("recover.noted");
        let launching = fleet.launch(order, message, caller, now)?;
        reach("recover.launched");
        Ok(launching)
    }

    /// The session as it is at this moment: somebody may have taken it up since the others were looked at.
    fn again(&self, lost: &Surveyed) -> Result<Surveyed, Error> {
        let survey = self.launcher.fleet.survey(&Query { subagents: false, ..Query::one(&lost.key) });
        let found = survey.sessions.into_iter().find(|found| found.key == lost.key);
        let found = found.ok_or_else(|| Error::failed("its records could not be read again"))?;
        if found.session.updated_at != lost.session.updated_at {
            return Err(Error::refused("somebody has taken it up meanwhile"));
        }
        Ok(found)
    }
}

fn not_recovered(lost: &Lost, error: Error) -> NotRecovered {
    let SessionKey { id, adapter, .. } = lost.surveyed.key.clone();
    let hint = error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
    NotRecovered { id, adapter, error: format!("{}{hint}", error.message), kind: error.kind }
}
