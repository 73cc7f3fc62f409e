//! Which processes own which Claude Code sessions. Pure.

use std::collections::HashSet;

use agentctl_model::{Claim, Harvest, Joined, KernelView, Process, ProcessRef, Stray, Tie};

use super::processes::{ends_with_its_turn, id_in_argv, is_helper, stays_for_more};
use super::registry::is_spare;
use crate::join::{alive, by_registration, claim, only_candidates, subagent_of, subagents, unclaimed};

/// Uses the agent's registry first, then the argv, then the contract's rule of the only candidate.
pub(super) fn join(harvest: &Harvest, kernel: &KernelView, ours: impl Fn(&Process) -> bool) -> Joined {
    // A background worker keeps the process title of the spare that it once was, so its registry note
    // identifies it and its argv does not.
    let (spares, mut claims): (Vec<Claim>, Vec<Claim>) = by_registration(harvest, kernel)
        .into_iter()
        .partition(|claim| claim.found.as_ref().is_some_and(is_spare));
    let spares: HashSet<ProcessRef> = spares.iter().map(|claim| claim.owner.process).collect();
    for claim in &mut claims {
        let process = kernel.processes.iter().find(|process| process.head.process == claim.owner.process);
        claim.owner.headless &= !process.is_some_and(|process| stays_for_more(&process.head));
    }
    let registered = claims.len();
    let may_own = |process: &&Process| {
        !spares.contains(&process.head.process) && !is_helper(&process.head) && ours(process)
    };
    let rest: Vec<&Process> = unclaimed(kernel, &claims).into_iter().filter(may_own).collect();

    let (mut nameless, mut starting) = (Vec::new(), Vec::new());
    for process in rest {
        match id_in_argv(&process.head) {
            Some(id) if harvest.found.iter().any(|found| found.id == id) => {
                let how = alive(process, kernel, "the id is in its argv (starting or stopping)");
                claims.push(claim(&id, process, Tie::Exact, ends_with_its_turn(&process.head), how));
            }
            // This process names a session that has no storage yet, so it is not a candidate for another
            // session.
            Some(_) => starting.push(process),
            None => nameless.push(process),
        }
    }
    let claimed: Vec<&str> = claims.iter().map(|claim| claim.id.as_str()).collect();
    let mains = harvest.found.iter().filter(|found| subagent_of(found).is_none());
    let paired =
        only_candidates(&nameless, mains, &claimed, kernel, |process| ends_with_its_turn(&process.head));
    claims.extend(paired);

    let owning: HashSet<_> = claims.iter().map(|claim| claim.owner.process).collect();
    let strays: Vec<Stray> = nameless
        .iter()
        .chain(&starting)
        .filter(|process| !owning.contains(&process.head.process))
        .map(|process| {
            let cwd = process.cwd.seen().map(|cwd| cwd.to_string_lossy().into_owned());
            Stray::of(&process.head, cwd)
        })
        .collect();
    let unsettled = claims.len() > registered || !strays.is_empty();
    claims.extend(subagents(harvest, &claims));
    Joined { claims, strays, unsettled, blind: None }
}
