//! Which process owns which OpenCode session. Pure.
//!
//! OpenCode ties nothing to its processes. Only the argv, or the record of one of our own launches, names a session;
//! beyond that there is only the contract's rule of the only candidate. Servers, and interfaces that may have
//! switched to another session, leave a doubt about open turns: those sessions are unknown until the server is asked.

use std::collections::HashSet;

use agentctl_model::{
    Claim, Evidence, ExitMatch, Facts, Found, Harvest, Joined, KernelView, LiveReport, Owner, Process,
    ProcessRole, Relation, Stray, Tie, Turn, TurnState, Witness,
};
use jiff::Timestamp;

use super::conversation::session::{LEFT_OPEN, TOUCHED};
use super::processes::{Kind, Program, id_in_argv};
use crate::join::{alive, claim, only_candidates};

pub(crate) fn join(
    program: &Program,
    harvest: &Harvest,
    kernel: &KernelView,
    ours: impl Fn(&Process) -> bool,
) -> Joined {
    let kind = |process: &Process| program.kind(&process.head);
    let ours: Vec<&Process> = kernel.processes.iter().filter(|process| ours(process)).collect();
    let of_kind = |kinds: &[Kind]| -> Vec<&Process> {
        ours.iter().copied().filter(|process| kinds.contains(&kind(process))).collect()
    };
    let mains: Vec<&Found> = harvest.found.iter().filter(|found| !is_subagent(found)).collect();

    let mut joined = Joined::default();
    let mut nameless = Vec::new();
    for process in of_kind(&[Kind::Run, Kind::Terminal, Kind::Editor]) {
        let headless = program.ends_with_its_turn(&process.head);
        let in_argv = id_in_argv(&process.head).map(|id| (id, "the session is in its argv"));
        let launched = || Some((kernel.launched_for(process)?, "our launch record names this session"));
        let Some((id, how)) = in_argv.or_else(launched) else {
            nameless.push(process);
            continue;
        };
        if harvest.found.iter().any(|found| found.id == id) {
            joined.claims.push(claim(id, process, Tie::Exact, headless, alive(process, kernel, how)));
        } else {
            // The argv names a session that is not stored (yet): it belongs to no other process, but there is nothing
            // to show.
            joined.strays.push(stray(process));
            joined.unsettled = true;
        }
    }
    for process in of_kind(&[Kind::Server]) {
        let Some(id) = kernel.private_server_of(process) else { continue };
        if harvest.found.iter().any(|found| found.id == id) {
            let how = alive(process, kernel, "agentctl started this server for this session alone");
            let served = claim(id, process, Tie::Exact, false, how);
            joined.claims.push(Claim { role: ProcessRole::Server, ..served });
        }
    }
    let paired = pair(program, &nameless, &mains, &joined.claims, kernel);
    joined.claims.extend(paired);
    claim_doubtful_turns(
        program,
        &of_kind(&[Kind::Terminal, Kind::Editor, Kind::Server]),
        &mains,
        kernel,
        &mut joined.claims,
    );
    notice_steps_left_open(harvest, &mut joined.claims);

    let carrying: HashSet<_> = joined.claims.iter().map(|claim| claim.owner.process).collect();
    let idle = nameless
        .iter()
        .filter(|process| !carrying.contains(&process.head.process) && kind(process) != Kind::Editor);
    joined.strays.extend(idle.map(|process| stray(process)));
    add_wrappers(&of_kind(&[Kind::Wrapper]), &ours, kernel, &mut joined.claims);
    let below = subagents(harvest, &joined.claims);
    joined.claims.extend(below);
    add_directories(harvest, &ours, &mut joined.claims);
    joined
}

