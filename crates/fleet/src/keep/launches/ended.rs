//! Which launched sessions have lost their process, and how it ended. Reads what runners wrote down and looks at the kernel;
//! it says nothing about any session.

use std::collections::{HashMap, HashSet};

use agentctl_model::{EndedLaunch, Found, LaunchExit, Observed, ProcessHead, SeenExit};
use agentctl_process::Kernel;

use super::folder::LaunchFolder;
use super::ledger::Ledger;
use super::record::{Exit, ProcessMark, Record};

impl Ledger {
    /// Those of the found sessions whose newest launch is over. `living` are the processes of the look that the sessions
    /// are joined with.
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

    /// What is known of the exits of the found sessions, should nobody carry them. Where a runner lives that has not written
    /// one, that says it all: a process that is just ending is carried by nobody, and the kernel may have its name still.
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

    /// An id that stands twice is left out: the record does not say which of the two it means.
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

/// What is known of an exit of which nothing is written. A runner that lives will write it, however long that takes: until
/// then it is not known.
fn unwritten(folder: &LaunchFolder) -> LaunchExit {
    if folder.is_held() {
        return LaunchExit::Unwritten;
    }
    // Written between the first look and the runner's own end.
    folder.exit().map_or(LaunchExit::Unseen, |exit| exit.known())
}

/// The process that was started is seen to be gone. One that is just ending has nothing left to know it by: whoever looks
/// for carriers does not find it any more, though the kernel still has its name.
fn is_gone(record: &Record, living: Option<&[ProcessHead]>, kernel: &dyn Kernel) -> bool {
    let Some(process) = record.process.as_ref().and_then(ProcessMark::process) else { return false };
    match living {
        Some(living) => !living.iter().any(|head| head.process == process),
        None => kernel.is_alive(process) == Observed::Seen(false),
    }
}
