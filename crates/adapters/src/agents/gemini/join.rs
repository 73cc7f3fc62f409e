//! Which processes own which Gemini CLI sessions. Pure.
//!
//! The agent leaves no note of its process and keeps no file open, so the id in the argv is the only tie.

use std::collections::HashSet;

use agentctl_model::text::clean_cut;
use agentctl_model::{
    Claim, Facts, Found, Harvest, Joined, KernelView, Process, ProcessRole, Tie, Turn, TurnState,
};

use super::processes::{id_in_argv, is_headless, is_server, may_own};
use crate::join::node::{Invocation, claim_wrappers, named_claim, named_stray, unwrapped};
use crate::join::{alive, only_candidates, subagent_of, subagents};

/// Uses the argv first, then the contract's rule of the only candidate.
pub(super) fn join(harvest: &Harvest, kernel: &KernelView, ours: impl Fn(&Process) -> bool) -> Joined {
    let is_candidate = |process: &&Process| may_own(&process.head) && ours(process);
    let geminis: Vec<&Process> = kernel.processes.iter().filter(is_candidate).collect();
    let (workers, wrappers) = unwrapped(&geminis);
    let (mut claims, mut nameless) = (Vec::new(), Vec::new());
    for process in workers {
        let Some(id) = id_in_argv(&process.head) else {
            nameless.push(process);
            continue;
        };
        let how = alive(process, kernel, "the id is in its argv");
        let mut claim = named_claim(id, process, Tie::Exact, is_headless(&process.head), how);
        // The agent deletes files itself, and writes none before the first prompt. In both cases the process
        // alone stands for the session.
        if !harvest.found.iter().any(|found| found.id == id) {
            claim.found = Some(without_file(id, process));
        }
        claims.push(claim);
    }
    let claimed: Vec<&str> = claims.iter().map(|claim: &Claim| claim.id.as_str()).collect();
    // A sub-agent that does not name its parent is recognised only by its kind.
    let is_main = |found: &&Found| subagent_of(found).is_none() && !found.facts.meta.contains_key("kind");
    let mains = harvest.found.iter().filter(is_main);
    let paired = only_candidates(&nameless, mains, &claimed, kernel, |process| is_headless(&process.head));
    let owning: HashSet<_> = paired.iter().map(|claim| claim.owner.process).collect();
    claims.extend(paired);
    // A server without a session serves nobody at the moment, so it is not a stray run.
    let alone = nameless.iter().filter(|process| !owning.contains(&process.head.process));
    let strays: Vec<_> =
        alone.filter(|process| !is_server(&process.head)).map(|process| named_stray(process)).collect();

    for claim in &mut claims {
        let process = geminis.iter().find(|process| process.head.process == claim.owner.process);
        if let Some(process) = process {
            if is_server(&process.head) {
                claim.role = ProcessRole::Server;
            }
            if let Some(run) = Invocation::of(&process.head) {
                run.name().clone_into(&mut claim.command);
            }
        }
    }
    let unsettled = !strays.is_empty();
    claims.extend(subagents(harvest, &claims));
    claim_wrappers(&mut claims, &wrappers, kernel);
    Joined { claims, strays, unsettled, blind: None }
}

fn without_file(id: &str, process: &Process) -> Found {
    let facts = Facts {
        turn: Some(Turn::new(TurnState::NotBegun, None)),
        cwd: process.cwd.seen().map(|cwd| clean_cut(&cwd.to_string_lossy(), None)),
        started_at: process.head.started_at,
        updated_at: process.head.started_at,
        ..Facts::default()
    };
    Found {
        id: id.to_owned(),
        variant: None,
        place: super::no_file(),
        stamp: None,
        facts,
        evidence: Vec::new(),
    }
}