/// Servers are asked about directories: this adds them to the claims of processes that can be asked.
fn add_directories(harvest: &Harvest, ours: &[&Process], claims: &mut [Claim]) {
    let answering: HashSet<_> = ours
        .iter()
        .filter(|process| process.listening.seen().is_some_and(|addresses| !addresses.is_empty()))
        .map(|process| process.head.process)
        .collect();
    for claim in claims.iter_mut().filter(|claim| answering.contains(&claim.owner.process)) {
        claim.found = harvest.found.iter().find(|found| found.id == claim.id).map(|found| Found {
            facts: Facts { cwd: found.facts.cwd.clone(), ..Facts::default() },
            evidence: Vec::new(),
            ..found.clone()
        });
    }
}

fn is_subagent(found: &Found) -> bool {
    found.facts.parent.as_ref().is_some_and(|parent| parent.relation == Relation::Subagent)
}

fn stray(process: &Process) -> Stray {
    Stray::of(&process.head, process.cwd.seen().map(|cwd| cwd.to_string_lossy().into_owned()))
}

fn text<'f>(found: &'f Found, key: &str) -> Option<&'f str> {
    found.facts.meta.get(key).and_then(|value| value.as_str())
}

fn time(found: &Found, key: &str) -> Option<Timestamp> {
    text(found, key).and_then(|text| text.parse().ok())
}

/// The rule of the only candidate, adapted to OpenCode: every prompt touches the session's row, and a run without an
/// id creates a session that is younger than itself.
fn pair(
    program: &Program,
    nameless: &[&Process],
    mains: &[&Found],
    claims: &[Claim],
    kernel: &KernelView,
) -> Vec<Claim> {
    let claimed: Vec<&str> = claims.iter().map(|claim| claim.id.as_str()).collect();
    let placed: Vec<Process> = nameless
        .iter()
        .map(|process| {
            let mut placed = (*process).clone();
            let has_session = |directory: &&String| {
                mains.iter().any(|found| {
                    found.facts.cwd.as_ref() == Some(directory) && may_be(program, process, found)
                })
            };
            let directories = program.directories(process);
            if let Some(directory) = directories.iter().find(has_session).or(directories.last()) {
                placed.cwd = agentctl_model::Observed::Seen(directory.into());
            }
            placed
        })
        .collect();
    let cwd = |process: &Process| process.cwd.seen().map(|cwd| cwd.to_string_lossy().into_owned());
    let candidates: Vec<Found> = mains
        .iter()
        .filter_map(|found| {
            let there: Vec<&Process> = placed
                .iter()
                .filter(|process| cwd(process).is_some() && cwd(process) == found.facts.cwd)
                .collect();
            let mut candidate = (!there.is_empty()).then(|| (*found).clone())?;
            let made_by_it = matches!(there.as_slice(), [only] if program.makes_its_own(&only.head));
            candidate.facts.updated_at = if made_by_it {
                found.facts.started_at
            } else {
                time(found, TOUCHED).or(found.facts.updated_at)
            };
            Some(candidate)
        })
        .collect();
    let placed: Vec<&Process> = placed.iter().collect();
    only_candidates(&placed, candidates.iter(), &claimed, kernel, |process| {
        program.ends_with_its_turn(&process.head)
    })
}

fn may_be(program: &Program, process: &Process, found: &Found) -> bool {
    let touched = || time(found, TOUCHED).or(found.facts.updated_at);
    let newest = if program.makes_its_own(&process.head) { found.facts.started_at } else { touched() };
    newest.is_some_and(|at| process.head.started_at.is_none_or(|start| at >= start))
}

/// An open turn with records from the lifetime of a process that could run it is in doubt: a server runs any session,
/// and an interface can switch to another session in its directory while its argv stays the same.
fn claim_doubtful_turns(
    program: &Program,
    several: &[&Process],
    mains: &[&Found],
    kernel: &KernelView,
    claims: &mut Vec<Claim>,
) {
    let claimed: HashSet<String> = claims.iter().map(|claim| claim.id.clone()).collect();
    let several: Vec<&Process> =
        several.iter().copied().filter(|process| kernel.private_server_of(process).is_none()).collect();
    for found in mains.iter().filter(|found| !claimed.contains(&found.id)) {
        let open = found.facts.turn.as_ref().filter(|turn| turn.state == TurnState::Open);
        let Some(last) = open.and_then(|turn| turn.last) else { continue };
        for process in &several {
            let in_time = process.head.started_at.is_none_or(|start| last >= start);
            let kind = program.kind(&process.head);
            let in_reach = kind != Kind::Terminal
                || found.facts.cwd.as_ref().is_some_and(|cwd| program.directories(process).contains(cwd));
            if in_time && in_reach && kernel.fit(process, found) != ExitMatch::Excluded {
                let how = alive(process, kernel, "it may run this turn, nothing ties them");
                let mut claim = claim(&found.id, process, Tie::OneOfSeveral, false, how);
                if kind == Kind::Server {
                    claim.role = ProcessRole::Server;
                }
                claims.push(claim);
            }
        }
    }
}

