//! Which launched sessions have lost their process, and how it ended. Reads what runners wrote down and looks at the kernel;
//! it says nothing about any session.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use agentctl_model::{EndedLaunch, Found, Observed, ProcessHead, SeenExit};
use agentctl_process::Kernel;

use super::folder::LaunchFolder;
use super::ledger::Ledger;
use super::record::{Exit, ProcessMark, Record};

/// How long a runner may take to write down an exit that the kernel shows already. It takes milliseconds; what is not
/// written by then was not seen.
const WRITING: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(5);

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
        let began = Instant::now();
        let once = stored.difference(&twice);
        let ended = once.filter_map(|id| {
            let (folder, record) = newest.get(id)?;
            let exit = folder.exit();
            if exit.is_none() && !is_gone(record, living, kernel) {
                return None;
            }
            let exit = exit.or_else(|| awaited(folder, record, began));
            Some(EndedLaunch { id: (*id).to_owned(), exit: exit.and_then(|exit| exit.seen()) })
        });
        ended.collect()
    }
}

impl Exit {
    /// `None` where nobody saw it.
    fn seen(&self) -> Option<SeenExit> {
        Some(SeenExit {
            at: self.exited_at?,
            code: self.exit_code,
            signal: self.exit_signal,
            asked: self.asked || self.timed_out,
        })
    }
}

/// The exit that a runner at work is about to write. A launch that is not settled has nobody who writes one yet.
fn awaited(folder: &LaunchFolder, record: &Record, began: Instant) -> Option<Exit> {
    while record.settled && began.elapsed() < WRITING && matches!(folder.hold(), Ok(None)) {
        if let Some(exit) = folder.exit() {
            return Some(exit);
        }
        std::thread::sleep(LOOK);
    }
    // Written between the last look and the runner's own end.
    folder.exit()
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
