//! Private servers that go on without the runner that started them.
//!
//! Such a server keeps its session, and everybody can still speak with it. But nobody minds its idle timeout any more, so
//! whoever looks after the machine does: the daemon, and `prune`.

use std::time::Duration;

use agentctl_model::way::Place;
use agentctl_model::{Observed, ProcessEntry, ProcessRef, ProcessRole, Status, Surveyed};
use jiff::{SignedDuration, Timestamp};

use crate::Fleet;
use crate::act::asker::Asker;
use crate::act::caller::Caller;
use crate::act::launch::{end_family, glance};
use crate::act::stop::StopOptions;
use crate::act::stop::termination::entry;
use crate::hold::Limits;
use crate::keep::launches::{Exit, LaunchFolder, ProcessMark, Record};

/// How long such a server may take to end cleanly.
const GRACE: Duration = Duration::from_secs(10);

/// A private server whose runner is gone.
#[derive(Debug, Clone)]
pub struct Unattended {
    pub process: ProcessRef,
    pub entry: ProcessEntry,
    pub record: Record,
    /// `None` if no session of the server is found.
    pub session: Option<Surveyed>,
    /// When its idle timeout is over, if nothing happens until then.
    pub ends_at: Option<Timestamp>,
    folder: LaunchFolder,
}

/// A server that was ended because its idle timeout was over, or would be.
#[derive(Debug, Clone)]
pub struct EndedServer {
    pub server: Unattended,
    /// Why it is still there; `None` if it ended.
    pub error: Option<String>,
}

impl Unattended {
    /// When to look at it again, for whoever minds its idle timeout: nobody announces the end of its turn.
    pub fn look_at(&self, now: Timestamp) -> Option<Timestamp> {
        const WHILE_IT_WORKS: SignedDuration = SignedDuration::from_secs(5);
        let limit = self.record.order.idle_timeout_ms?;
        let soon = now.checked_add(
            WHILE_IT_WORKS.min(SignedDuration::from_millis(limit.try_into().unwrap_or(i64::MAX))),
        );
        self.ends_at.or(soon.ok())
    }
}

impl EndedServer {
    pub fn describe(&self) -> String {
        let Unattended { process, record, .. } = &self.server;
        let by = Limits::of(&record.order).idle_end().limit.unwrap_or_default();
        let what = format!("{} server {} of launch {}", record.order.adapter, process.pid, record.id);
        match &self.error {
            None => format!("{what} had no runner and nobody talked to it: ended ({by})"),
            Some(error) => format!("{what} has no runner and nobody talked to it ({by}): not ended: {error}"),
        }
    }
}

impl Fleet {
    /// Returns every private server that lives and has no runner.
    pub fn unattended(&self) -> Vec<Unattended> {
        let ledger = self.ledger();
        let served = ledger.entries().iter().filter(|(_, record)| is_private(record));
        let alone: Vec<(&LaunchFolder, &Record, ProcessRef)> = served
            .filter_map(|(folder, record)| Some((folder, record, self.alone(folder, record)?)))
            .collect();
        if alone.is_empty() {
            return Vec::new();
        }
        let Observed::Seen(heads) = self.kernel.heads() else { return Vec::new() };
        let found = alone.into_iter().filter_map(|(folder, record, process)| {
            let head = heads.iter().find(|head| head.process == process)?;
            // Only the session that this very process carries is its own: its thread may be open elsewhere now.
            let carries = |session: &Surveyed| session.owners.iter().any(|owner| owner.process == process);
            let session = glance(self, record).filter(carries);
            let ends_at = session.as_ref().and_then(|session| ends_at(session, Limits::of(&record.order)));
            let entry = entry(head, ProcessRole::Server);
            Some(Unattended {
                process,
                entry,
                record: record.clone(),
                session,
                ends_at,
                folder: folder.clone(),
            })
        });
        found.collect()
    }

