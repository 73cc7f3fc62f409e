//! Which processes own which Qwen Code sessions. Pure.

use std::collections::HashSet;

use agentctl_model::{Harvest, Joined, KernelView, Process, ProcessRole, Tie};

use super::processes::{id_in_argv, is_headless, is_server, may_own};
use crate::join::node::{Invocation, claim_wrappers, named_claim, named_stray, unwrapped};
use crate::join::{add_pending, alive, by_registration, only_candidates, subagent_of, subagents};

/// Uses the agent's notes first, then the argv, then the contract's rule of the only candidate.
pub(super) fn join(harvest: &Harvest, kernel: &KernelView, ours: impl Fn(&Process) -> bool) -> Joined {
    let is_candidate = |process: &&Process| may_own(&process.head) && ours(process);
    let qwens: Vec<&Process> = kernel.processes.iter().filter(is_candidate).collect();
    // By now a pid in a note may belong to another program.
    let mut claims = by_registration(harvest, kernel);
    claims.retain(|claim| qwens.iter().any(|process| process.head.process == claim.owner.process));
    let (workers, wrappers) = unwrapped(&qwens);
    let noted: HashSet<_> = claims.iter().map(|claim| claim.owner.process).collect();

    let (mut nameless, mut strays) = (Vec::new(), Vec::new());
    for process in workers.into_iter().filter(|process| !noted.contains(&process.head.process)) {
        match id_in_argv(&process.head) {
            Some(id) if harvest.found.iter().any(|found| found.id == id) => {
                let how = alive(process, kernel, "the id is in its argv");
                claims.push(named_claim(id, process, Tie::Exact, is_headless(&process.head), how));
            }
            // This process names a session that has no storage yet, so it is not a candidate for another
            // session.
            Some(_) => strays.push(named_stray(process)),
            None => nameless.push(process),
        }
    }
    let claimed: Vec<&str> = claims.iter().map(|claim| claim.id.as_str()).collect();
    let mains = harvest.found.iter().filter(|found| subagent_of(found).is_none());
    let paired = only_candidates(&nameless, mains, &claimed, kernel, |process| is_headless(&process.head));
    let owning: HashSet<_> = paired.iter().map(|claim| claim.owner.process).collect();
    claims.extend(paired);
    // A server without a session serves nobody at the moment, so it is not a stray run.
    let alone = nameless.iter().filter(|process| !owning.contains(&process.head.process));
    strays.extend(alone.filter(|process| !is_server(&process.head)).map(|process| named_stray(process)));

    for claim in &mut claims {
        let process = qwens.iter().find(|process| process.head.process == claim.owner.process);
        if let Some(process) = process {
            claim.owner.headless = is_headless(&process.head);
            if is_server(&process.head) {
                claim.role = ProcessRole::Server;
            }
            if let Some(run) = Invocation::of(&process.head) {
                run.name().clone_into(&mut claim.command);
            }
        }
    }
    add_pending(&mut claims, harvest);
    let unsettled = !strays.is_empty();
    claims.extend(subagents(harvest, &claims));
    claim_wrappers(&mut claims, &wrappers, kernel);
    Joined { claims, strays, unsettled, blind: None }
}
