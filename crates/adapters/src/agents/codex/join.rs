//! Which processes own which Codex threads. Pure.
//!
//! One process may own many threads (a parent and its sub-agents, or the shared server), so ties are made per
//! thread: by the lock that the owner holds on the thread, or, for versions without locks, by the rollout
//! that it keeps open. A lock alone can mislead, because a process that removes the locks of dead threads
//! holds each of them for a moment. A real owner has the rollout open, or was told on its command line to
//! resume the thread, or created the lock file itself.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use agentctl_model::{
    Claim, Found, Harvest, Joined, KernelView, OpenFile, Process, ProcessRef, ProcessRole, Relation, Stray,
    Tie,
};

use super::locks;
use super::processes::{Role, is_ephemeral, is_resuming, role};
use super::storage::{id_in_name, made_at};
use crate::join::{alive, by_registration, claim, unclaimed};

pub(super) fn join(
    root: &Path,
    harvest: &Harvest,
    kernel: &KernelView,
    ours: impl Fn(&Process) -> bool,
) -> Joined {
    let known: HashMap<&str, &Found> = harvest.found.iter().map(|found| (found.id.as_str(), found)).collect();
    let (coordinating, mut claims): (Vec<Claim>, Vec<Claim>) =
        by_registration(harvest, kernel).into_iter().partition(|claim| claim.id == locks::COORDINATION);
    let processes: HashMap<ProcessRef, &Process> =
        kernel.processes.iter().map(|process| (process.head.process, process)).collect();
    let coordinating: HashSet<ProcessRef> =
        coordinating.into_iter().map(|claim| claim.owner.process).collect();
    for process in &kernel.processes {
        by_open_files(process, root, harvest, &known, kernel, &ours, &mut claims);
    }
    claims.retain_mut(|claim| {
        let Some(process) = processes.get(&claim.owner.process) else { return true };
        let is_coordinating = coordinating.contains(&claim.owner.process) || locks::is_coordinating(process);
        match hold(claim, process, is_coordinating, known.contains_key(claim.id.as_str())) {
            Hold::Carries => true,
            Hold::Clears => false,
            Hold::InDoubt(why) => {
                claim.tie = Tie::OneOfSeveral;
                claim.owner.how = alive(process, kernel, why);
                true
            }
        }
    });
    // A sandbox that inherited an open file, and a command that holds a lock to archive or delete, own
    // nothing.
    claims.retain(|claim| {
        let owner = processes.get(&claim.owner.process);
        !owner.is_some_and(|process| matches!(role(&process.head), Role::Helper | Role::Wrapper))
    });
    claims.extend(unloaded(kernel, &known, &claims));
    for claim in &mut claims {
        if let Some(process) = processes.get(&claim.owner.process) {
            describe(claim, process, known.get(claim.id.as_str()).copied());
        }
    }
    let idle_hands: Vec<&Process> =
        unclaimed(kernel, &claims).into_iter().filter(|process| ours(process)).collect();
    let strays = strays(&idle_hands, kernel, &ours);
    let settled = strays.iter().all(|(_, process)| is_ephemeral(&process.head))
        && claims.iter().all(|claim| claim.tie == Tie::Exact);
    Joined {
        blind: blindness(kernel, &claims, &ours),
        strays: strays.into_iter().map(|(stray, _)| stray).collect(),
        unsettled: !settled,
        claims,
    }
}

/// Threads that a private server has unloaded because nobody was connected to it. It loads them again when it is spoken
/// to, and until then it is still theirs; unless another process has taken the thread.
fn unloaded(kernel: &KernelView, known: &HashMap<&str, &Found>, claims: &[Claim]) -> Vec<Claim> {
    let servers = kernel.processes.iter().filter(|process| role(&process.head) == Role::Server);
    let unloaded = servers.filter_map(|process| {
        let id = kernel.private_server_of(process).filter(|id| known.contains_key(id))?;
        let how = alive(process, kernel, "agentctl started this server for this session alone");
        let is_free = claims.iter().all(|claim| claim.id != id);
        is_free.then(|| claim(id, process, Tie::Exact, false, how))
    });
    unloaded.collect()
}

