//! The end of a launched session, put into the outbox by its runner: so it is told even when no daemon runs.

use std::time::Duration;
use std::{fmt, io};

use agentctl_model::{Event, Status, Surveyed};

use crate::Fleet;
use crate::act::launch::look;
use crate::keep::launches::{Exit, LaunchFolder, Record};
use crate::keep::outbox::{Delivery, OutboxFolder, body};

/// How often, and after which pause, a source is asked that does not say what became of the session.
const LOOKS: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Where the end of a session is told.
#[derive(Debug)]
pub struct Tells {
    pub outbox: OutboxFolder,
    /// Settings of whoever launched it, where the daemon's own might not say the same.
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

/// What is known of a session whose process has ended. The runner saw the process go; whether nobody else carries the
/// session is for a survey to say.
pub(super) struct After {
    pub(super) session: Option<Surveyed>,
    /// Everything that could hold it was heard.
    heard: bool,
}

impl After {
    /// A source that is away for a moment is asked again before nothing is known.
    pub(super) fn look(fleet: &Fleet, record: &Record) -> Self {
        let once = || {
            let (session, heard) = look(fleet, record, false);
            Self { session, heard }
        };
        let mut after = once();
        for _ in 1..LOOKS {
            if after.is_over().is_some() {
                break;
            }
            std::thread::sleep(PAUSE);
            after = once();
        }
        after
    }

    /// `None` where it is not known.
    fn is_over(&self) -> Option<bool> {
        match self.session.as_ref().map(|seen| seen.session.status) {
            Some(Status::Stopped) => Some(true),
            Some(Status::Unknown) => None,
            Some(Status::Running | Status::Waiting | Status::Idle) => Some(false),
            // Nothing is stored of it, so there is nothing that anybody could carry on.
            None => self.heard.then_some(true),
        }
    }
}

impl Tells {
    /// What is not known is not told: the mark stays free, and the daemon tells of it once it sees the session stopped.
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
            // The process has ended, but somebody else carries the session on.
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
