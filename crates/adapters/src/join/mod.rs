//! Joins that several agents share. Pure: they turn registrations and processes into claims.

pub mod node;
#[cfg(test)]
pub(crate) mod scene;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use agentctl_model::{
    Claim, Evidence, ExitMatch, Found, Harvest, KernelView, LiveReport, Owner, OwnerIdentity, Pending,
    PendingKind, Process, ProcessRef, ProcessRole, Registration, Relation, Tie, TurnState, Witness,
};

/// The words for a tie that rests on nothing but the contract's rule.
const ONLY_CANDIDATE: &str = "only candidate in this directory";

/// A claim that `process` owns the session `id`.
pub fn claim(id: &str, process: &Process, tie: Tie, headless: bool, how: Evidence) -> Claim {
    Claim {
        id: id.to_owned(),
        variant: None,
        owner: Owner { process: process.head.process, started_at: process.head.started_at, headless, how },
        tie,
        role: ProcessRole::Agent,
        command: process.head.program().to_owned(),
        live_report: None,
        found: None,
    }
}

/// "pid 42 alive, ..." as the kernel's evidence.
pub fn alive(process: &Process, kernel: &KernelView, why: &str) -> Evidence {
    Evidence::said(Witness::Kernel, format!("pid {} alive, {why}", process.pid()), Some(kernel.as_of))
}

/// Claims from the agent's own notes, each only if the kernel confirms the holder: a process of this agent that works
/// under this very root. A note alone could name any process.
pub fn by_registration(harvest: &Harvest, kernel: &KernelView) -> Vec<Claim> {
    let trusted: Vec<&Process> = kernel.processes.iter().filter(|process| kernel.is_ours(process)).collect();
    // An agent in a container records the pid that it has there.
    let mut by_noted: HashMap<u32, Vec<&Process>> = HashMap::new();
    for process in &trusted {
        by_noted.entry(process.noted_pid()).or_default().push(process);
    }
    let only = |pid: &u32, fits: &dyn Fn(&Process) -> bool| -> Option<&Process> {
        let mut fitting = by_noted.get(pid)?.iter().copied().filter(|process| fits(process));
        // Two containers may have assigned the same pid: then the note proves nothing.
        fitting.next().filter(|_| fitting.next().is_none())
    };
    let confirmed = harvest.registrations.iter().filter_map(|note| {
        let (process, why) = match &note.holder {
            OwnerIdentity::Process { pid, start, .. } => {
                (only(pid, &|process| process.head.process.start == *start)?, "start time matches")
            }
            OwnerIdentity::Since { pid, at } => {
                let was_running =
                    |process: &Process| process.head.started_at.is_none_or(|start| start <= *at);
                (only(pid, &was_running)?, "was running when its pid was written down")
            }
            OwnerIdentity::Lock { device, inode } => {
                let locks = kernel.locks.seen()?;
                let held = locks.iter().find(|lock| lock.device == *device && lock.inode == *inode)?;
                let process = trusted.iter().find(|process| process.pid() == held.pid)?;
                (*process, "holds the session's lock")
            }
            OwnerIdentity::OpenFile { pid, path } => {
                let holds = |process: &Process| {
                    process.open_files.seen().is_some_and(|files| files.iter().any(|file| file.path == *path))
                };
                (only(pid, &holds)?, "holds the session's file open")
            }
        };
        Some(registered(note, process, alive(process, kernel, why)))
    });
    confirmed.collect()
}

fn registered(note: &Registration, process: &Process, how: Evidence) -> Claim {
    let mut claim = claim(&note.id, process, Tie::Exact, note.headless, how);
    // The agent's records carry times of its own clock: the earlier of the two starts is the safer one.
    let noted = note.found.as_ref().and_then(|found| found.facts.started_at);
    if let (Some(kernel), Some(noted)) = (claim.owner.started_at, noted) {
        claim.owner.started_at = Some(kernel.min(noted));
    }
    Claim {
        variant: note.variant.clone(),
        live_report: note.live_report.clone(),
        found: note.found.clone(),
        ..claim
    }
}

