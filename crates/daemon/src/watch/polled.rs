//! Processes that cannot be watched: the kernel is asked now and then whether they still live. That costs one small read
//! each, where a look at the whole fleet would cost the agents their processor.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentctl_model::{Observed, ProcessRef};
use agentctl_process::Kernel;

/// How late the end of such a process is seen at most.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(2);

pub(super) struct Polled {
    kernel: Arc<dyn Kernel>,
    /// By pid. `None` where nobody had that pid any more when it was looked at: the next look at the fleet will tell.
    processes: BTreeMap<u32, Option<ProcessRef>>,
    /// Why the last of them cannot be watched.
    why: Option<String>,
}

impl Polled {
    pub(super) fn new() -> Self {
        Self { kernel: agentctl_process::system(), processes: BTreeMap::new(), why: None }
    }

    pub(super) fn count(&self) -> usize {
        self.processes.len()
    }

    pub(super) fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Polls exactly these from now on, for these reasons. Says whether one was new.
    pub(super) fn set(&mut self, pids: &BTreeMap<u32, String>) -> bool {
        let before = std::mem::take(&mut self.processes);
        self.why = pids.values().next_back().cloned();
        let is_new = pids.keys().any(|pid| !before.contains_key(pid));
        let heads = if is_new { self.kernel.heads() } else { Observed::Seen(Vec::new()) };
        let now: BTreeMap<u32, ProcessRef> =
            heads.seen().into_iter().flatten().map(|head| (head.process.pid, head.process)).collect();
        for pid in pids.keys() {
            let known = before.get(pid).copied();
            self.processes.insert(*pid, known.unwrap_or_else(|| now.get(pid).copied()));
        }
        is_new
    }

    /// Those that have ended since. Each is told once: its pid may be another's by now.
    pub(super) fn ended(&mut self) -> Vec<u32> {
        let has_ended = |process: &ProcessRef| self.kernel.is_alive(*process) == Observed::Seen(false);
        let ended: Vec<u32> =
            self.processes.values().flatten().filter(|one| has_ended(one)).map(|one| one.pid).collect();
        for pid in &ended {
            self.processes.remove(pid);
        }
        ended
    }
}
