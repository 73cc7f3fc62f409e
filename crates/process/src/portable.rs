//! Unixes without `/proc`, through `sysinfo`. It also compiles on Linux, where the same tests compare its answers.
//!
//! A process is identified by its pid and the second of its start. That second counts from the epoch and not from the
//! boot, so it is unique without a boot id; every process has the same [`BOOT`]. Locks and open files cannot be read.

use agentctl_model::{
    Environ, HeldLock, Observed, Process as SeenProcess, ProcessHead, ProcessRef, Witnesses,
};
use jiff::Timestamp;
use sysinfo::{Pid, Process, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind};

use crate::{Boot, InspectRequest, Kernel};

/// The boot id in every identity of this backend.
pub const BOOT: u128 = 0;

#[derive(Debug, Default)]
pub struct Portable {
    _private: (),
}

impl Portable {
    pub fn new() -> Self {
        Self::default()
    }
}

impl Kernel for Portable {
    fn witnesses(&self) -> Witnesses {
        Witnesses { locks: false, open_files: false, environ: true, sockets: false }
    }

    fn heads(&self) -> Observed<Vec<ProcessHead>> {
        let system = match refreshed(ProcessesToUpdate::All, for_heads()) {
            Ok(system) => system,
            Err(why) => return Observed::Unobservable(why),
        };
        let mut heads: Vec<_> = system.processes().values().filter(|found| lives(found)).map(head).collect();
        heads.sort_unstable_by_key(|head| head.process.pid);
        Observed::Seen(heads)
    }

    fn boot(&self) -> Boot {
        let second = System::boot_time().ok().and_then(|second| i64::try_from(second).ok());
        Boot { id: None, at: second.and_then(|second| Timestamp::from_second(second).ok()) }
    }

    fn inspect(&self, head: &ProcessHead, _request: InspectRequest) -> Option<SeenProcess> {
        let kind = for_heads()
            .with_exe(UpdateKind::Always)
            .with_cwd(UpdateKind::Always)
            .with_environ(UpdateKind::Always);
        let seen = with_process(head.process, kind, inspected);
        // The second check makes sure that no fact belongs to a later process with the same pid.
        match seen.map(|seen| seen.filter(|_| self.is_alive(head.process) != Observed::Seen(false))) {
            Ok(seen) => seen,
            Err(why) => Some(SeenProcess {
                head: head.clone(),
                exe: Observed::Unobservable(why.clone()),
                cwd: Observed::Unobservable(why.clone()),
                environ: Observed::Unobservable(why.clone()),
                open_files: Observed::Unobservable(why.clone()),
                listening: Observed::Unobservable(why),
                inner_pid: None,
            }),
        }
    }

    fn locks(&self) -> Observed<Vec<HeldLock>> {
        Observed::Unobservable("this platform does not show who holds a file lock".into())
    }

    fn is_alive(&self, process: ProcessRef) -> Observed<bool> {
        match with_process(process, identity_only(), |_| ()) {
            Ok(found) => Observed::Seen(found.is_some()),
            Err(why) => Observed::Unobservable(why),
        }
    }

    fn own_uid(&self) -> Option<u32> {
        let system = refreshed(ProcessesToUpdate::Some(&[own_pid()]), for_heads()).ok()?;
        system.process(own_pid()).and_then(|own| own.effective_user_id().or(own.user_id())).map(|uid| **uid)
    }

    fn memory(&self, process: ProcessRef) -> Option<u64> {
        with_process(process, identity_only().with_memory(), Process::memory).ok().flatten()
    }
}

/// Calls `act` with exactly this process; `None` when it has exited.
pub(crate) fn with_process<T>(
    process: ProcessRef,
    kind: ProcessRefreshKind,
    act: impl FnOnce(&Process) -> T,
) -> Result<Option<T>, String> {
    let pid = Pid::from_u32(process.pid);
    let system = refreshed(ProcessesToUpdate::Some(&[pid, own_pid()]), kind)?;
    let found = system.process(pid).filter(|found| lives(found) && reference(found) == process);
    Ok(found.map(act))
}

/// Reads the process table. The library does not report read errors, so our own process is the control: a table without it
/// was not read at all.
fn refreshed(which: ProcessesToUpdate<'_>, kind: ProcessRefreshKind) -> Result<System, String> {
    let mut system = System::new().map_err(|error| format!("cannot read the process table: {error}"))?;
    system.refresh_processes_specifics(which, true, kind);
    let seen = system.process(own_pid()).is_some();
    seen.then_some(system).ok_or_else(|| "this platform does not show its process table".into())
}

fn own_pid() -> Pid {
    Pid::from_u32(std::process::id())
}

pub(crate) fn identity_only() -> ProcessRefreshKind {
    ProcessRefreshKind::nothing().without_tasks()
}

fn for_heads() -> ProcessRefreshKind {
    identity_only().with_cmd(UpdateKind::Always).with_user(UpdateKind::Always)
}

/// Zombies count as dead, and threads (of a process or of the kernel) are not processes.
fn lives(found: &Process) -> bool {
    found.thread_kind().is_none() && !matches!(found.status(), ProcessStatus::Zombie | ProcessStatus::Dead)
}

fn reference(found: &Process) -> ProcessRef {
    ProcessRef { pid: found.pid().as_u32(), start: found.start_time(), boot: BOOT }
}

fn head(found: &Process) -> ProcessHead {
    ProcessHead {
        process: reference(found),
        parent: found.parent().map_or(0, Pid::as_u32),
        uid: found.user_id().map(|uid| **uid),
        comm: found.name().to_string_lossy().into_owned(),
        argv: found.cmd().iter().map(|arg| arg.to_string_lossy().into_owned()).collect(),
        started_at: i64::try_from(found.start_time()).ok().and_then(|at| Timestamp::from_second(at).ok()),
        forked: false,
    }
}

fn inspected(found: &Process) -> SeenProcess {
    let unseen = |what: &str| format!("this platform does not show the {what} of process {}", found.pid());
    let place = |path: Option<&std::path::Path>, what: &str| {
        path.map_or_else(|| Observed::Unobservable(unseen(what)), |path| Observed::Seen(path.into()))
    };
    // The library also returns an empty list when access is denied, and real processes have variables.
    let environ = if found.environ().is_empty() {
        Observed::Unobservable(unseen("environment"))
    } else {
        Observed::Seen(environ(found))
    };
    SeenProcess {
        head: head(found),
        exe: place(found.exe(), "program"),
        cwd: place(found.cwd(), "working folder"),
        environ,
        open_files: Observed::Unobservable(unseen("open files")),
        listening: Observed::Unobservable(unseen("listening sockets")),
        inner_pid: None,
    }
}

fn environ(found: &Process) -> Environ {
    let pairs = found.environ().iter().filter_map(|pair| {
        let (name, value) = pair.to_str()?.split_once('=')?;
        Some((name, value))
    });
    // Of two variables with one name the first one counts, as in `getenv`. `collect` keeps the last, hence `rev`.
    pairs.collect::<Vec<_>>().into_iter().rev().collect()
}
