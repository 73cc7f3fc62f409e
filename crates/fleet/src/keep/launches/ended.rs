//! Determines which launched sessions have lost their process, and how it ended. It reads what runners wrote and asks
//! the kernel; it derives no status.

use std::collections::{HashMap, HashSet};

use agentctl_model::{EndedLaunch, Found, LaunchExit, Observed, ProcessHead, SeenExit};
use agentctl_process::Kernel;

use super::folder::LaunchFolder;
use super::ledger::Ledger;
use super::record::{Exit, ProcessMark, Record};

impl Ledger {
    /// Returns those of the found sessions whose newest launch is over. `living` are the processes of the snapshot with
    /// which the sessions are joined.
    pub(crate) fn ended(
        &self,
        adapter: &str,
        root: &str,
        found: &[Found],
        living: Option<&[ProcessHead]>,
        kernel: &dyn Kernel,
    ) -> Vec<EndedLaunch> {
        let ended = |folder: &LaunchFolder, record: &Record| match folder.exit() {
            Some(exit) => Some(exit.known()),
            None => is_gone(record, living, kernel).then(|| unwritten(folder)),
        };
        self.newest_launches(adapter, root, found, ended)
    }

    /// Returns what is known of the exits of the found sessions, for the case that they have no owner. If a runner is
    /// alive and has not written an exit, the exit is not written yet, whatever the process table shows: a process that
    /// is just ending owns nothing any more, though the kernel may still list it.
    pub(crate) fn exits(
        &self,
        adapter: &str,
        root: &str,
        found: &[Found],
        living: Option<&[ProcessHead]>,
        kernel: &dyn Kernel,
    ) -> Vec<EndedLaunch> {
        let exit = |folder: &LaunchFolder, record: &Record| match folder.exit() {
            Some(exit) => Some(exit.known()),
            None => match unwritten(folder) {
                LaunchExit::Unseen => is_gone(record, living, kernel).then_some(LaunchExit::Unseen),
                exit => Some(exit),
            },
        };
        self.newest_launches(adapter, root, found, exit)
    }

    /// An id that occurs twice is left out, because the record does not say which of the two it means.
    fn newest_launches(
        &self,
        adapter: &str,
        root: &str,
        found: &[Found],
        exit: impl Fn(&LaunchFolder, &Record) -> Option<LaunchExit>,
    ) -> Vec<EndedLaunch> {
        let newest: HashMap<&str, &(LaunchFolder, Record)> = self.newest_of(adapter, root).collect();
        if newest.is_empty() {
            return Vec::new();
        }
        let (mut stored, mut twice) = (HashSet::new(), HashSet::new());
        for id in found.iter().map(|found| found.id.as_str()).filter(|id| newest.contains_key(id)) {
            if !stored.insert(id) {
                twice.insert(id);
            }
        }
        let known = stored.difference(&twice).filter_map(|id| {
            let (folder, record) = newest.get(id)?;
            Some(EndedLaunch { id: (*id).to_owned(), exit: exit(folder, record)? })
        });
        known.collect()
    }
}

impl Exit {
    fn known(&self) -> LaunchExit {
        let Some(at) = self.exited_at else { return LaunchExit::Unseen };
        let (code, signal) = (self.exit_code, self.exit_signal);
        LaunchExit::Seen(SeenExit { at, code, signal, by: self.ended_by() })
    }
}

/// Returns what is known of an exit that is not written. A runner that is alive will write it, however long that takes;
/// until then it is not known.
fn unwritten(folder: &LaunchFolder) -> LaunchExit {
    if folder.is_held() {
        return LaunchExit::Unwritten;
    }
    // The runner may have written it between the first read and its own exit.
    folder.exit().map_or(LaunchExit::Unseen, |exit| exit.known())
}

/// Whether the process that was started is seen to be gone. A process that is just ending can no longer be recognised:
/// a search for owners does not find it, though the kernel still lists it.
fn is_gone(record: &Record, living: Option<&[ProcessHead]>, kernel: &dyn Kernel) -> bool {
    let Some(process) = record.process.as_ref().and_then(ProcessMark::process) else { return false };
    match living {
        Some(living) => !living.iter().any(|head| head.process == process),
        None => kernel.is_alive(process) == Observed::Seen(false),
    }
}
