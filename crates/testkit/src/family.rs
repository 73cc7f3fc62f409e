//! Finds and ends the processes that a test has started, and never any other.
//!
//! A process belongs to a test when it descends from the test's child, lives in that child's session, or carries the
//! test's own marker in its environment (which also finds orphans that were handed to pid 1).

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The environment variable that marks every process of one [`TestHome`](crate::TestHome).
pub(crate) const MARKER: &str = "AGENTCTL_TEST_HOME";

const END_DEADLINE: Duration = Duration::from_secs(10);

/// `root` itself, all its descendants, and the members of the session that it leads.
pub(crate) fn descendants_and_session(root: u32) -> HashSet<u32> {
    let table: Vec<Kin> = pids().filter_map(kin).collect();
    let mut family = HashSet::from([root]);
    loop {
        let before = family.len();
        let born = table.iter().filter(|p| family.contains(&p.parent) || p.session == root).map(|p| p.pid);
        family.extend(born.collect::<Vec<_>>());
        if family.len() == before {
            return family;
        }
    }
}

/// All live processes whose environment says that they belong to the home at `root`.
pub(crate) fn marked(root: &Path) -> HashSet<u32> {
    pids().filter(|pid| is_marked(*pid, root)).collect()
}

fn is_marked(pid: u32, root: &Path) -> bool {
    let wanted = format!("{MARKER}={}", root.display());
    // An unreadable environment belongs to somebody else or to a process that is gone.
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environ.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
}

/// Kills all processes that `find` names, again and again until it names none: a dying parent may still fork.
pub(crate) fn end_all(find: impl Fn() -> HashSet<u32>) {
    let started = Instant::now();
    loop {
        let found = find();
        if found.is_empty() || started.elapsed() > END_DEADLINE {
            return;
        }
        for pid in found {
            kill_if(pid, &find);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Holds the process by a pidfd before it is looked at a second time, so that a recycled pid is never hit.
fn kill_if(pid: u32, find: &impl Fn() -> HashSet<u32>) {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(handle) = pidfd_open(raw, PidfdFlags::empty()) else { return };
    if find().contains(&pid) {
        // The only possible error is that it has ended by itself.
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
}

struct Kin {
    pid: u32,
    parent: u32,
    session: u32,
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
    // The name in brackets may itself hold spaces and brackets, so the fields start after the last one.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let is_gone = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    (!is_gone).then_some(Kin { pid, parent, session })
}