/// Two processes may work on one session at once: the last message then comes from only one of them.
fn notice_steps_left_open(harvest: &Harvest, claims: &mut [Claim]) {
    for claim in claims.iter_mut().filter(|claim| claim.tie != Tie::OneOfSeveral) {
        let Some(found) = harvest.found.iter().find(|found| found.id == claim.id) else { continue };
        let closed = found.facts.turn.as_ref().is_some_and(|turn| turn.state != TurnState::Open);
        let Some(open) = time(found, LEFT_OPEN).filter(|_| closed) else { continue };
        if claim.owner.started_at.is_some_and(|start| open >= start) {
            let words = "a step from the lifetime of this process is open behind the last message";
            claim.live_report = Some(LiveReport {
                turn: Some(Turn::new(TurnState::Open, Some(open))),
                evidence: vec![Evidence::said(Witness::Database, words, Some(open))],
                ..LiveReport::default()
            });
        }
    }
}

/// The script that waits for the native program is a process of the same session, never an owner by itself.
fn add_wrappers(wrappers: &[&Process], ours: &[&Process], kernel: &KernelView, claims: &mut Vec<Claim>) {
    for wrapper in wrappers {
        let child = ours.iter().find(|process| process.head.parent == wrapper.pid());
        let owning: Vec<Claim> = claims
            .iter()
            .filter(|claim| child.is_some_and(|child| claim.owner.process == child.head.process))
            .cloned()
            .collect();
        claims.extend(owning.into_iter().map(|owning| Claim {
            owner: Owner {
                process: wrapper.head.process,
                started_at: wrapper.head.started_at,
                headless: owning.owner.headless,
                how: alive(wrapper, kernel, "started the process that carries the session"),
            },
            role: ProcessRole::Wrapper,
            command: wrapper.head.program().to_owned(),
            live_report: None,
            ..owning
        }));
    }
}

/// A working sub-agent is owned by its parent's process. A finished one has no owner.
fn subagents(harvest: &Harvest, claims: &[Claim]) -> Vec<Claim> {
    let mut below: Vec<Claim> = Vec::new();
    let mut reached: HashSet<&str> = claims.iter().map(|claim| claim.id.as_str()).collect();
    // Parents come before their children: a sub-agent may have sub-agents of its own.
    loop {
        let fresh: Vec<(&Found, Vec<Claim>)> = harvest
            .found
            .iter()
            .filter(|found| is_subagent(found) && !reached.contains(found.id.as_str()))
            .filter(|found| found.facts.turn.as_ref().is_some_and(|turn| turn.state == TurnState::Open))
            .filter_map(|found| {
                let parent = found.facts.parent.as_ref()?;
                let of_parent = claims.iter().chain(&below).filter(|claim| claim.id == parent.id);
                let inherited: Vec<Claim> = of_parent
                    .map(|claim| Claim {
                        id: found.id.clone(),
                        live_report: None,
                        found: None,
                        owner: Owner { headless: false, ..claim.owner.clone() },
                        ..claim.clone()
                    })
                    .collect();
                (!inherited.is_empty()).then_some((found, inherited))
            })
            .collect();
        if fresh.is_empty() {
            return below;
        }
        for (found, inherited) in fresh {
            reached.insert(&found.id);
            below.extend(inherited);
        }
    }
}
