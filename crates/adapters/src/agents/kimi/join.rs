//! Which processes own which Kimi Code sessions. Pure.
//!
//! The agent ties nothing to its process: it keeps no file open, writes no note with a pid, and overwrites
//! its arguments. A process that agentctl started is identified by the mark in its environment; all others by
//! the contract's rule of the only candidate in a directory.

use std::collections::HashSet;

use agentctl_model::{Harvest, Joined, KernelView, Process, Stray, Tie};

use super::processes::{is_kimi, possible_owners};
use crate::control::LAUNCH_MARK;
use crate::join::{add_pending, alive, claim, only_candidates};

pub(super) fn join(harvest: &Harvest, kernel: &KernelView, ours: impl Fn(&Process) -> bool) -> Joined {
    let mut joined = Joined { blind: unseen(kernel), ..Joined::default() };
    let mut nameless = Vec::new();
    for process in possible_owners(kernel, ours) {
        match kernel.launched_for(process) {
            Some(id) => {
                let how = alive(process, kernel, "agentctl started it for this session");
                joined.claims.push(claim(id, process, Tie::Exact, true, how));
            }
            None => nameless.push(process),
        }
    }
    let claimed: Vec<&str> = joined.claims.iter().map(|claim| claim.id.as_str()).collect();
    // A run with a prompt looks like a session in a terminal, unless agentctl started it: then its mark is
    // there before the id is known.
    let is_a_run = |process: &Process| process.variable(LAUNCH_MARK).is_some();
    let paired = only_candidates(&nameless, harvest.found.iter(), &claimed, kernel, is_a_run);
    let owning: HashSet<_> = paired.iter().map(|claim| claim.owner.process).collect();
    let alone = nameless.iter().filter(|process| !owning.contains(&process.head.process));
    joined.strays = alone.map(|process| stray(process)).collect();
    joined.unsettled = !joined.strays.is_empty();
    joined.claims.extend(paired);
    add_pending(&mut joined.claims, harvest);
    joined
}

/// A process whose environment or directory cannot be seen may own any session; then no session may be called
/// stopped.
fn unseen(kernel: &KernelView) -> Option<String> {
    kernel.processes.iter().filter(|process| is_kimi(&process.head)).find_map(|process| {
        let (what, why) = match (process.environ.why_not(), process.cwd.why_not()) {
            (Some(why), _) => ("variables", why),
            (None, Some(why)) => ("directory", why),
            (None, None) => return None,
        };
        Some(format!("the {what} of pid {} cannot be seen: {why}", process.pid()))
    })
}

fn stray(process: &Process) -> Stray {
    Stray::of(&process.head, process.cwd.seen().map(|cwd| cwd.to_string_lossy().into_owned()))
}