    /// Ends every one of them whose idle timeout is over, unless this is a dry run.
    pub fn end_unattended(&self, now: Timestamp, caller: &Caller, dry_run: bool) -> Vec<EndedServer> {
        let due = self.unattended().into_iter().filter(|server| server.ends_at.is_some_and(|at| at <= now));
        due.map(|server| {
            let error = if dry_run { None } else { self.end_one(&server, now, caller).err() };
            EndedServer { server, error }
        })
        .collect()
    }

    fn end_one(&self, server: &Unattended, now: Timestamp, caller: &Caller) -> Result<(), String> {
        // From here on no runner and no other cleaner touches the folder.
        let held = server.folder.hold().map_err(|error| error.to_string())?;
        let Some(_held) = held else { return Err("another process looks after it".to_owned()) };
        let by = Limits::of(&server.record.order).idle_end();
        let options = StopOptions { grace: GRACE, force: false, asker: Asker::default() };
        let Some(session) = &server.session else { return Err("its session is not found".to_owned()) };
        self.terminate(&by, session, caller, options).map_err(|error| error.message)?;
        end_family(self, &server.record);
        if self.kernel.is_alive(server.process) != Observed::Seen(false) {
            return Err("it survived".to_owned());
        }
        let exit = Exit {
            exit_code: None,
            exit_signal: None,
            exited_at: Some(now),
            timed_out: false,
            asked: true,
            ended_by: Some(by),
            found_gone_at: None,
        };
        server.folder.write_exit(&exit).map_err(|error| error.to_string())
    }

    /// The process of this launch, if it lives and nobody attends to it.
    fn alone(&self, folder: &LaunchFolder, record: &Record) -> Option<ProcessRef> {
        let process = record.process.as_ref().and_then(ProcessMark::process)?;
        let lives = self.kernel.is_alive(process) == Observed::Seen(true);
        // A runner holds its folder for its whole life.
        let is_alone = || !folder.is_awaited() && matches!(folder.hold(), Ok(Some(_)));
        (lives && is_alone()).then_some(process)
    }
}

/// Whether this launch started a server of the agent for its session alone.
fn is_private(record: &Record) -> bool {
    let card = || {
        let cards = agentctl_adapters::registry().into_iter().map(agentctl_adapters::Adapter::card);
        cards.into_iter().find(|card| card.name == record.order.adapter)
    };
    record.order.hold
        && card().is_some_and(|card| card.ways.iter().any(|way| way.place == Place::PrivateServer))
}

/// When nobody will have talked to this session for too long. It never is while the session works or waits, nor when it
/// is not known since when it rests.
fn ends_at(session: &Surveyed, limits: Limits) -> Option<Timestamp> {
    let session = &session.session;
    let rests = session.status == Status::Idle && session.pending.is_empty();
    let since = session.since.or(session.updated_at).filter(|_| rests)?;
    since.checked_add(SignedDuration::try_from(limits.idle?).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use agentctl_model::{Pending, PendingKind};
    use agentctl_testkit::sessions::{session, surveyed};

    use super::*;

    #[test]
    fn only_a_session_that_rests_runs_out_of_time() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let limits = Limits { turn: None, idle: Some(Duration::from_mins(1)) };
        let ends = |status, pending, since, updated_at, limits| {
            let mut one = surveyed(session("s", status, None));
            (one.session.pending, one.session.since, one.session.updated_at) = (pending, since, updated_at);
            ends_at(&one, limits)
        };
        assert_eq!(ends(Status::Idle, vec![], Some(at(100)), Some(at(120)), limits), Some(at(160)));
        assert_eq!(ends(Status::Idle, vec![], None, Some(at(120)), limits), Some(at(180)));
        assert_eq!(ends(Status::Idle, vec![], None, None, limits), None, "nobody knows since when");
        assert_eq!(ends(Status::Idle, vec![], Some(at(100)), None, Limits::default()), None, "no limit");
        let request = Pending::new(PendingKind::Question, None, None);
        assert_eq!(ends(Status::Idle, vec![request], Some(at(100)), None, limits), None, "it asks");
        for busy in [Status::Running, Status::Waiting, Status::Unknown, Status::Stopped] {
            assert_eq!(ends(busy, vec![], Some(at(100)), None, limits), None, "{busy:?}");
        }
    }
}