/// What it means that a process holds the lock of a thread.
enum Hold {
    Carries,
    /// The process removes the lock, or has only begun to take the thread and has loaded nothing of it yet.
    Clears,
    /// Either is possible. The ambiguity lasts only a moment, so the locks are read once more before this is
    /// reported.
    InDoubt(&'static str),
}

/// The owner of a thread that has a rollout keeps the rollout open for writing, starting a moment after it
/// took the lock. For a thread without a rollout, the owner created the lock file itself.
fn hold(claim: &Claim, process: &Process, is_coordinating: bool, is_stored: bool) -> Hold {
    let files = process.open_files.seen();
    let has_open =
        files.is_some_and(|files| files.iter().any(|file| file.writable && is_rollout_of(file, &claim.id)));
    if has_open || is_resuming(&process.head, &claim.id) {
        return Hold::Carries;
    }
    let made_at = claim.found.as_ref().and_then(|note| note.stamp).and_then(|stamp| stamp.modified);
    let is_older = made_at.zip(process.head.started_at).is_some_and(|(made, started)| made < started);
    match (is_coordinating, files) {
        (true, Some(_)) if is_stored || is_older => Hold::Clears,
        (true, _) => Hold::InDoubt("holds the session's lock while it takes and clears locks"),
        // The inode of a removed file may be reused by the next one: what the process holds is then its own
        // lock under another name.
        (false, Some(files)) if is_older && !files.iter().any(|file| is_lock_of(file, &claim.id)) => {
            Hold::Clears
        }
        // The list of locks is not read atomically, and a moment passes between taking the lock and opening
        // the rollout.
        (false, Some(_)) if is_older => Hold::InDoubt(
            "holds the session's lock, which is older than the process, and not the session's file",
        ),
        (false, _) => Hold::Carries,
    }
}

fn is_lock_of(file: &OpenFile, id: &str) -> bool {
    locks::thread_of(&file.path) == Some(id)
}

fn is_rollout_of(file: &OpenFile, id: &str) -> bool {
    let name = file.path.file_name().and_then(|name| name.to_str());
    name.and_then(id_in_name).is_some_and(|(named, _)| named == id)
}

/// Ties by the files that a process keeps open: a lock where locks cannot be seen, a rollout where there are
/// no locks.
fn by_open_files(
    process: &Process,
    root: &Path,
    harvest: &Harvest,
    known: &HashMap<&str, &Found>,
    kernel: &KernelView,
    ours: &impl Fn(&Process) -> bool,
    claims: &mut Vec<Claim>,
) {
    let Some(files) = process.open_files.seen() else { return };
    for file in files.iter().filter(|file| file.writable) {
        let rollout = file.path.file_name().and_then(|name| name.to_str()).and_then(id_in_name);
        let (id, why) = match (rollout, locks::thread_of(&file.path)) {
            (Some((id, _)), _) => {
                let here = match known.get(id) {
                    Some(found) => found.place == file.path,
                    // The rollout was not read yet or not written yet. It is claimed so that it is read once
                    // more.
                    None => file.path.starts_with(root) || ours(process),
                };
                (Some(id).filter(|_| here), "holds the session's file open")
            }
            (None, Some(id)) => {
                let noted = harvest.registrations.iter().any(|note| note.place == file.path);
                let unseen = kernel.locks.seen().is_none();
                (Some(id).filter(|_| noted && unseen), "holds the session's lock file open")
            }
            (None, None) => continue,
        };
        let Some(id) = id else { continue };
        let twice = |claim: &Claim| claim.id == id && claim.owner.process == process.head.process;
        if !claims.iter().any(twice) {
            let mut tied = claim(id, process, Tie::Exact, false, alive(process, kernel, why));
            tied.found =
                harvest.registrations.iter().find(|note| note.id == id).and_then(|note| note.found.clone());
            claims.push(tied);
        }
    }
}

/// Sets the owner's role for the thread and since when it has owned it.
fn describe(claim: &mut Claim, process: &Process, known: Option<&Found>) {
    let role = role(&process.head);
    let is_subagent = known
        .and_then(|found| found.facts.parent.as_ref())
        .is_some_and(|parent| parent.relation == Relation::Subagent);
    claim.owner.headless = role == Role::Run && !is_subagent;
    claim.role = if role == Role::Server { ProcessRole::Server } else { ProcessRole::Agent };
    // A server, and a terminal that switches threads, are older than their ownership of this thread: a turn
    // that was left open before they took the lock is not theirs.
    let taken_at = claim.found.as_ref().and_then(|note| note.stamp).and_then(|stamp| stamp.modified);
    claim.owner.started_at = claim.owner.started_at.max(taken_at);
    if known.is_some() {
        claim.found = None;
    } else if let Some(found) = &mut claim.found {
        found.facts.started_at = made_at(&found.id);
        found.facts.updated_at = found.facts.started_at;
        if role != Role::Server {
            found.facts.cwd = process.cwd.seen().map(|cwd| cwd.to_string_lossy().into_owned());
        }
    }
}

/// Live runs and terminals that own no thread. A terminal beside a live server is a client of that server.
fn strays<'p>(
    idle_hands: &[&'p Process],
    kernel: &KernelView,
    ours: impl Fn(&Process) -> bool,
) -> Vec<(Stray, &'p Process)> {
    let served = kernel.processes.iter().any(|process| role(&process.head) == Role::Server && ours(process));
    let is_stray = |process: &&&Process| match role(&process.head) {
        Role::Run => true,
        Role::Terminal => !served,
        Role::Server | Role::Wrapper | Role::Helper => false,
    };
    let stray = |process: &&'p Process| {
        let cwd = process.cwd.seen().map(|cwd| cwd.to_string_lossy().into_owned());
        (Stray::of(&process.head, cwd), *process)
    };
    idle_hands.iter().filter(is_stray).map(stray).collect()
}

/// The reason why no session may be called stopped: a live process may own threads of this root, and its open
/// files and locks cannot be seen.
fn blindness(kernel: &KernelView, claims: &[Claim], ours: impl Fn(&Process) -> bool) -> Option<String> {
    let locks_hidden = kernel.locks.why_not();
    let may_own = |process: &&Process| {
        let hidden_owner = locks_hidden.is_some() && process.environ.seen().is_none();
        matches!(role(&process.head), Role::Run | Role::Terminal | Role::Server)
            && (ours(process) || hidden_owner)
    };
    unclaimed(kernel, claims).into_iter().filter(may_own).find_map(|process| {
        let why = process.open_files.why_not()?;
        let locks = locks_hidden.map(|why| format!("; locks: {why}")).unwrap_or_default();
        Some(format!(
            "pid {} is alive, and which sessions it holds cannot be seen: {why}{locks}",
            process.pid()
        ))
    })
}
