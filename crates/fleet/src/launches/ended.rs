//! Which launched sessions have lost their process, and how it ended. Reads what runners wrote down and looks at the kernel;
//! it says nothing about any session.

use std::collections::{HashMap, HashSet};

use agentctl_model::{EndedLaunch, Found, LaunchExit, Observed, ProcessHead, SeenExit};
use agentctl_process::Kernel;

use super::folder::LaunchFolder;
use super::ledger::Ledger;
use super::record::{Exit, ProcessMark, Record};

impl Ledger {
    /// Those of the found sessions whose newest launch is over. An id that stands twice is left out: the record does not
    /// say which of the two it means. `living` are the processes of the look that the sessions are joined with.
    pub(crate) fn ended(
        &self,
        adapter: &str,
        root: &str,
        found: &[Found],
        living: Option<&[ProcessHead]>,
        kernel: &dyn Kernel,
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
        let once = stored.difference(&twice);
        let ended = once.filter_map(|id| {
            let (folder, record) = newest.get(id)?;
            let exit = match folder.exit() {
                Some(exit) => exit.known(),
                None if is_gone(record, living, kernel) => unwritten(folder),
                None => return None,
            };
            Some(EndedLaunch { id: (*id).to_owned(), exit })
        });
        ended.collect()
    }
}

impl Exit {
    fn known(&self) -> LaunchExit {
        let Some(at) = self.exited_at else { return LaunchExit::Unseen };
        let (code, signal) = (self.exit_code, self.exit_signal);
        LaunchExit::Seen(SeenExit { at, code, signal, by: self.ended_by() })
    }
}

/// The exit of a process that is gone, where nothing of it is written. A runner that lives will write it, however long that
/// takes: until then it is not known.
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
