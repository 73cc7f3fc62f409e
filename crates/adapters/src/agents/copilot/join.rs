//! Which processes own which Copilot sessions. Pure.

use std::collections::HashSet;

use agentctl_model::{Claim, Harvest, Joined, KernelView, OwnerIdentity, Process, Tie};

use super::processes::{COPILOT, id_in_argv, is_headless, is_session};
use crate::join::node::{claim_wrappers, named_claim, named_stray, unwrapped};
use crate::join::{add_pending, alive, by_registration};

/// A note counts if its process keeps the file beside it open. The argv identifies processes that are
/// starting or exiting.
pub(super) fn join(harvest: &Harvest, kernel: &KernelView, ours: impl Fn(&Process) -> bool) -> Joined {
    let mut claims = by_registration(harvest, kernel);
    for claim in &mut claims {
        let process = kernel.processes.iter().find(|process| process.head.process == claim.owner.process);
        claim.owner.headless = process.is_some_and(|process| is_headless(&process.head));
    }
    let exact: HashSet<_> = claims.iter().map(|claim| claim.owner.process).collect();

    // By now a pid in a note may belong to an unrelated process, so only Copilot's own processes are
    // considered from here on.
    let copilots: Vec<&Process> =
        kernel.processes.iter().filter(|process| COPILOT.is(&process.head)).collect();
    let (workers, wrappers) = unwrapped(&copilots);
    let rest = workers.into_iter().filter(|process| !exact.contains(&process.head.process));
    let mut strays = Vec::new();
    for process in rest {
        let unseen = unconfirmed(process, harvest, kernel);
        if !unseen.is_empty() {
            claims.extend(unseen);
        } else if !is_session(&process.head) || !ours(process) {
            // The process is a command that only manages, or belongs to another root.
        } else if let Some(id) = id_in_argv(&process.head)
            && harvest.found.iter().any(|found| found.id == id)
        {
            let how = alive(process, kernel, "the id is in its argv (starting or stopping)");
            claims.push(named_claim(id, process, Tie::Exact, is_headless(&process.head), how));
        } else {
            strays.push(named_stray(process));
        }
    }
    let unsettled = claims.len() > exact.len() || !strays.is_empty();
    claim_wrappers(&mut claims, &wrappers, kernel);
    add_pending(&mut claims, harvest);
    Joined { claims, strays, unsettled, blind: None }
}

/// Claims for sessions whose note names this process, where its open files cannot be seen.
fn unconfirmed(process: &Process, harvest: &Harvest, kernel: &KernelView) -> Vec<Claim> {
    let Some(why) = process.open_files.why_not() else { return Vec::new() };
    let noted = harvest.registrations.iter().filter(
        |note| matches!(note.holder, OwnerIdentity::OpenFile { pid, .. } if pid == process.noted_pid()),
    );
    noted
        .map(|note| {
            let how = alive(process, kernel, &format!("but its open files cannot be seen: {why}"));
            let mut claim = named_claim(&note.id, process, Tie::OneOfSeveral, false, how);
            claim.found.clone_from(&note.found);
            claim
        })
        .collect()
}
