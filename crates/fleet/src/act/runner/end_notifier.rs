//! Puts the end of a launched session into the outbox. The runner does this, so that the end is announced even when no
//! daemon runs.

use std::time::Duration;
use std::{fmt, io};

use agentctl_model::{Event, Status, Surveyed};

use crate::Fleet;
use crate::act::launch::look;
use crate::keep::launches::{Exit, LaunchFolder, Record};
use crate::keep::outbox::{Delivery, OutboxFolder, body};

/// How often, and after which pause, a source is read again if it does not say what became of the session.
const ATTEMPTS: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Where the end of a session is announced.
#[derive(Debug)]
pub struct EndNotifier {
    pub outbox: OutboxFolder,
    /// The launcher's own receiver, if the daemon's settings might differ.
    pub own: Option<OwnAddress>,
}

/// A receiver that only the launcher knows, or whose secret only the launcher knows.
pub struct OwnAddress {
    pub url: String,
    pub secret: Option<String>,
}

impl fmt::Debug for OwnAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(hidden)")
    }
}

/// What is known of a session after its process has ended. The runner saw the process exit; only a survey can tell
/// whether the session has another owner.
pub(super) struct After {
    pub(super) session: Option<Surveyed>,
    /// Every source that could hold the session was read.
    complete: bool,
}

impl After {
    /// Surveys the session, again after a pause if a source does not answer at first.
    pub(super) fn survey(fleet: &Fleet, record: &Record) -> Self {
        let once = || {
            let (session, complete) = look(fleet, record, false);
            Self { session, complete }
        };
        let mut after = once();
        for _ in 1..ATTEMPTS {
            if after.is_over().is_some() {
                break;
            }
            std::thread::sleep(PAUSE);
            after = once();
        }
        after
    }

    /// Whether the session is over; `None` if that is not known.
    fn is_over(&self) -> Option<bool> {
        match self.session.as_ref().map(|seen| seen.session.status) {
            Some(Status::Stopped) => Some(true),
            Some(Status::Unknown) => None,
            Some(Status::Running | Status::Waiting | Status::Idle) => Some(false),
            // Nothing is stored, so no other process can continue it.
            None => self.complete.then_some(true),
        }
    }
}

impl EndNotifier {
    /// Announces the end if the session is known to be over. Otherwise the mark stays free, and the daemon announces
    /// the end once it sees the session stopped.
    pub(super) fn end(
        &self,
        folder: &LaunchFolder,
        record: &Record,
        after: &After,
        exit: &Exit,
    ) -> io::Result<()> {
        let session = after.session.as_ref().map(|seen| &*seen.session);
        let Some(id) = record.session_id.as_deref() else { return Ok(()) };
        match after.is_over() {
            Some(true) => {}
            // The process has ended, but the session has another owner.
            Some(false) => return Ok(()),
            None => {
                return Err(io::Error::other("whether the session ended is not known; left to the daemon"));
            }
        }
        let Some(at) = exit.exited_at else { return Ok(()) };
        let event = Event::stopped(&record.order.adapter, id, session);
        let delivery = Delivery::new(&record.id, id, None, body(&event, at, false));
        let delivery = match &self.own {
            Some(own) => delivery.sealed(&own.url, own.secret.as_deref()),
            None => delivery,
        };
        self.outbox.prepare()?;
        folder.tell_end(|| self.outbox.put(&delivery, at).map(drop)).map(drop)
    }
}
