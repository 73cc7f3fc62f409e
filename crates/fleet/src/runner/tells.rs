//! The end of a launched session, put into the outbox by its runner: so it is told even when no daemon runs.

use std::io;

use agentctl_model::{Status, Surveyed};

use crate::launches::{Exit, LaunchFolder, Record};
use crate::outbox::{Delivery, OutboxFolder, Telling};

/// The type of event that a runner can witness.
pub const KIND: &str = "session.stopped";

/// Where the end of a session is told.
#[derive(Debug, Clone)]
pub struct Tells {
    pub outbox: OutboxFolder,
    /// Where to, if the daemon's own settings might not say it.
    pub url: Option<String>,
}

impl Tells {
    pub(super) fn end(
        &self,
        folder: &LaunchFolder,
        record: &Record,
        seen: Option<&Surveyed>,
        exit: &Exit,
    ) -> io::Result<()> {
        let session = seen.map(|seen| &*seen.session);
        let Some(id) = record.session_id.as_deref() else { return Ok(()) };
        // The process has ended, but somebody else carries the session on.
        if session.is_some_and(|session| !matches!(session.status, Status::Stopped | Status::Unknown)) {
            return Ok(());
        }
        let Some(at) = exit.exited_at else { return Ok(()) };
        let telling = Telling {
            kind: KIND,
            at,
            session_id: Some(id),
            adapter: Some(&record.order.adapter),
            session,
            source: None,
            fuse: None,
            lock: None,
            exit_code: exit.exit_code,
        };
        let delivery = Delivery::new(&record.id, id, self.url.clone(), telling.body());
        self.outbox.prepare()?;
        folder.tell_end(|| self.outbox.put(&delivery, at).map(drop)).map(drop)
    }
}
