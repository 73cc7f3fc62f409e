//! Decides which launch records have expired. Pure, except that it reads the directory and the process.

use std::path::Path;
use std::time::Duration;

use agentctl_model::Observed;
use agentctl_process::Kernel;
use jiff::Timestamp;

use super::folder::{LaunchFolder, lock_launches};
use super::ledger::Ledger;
use super::record::{Exit, Record};

/// A record that is to be removed, and why.
#[derive(Debug)]
pub struct Expired {
    pub folder: LaunchFolder,
    pub record: Record,
    pub why: PruneReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PruneReason {
    /// Its process ended longer ago than records are kept.
    Old,
    /// Its runner exited before there was a session.
    Leftover,
    /// The process that wrote it was killed before it was complete.
    HalfMade,
}

impl PruneReason {
    pub fn words(self) -> &'static str {
        match self {
            Self::Old => "ended long ago",
            Self::Leftover => "killed before it had a session",
            Self::HalfMade => "never finished",
        }
    }
}

impl Ledger {
    /// Returns the records that are to be removed, oldest first.
    pub fn expired<'l>(&'l self, retention: &'l Retention<'_>) -> impl Iterator<Item = Expired> + 'l {
        self.entries().iter().filter_map(|(folder, record)| {
            let why = retention.judge(folder, record)?;
            Some(Expired { folder: folder.clone(), record: record.clone(), why })
        })
    }
}

/// What decides whether a record has expired.
pub struct Retention<'a> {
    pub kernel: &'a dyn Kernel,
    pub now: Timestamp,
    pub kept: Duration,
    /// If the exit of a process was not seen, its retention time starts now, and this is written to the record.
    pub note: bool,
    /// Whether there is a session for a launch that was never marked as settled. This is called only if everything else
    /// shows that no process works on the launch.
    pub has_session: &'a dyn Fn(&Record) -> bool,
}

impl Retention<'_> {
    fn judge(&self, folder: &LaunchFolder, record: &Record) -> Option<PruneReason> {
        // A live runner holds its directory; a directory that cannot be locked must not be removed.
        let _free = folder.hold().ok().flatten()?;
        if folder.is_awaited() || is_alive(record, self.kernel) {
            return None;
        }
        if record.session_id.is_none() || folder.failed().is_some() {
            return Some(PruneReason::Leftover);
        }
        if !record.settled && !(self.has_session)(record) {
            return Some(PruneReason::Leftover);
        }
        let Some(exit) = folder.exit() else {
            self.note_gone(folder);
            return None;
        };
        let ended = exit.exited_at.or(exit.found_gone_at)?;
        let age = Duration::try_from(self.now.duration_since(ended)).unwrap_or_default();
        (age > self.kept).then_some(PruneReason::Old)
    }

    fn note_gone(&self, folder: &LaunchFolder) {
        if self.note {
            let gone = Exit {
                exit_code: None,
                exit_signal: None,
                exited_at: None,
                timed_out: false,
                asked: false,
                ended_by: None,
                found_gone_at: Some(self.now),
            };
            // If it cannot be written now, the next pass writes it.
            let _ = folder.write_exit(&gone);
        }
    }
}

/// Whether the process that was started is alive. One that cannot be seen may be alive.
fn is_alive(record: &Record, kernel: &dyn Kernel) -> bool {
    let process = record.process.as_ref().and_then(super::record::ProcessMark::process);
    process.is_some_and(|process| kernel.is_alive(process) != Observed::Seen(false))
}

/// Returns the directories that were never finished because their creator was killed while writing them. They are
/// removed if `remove` is set.
pub fn half_made(launches: &Path, remove: bool) -> Vec<LaunchFolder> {
    // A creator holds its directory before we can see it, so one that can be locked has no creator any more.
    let Ok(_lock) = lock_launches(launches) else { return Vec::new() };
    let folders = agentctl_files::own::entries(launches).into_iter().flatten().flatten();
    let half = folders.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
    let abandoned = half.map(|entry| LaunchFolder::at(entry.path())).filter(|folder| {
        let held = folder.hold().ok().flatten();
        held.is_some() && (!remove || folder.remove().is_ok())
    });
    abandoned.collect()
}