/// The contract's rule for agents that tie nothing to their process: exactly one unclaimed process in a directory and
/// exactly one session there with records newer than that process are a pair; if there are several, all are
/// uncertain. The records of our own launches count too. Processes without a session are left for the caller.
pub fn only_candidates<'f>(
    unclaimed: &[&Process],
    found: impl Iterator<Item = &'f Found>,
    claimed: &[&str],
    kernel: &KernelView,
    headless: impl Fn(&Process) -> bool,
) -> Vec<Claim> {
    let mut by_cwd: HashMap<Cow<'_, str>, (Vec<&Process>, Vec<&Found>)> = HashMap::new();
    for process in unclaimed {
        if let Some(cwd) = process.cwd.seen() {
            by_cwd.entry(cwd.to_string_lossy()).or_default().0.push(process);
        }
    }
    if by_cwd.is_empty() {
        return Vec::new();
    }
    for session in found {
        let Some(cwd) = session.facts.cwd.as_deref() else { continue };
        let Some((processes, candidates)) = by_cwd.get_mut(cwd) else { continue };
        let earliest = processes.iter().filter_map(|process| process.head.started_at).min();
        let newer = session.facts.updated_at.is_some_and(|at| earliest.is_none_or(|start| at >= start));
        if newer && !claimed.contains(&session.id.as_str()) {
            candidates.push(session);
        }
    }
    let mut claims = Vec::new();
    for (processes, candidates) in by_cwd.values() {
        let pairs = fitting(processes, candidates, kernel);
        for (session, process, fit) in &pairs {
            let rivals = pairs.iter().filter(|(other, owner, _)| {
                std::ptr::eq(*other, *session) || owner.head.process == process.head.process
            });
            let (tie, why) = match (fit, rivals.count()) {
                (ExitMatch::Fits, 1) => (Tie::OnlyCandidate, ONLY_CANDIDATE.to_owned()),
                (ExitMatch::InDoubt, 1) => {
                    let why = "may have taken it up since the process that agentctl started is gone";
                    (Tie::OneOfSeveral, format!("{why}, nothing ties them"))
                }
                _ => {
                    let several = processes.len();
                    let why = format!("one of {several} that fit in this directory, nothing ties them");
                    (Tie::OneOfSeveral, why)
                }
            };
            let mut claim = claim(&session.id, process, tie, headless(process), alive(process, kernel, &why));
            claim.variant.clone_from(&session.variant);
            claims.push(claim);
        }
    }
    claims
}

/// Which process may own which session, among those in one directory.
fn fitting<'a>(
    processes: &[&'a Process],
    candidates: &[&'a Found],
    kernel: &KernelView,
) -> Vec<(&'a Found, &'a Process, ExitMatch)> {
    let pairs =
        candidates.iter().flat_map(|session| processes.iter().map(move |process| (*session, *process)));
    let judged = pairs.map(|(session, process)| (session, process, kernel.fit(process, session)));
    judged.filter(|(.., fit)| *fit != ExitMatch::Excluded).collect()
}

/// The processes that no claim names.
pub fn unclaimed<'k>(kernel: &'k KernelView, claims: &[Claim]) -> Vec<&'k Process> {
    let claimed: HashSet<ProcessRef> = claims.iter().map(|claim| claim.owner.process).collect();
    kernel.processes.iter().filter(|process| !claimed.contains(&process.head.process)).collect()
}

/// The report of a registration that only says who holds the session.
pub fn registry_report(words: String) -> LiveReport {
    LiveReport { evidence: vec![Evidence::said(Witness::Registry, words, None)], ..LiveReport::default() }
}

/// A working sub-agent is owned by its parent's process. A finished one has no owner.
pub fn subagents(harvest: &Harvest, claims: &[Claim]) -> Vec<Claim> {
    let at_work = harvest
        .found
        .iter()
        .filter(|found| found.facts.turn.as_ref().is_some_and(|turn| turn.state == TurnState::Open));
    at_work
        .filter_map(|found| {
            let parent = subagent_of(found)?;
            Some((found, claims.iter().filter(move |claim| claim.id == parent)))
        })
        .flat_map(|(found, parents)| {
            parents.map(|parent| Claim {
                id: found.id.clone(),
                live_report: None,
                found: None,
                owner: Owner { headless: false, ..parent.owner.clone() },
                ..parent.clone()
            })
        })
        .collect()
}

/// The session whose sub-agent this is.
pub fn subagent_of(found: &Found) -> Option<&str> {
    let parent = found.facts.parent.as_ref()?;
    (parent.relation == Relation::Subagent).then_some(parent.id.as_str())
}

/// Adds what a live session waits for, as the agent's records say.
pub(crate) fn add_pending(claims: &mut [Claim], harvest: &Harvest) {
    for claim in claims {
        let found = harvest.found.iter().find(|found| found.id == claim.id);
        let Some(turn) = found.and_then(|found| found.facts.turn.as_ref()) else { continue };
        let kind = match turn.state {
            TurnState::Approval => PendingKind::Approval,
            TurnState::Question => PendingKind::Question,
            _ => continue,
        };
        let pending = Pending::new(kind, turn.detail.clone(), turn.last);
        let report = claim.live_report.get_or_insert_with(LiveReport::default);
        report.pending = vec![pending];
        report.since = turn.last;
    }
}
