//! Finds and ends the processes that a test has started, and never any other.
//!
//! A process belongs to a test when it descends from the test's child, is in that child's session, or has the test's
//! marker in its environment (which also finds orphans that pid 1 has adopted).

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The environment variable that marks every process of one [`TestHome`](crate::TestHome).
pub(crate) const MARKER: &str = "AGENTCTL_TEST_HOME";

const END_DEADLINE: Duration = Duration::from_secs(10);
const QUIET_ROUNDS: u32 = 3;

/// Kills the child `root`, which was not reaped yet, with all its descendants and its session. The processes are listed
/// before the first kill, because orphans lose the parent by which they are found; they are listed again until the list is
/// empty, because a dying process may still fork.
pub(crate) fn end_tree(root: u32) {
    let mut known: HashMap<u32, u64> = kin(root).map(|process| (root, process.started)).into_iter().collect();
    end_all(|| {
        let table: Vec<Kin> = pids().filter_map(kin).collect();
        loop {
            let before = known.len();
            let born = table.iter().filter(|p| known.contains_key(&p.parent) || p.session == root);
            known.extend(born.map(|p| (p.pid, p.started)).collect::<Vec<_>>());
            if known.len() == before {
                break;
            }
        }
        known.retain(|pid, started| table.iter().any(|p| p.pid == *pid && p.started == *started));
        known.keys().copied().collect()
    });
}

/// All live processes that have the marker of the home at `root` in their environment.
pub(crate) fn marked(root: &Path) -> HashSet<u32> {
    pids().filter(|pid| is_marked(*pid, root)).collect()
}

/// Signals one process if it belongs to the home at `root`. It is pinned before it is recognised, so a process with a reused
/// pid is never signalled.
pub(crate) fn signal_marked(root: &Path, pid: u32, signal: Signal) {
    if let Some(handle) = hold(pid).filter(|_| is_marked(pid, root)) {
        // The only possible error is that it has ended by itself.
        let _ = pidfd_send_signal(handle, signal);
    }
}

/// Whether the process is dead, reaped or not.
pub(crate) fn is_gone(pid: u32) -> bool {
    kin(pid).is_none()
}

fn is_marked(pid: u32, root: &Path) -> bool {
    let wanted = format!("{MARKER}={}", root.display());
    // An unreadable environment belongs to another user's process or to one that has exited.
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environ.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
}

/// Kills all processes that `find` returns, until it has returned none for several rounds: a process that is just executing
/// a new program has no readable environment for a moment, and a dying one may still fork.
pub(crate) fn end_all(mut find: impl FnMut() -> HashSet<u32>) {
    let started = Instant::now();
    let mut quiet_rounds = 0;
    while quiet_rounds < QUIET_ROUNDS && started.elapsed() < END_DEADLINE {
        // Each process is pinned by a pidfd before it is looked up again, so a process with a reused pid is never killed.
        let held: Vec<_> = find().into_iter().filter_map(|pid| Some((pid, hold(pid)?))).collect();
        let still = if held.is_empty() { HashSet::new() } else { find() };
        for (_, handle) in held.iter().filter(|(pid, _)| still.contains(pid)) {
            // The only possible error is that it has ended by itself.
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
        quiet_rounds = if held.is_empty() { quiet_rounds + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn hold(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

struct Kin {
    pid: u32,
    parent: u32,
    session: u32,
    /// In clock ticks since boot; together with the pid it identifies one process.
    started: u64,
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn kin(pid: u32) -> Option<Kin> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself contain spaces and parentheses, so the fields start after the last one.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let is_gone = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(15)?.parse().ok()?;
    (!is_gone).then_some(Kin { pid, parent, session, started })
}
