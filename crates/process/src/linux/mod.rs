//! Linux: reads `/proc` directly.
//!
//! A process is identified by its pid, its start in clock ticks since boot, and the boot id. Where `/proc` is mounted with
//! `hidepid`, [`Kernel::heads`] does not list the processes of other users, and [`Kernel::is_alive`] returns
//! `Unobservable` for them.
#![expect(clippy::disallowed_methods, reason = "what lies below /proc is the kernel's own")]

mod clock;
mod descriptors;
mod entry;
mod holders;
mod lease;
mod locks;
mod namespaces;
mod sock_diag;
mod sockets;
mod stat;
mod strings;

use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_model::{HeldLock, NamespaceView, Observed, Process, ProcessHead, ProcessRef, Witnesses};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::{Boot, InspectRequest, Kernel, OpenHow, in_halves};
use clock::StartClock;
use entry::{Entry, LookError};
use stat::Stat;

/// How often an open file is checked again while some process is exiting: for a second at most.
const ATTEMPTS_WHILE_EXITING: usize = 200;
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub struct Linux {
    root: PathBuf,
    /// Read once, because it does not change while this program runs. Without it no process can be identified.
    boot: Result<u128, String>,
}

impl Default for Linux {
    fn default() -> Self {
        Self::new()
    }
}

impl Linux {
    pub fn new() -> Self {
        Self::reading("/proc".into())
    }

    fn reading(root: PathBuf) -> Self {
        let path = root.join("sys/kernel/random/boot_id");
        let boot = match std::fs::read_to_string(&path) {
            Ok(text) => boot_id(&text).ok_or_else(|| format!("{} holds no boot id", path.display())),
            Err(error) => Err(format!("cannot read {}: {error}", path.display())),
        };
        Self { root, boot }
    }

    fn folder(&self) -> Result<OwnedFd, LookError> {
        Ok(open(&self.root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    }

    fn all_heads(&self) -> Result<Vec<ProcessHead>, String> {
        let boot = self.boot.clone()?;
        let describe = |error: LookError| error.describe(&self.root.display().to_string());
        let clock = StartClock::now();
        let folder = self.folder().map_err(describe)?;
        let pids = entry::numbers(&folder).map_err(describe)?;
        let parts = in_halves(&pids, |pids| {
            let (mut heads, mut buffer) = (Vec::with_capacity(pids.len()), Vec::new());
            for &pid in pids {
                match head(&folder, pid, boot, clock, &mut buffer) {
                    Ok(head) => heads.extend(head),
                    Err(LookError::Gone | LookError::Denied(_)) => {}
                    // Callers would take a process that is left out for dead.
                    Err(failed) => return Err(failed.describe(&format!("process {pid}"))),
                }
            }
            Ok(heads)
        });
        let parts: Vec<Vec<ProcessHead>> = parts.into_iter().collect::<Result<_, _>>()?;
        Ok(parts.into_iter().flatten().collect())
    }

    fn open_pid(&self, pid: u32, buffer: &mut Vec<u8>) -> Result<(Entry, Stat), LookError> {
        let entry = Entry::open(self.folder()?, pid.to_string())?;
        let stat = entry.stat(buffer)?;
        Ok((entry, stat))
    }

    fn is_same(&self, process: ProcessRef, stat: &Stat) -> bool {
        self.boot == Ok(process.boot) && stat.start == process.start && stat.is_alive()
    }

    fn is_any_process_exiting(&self) -> bool {
        let Ok(pids) = self.folder().and_then(|folder| entry::numbers(&folder)) else { return false };
        let mut buffer = Vec::new();
        pids.into_iter().any(|pid| self.open_pid(pid, &mut buffer).is_ok_and(|(_, stat)| stat.is_ending()))
    }

    fn inspect_process(&self, process: ProcessRef, request: InspectRequest) -> Result<Process, LookError> {
        let mut buffer = Vec::new();
        let (entry, stat) = self.open_pid(process.pid, &mut buffer)?;
        if !self.is_same(process, &stat) {
            return Err(LookError::Gone);
        }
        let thread = entry.body(&stat, &mut buffer)?;
        let body = thread.as_ref().unwrap_or(&entry);
        let name = |file: &str| format!("{file} of process {}", process.pid);
        let exe = observed(body.link_even_if_deleted("exe"), &name("exe"));
        let cwd = observed(body.link_even_if_deleted("cwd"), &name("cwd"));
        let environ = body.read_loaded("environ", &mut buffer).map(|()| strings::environ(&buffer));
        let open_files = if request.open_files {
            observed(descriptors::open_files(body, &mut buffer), &name("open files"))
        } else {
            Observed::Unobservable("not looked at".into())
        };
        let listening = if request.listening {
            observed(sockets::listening(body, &mut buffer), &name("listening sockets"))
        } else {
            Observed::Unobservable("not looked at".into())
        };
        let argv = argv(body, &mut buffer)?;
        let inner_pid = namespaces::inner_pid(&entry, process.pid, &mut buffer);
        // A process that has died meanwhile shows no files and no variables, which must not be taken for the truth.
        let stat = entry.stat(&mut buffer)?;
        let is_hollow = match &thread {
            Some(thread) => thread.stat(&mut buffer)?.is_hollow(),
            None => stat.is_hollow(),
        };
        if !self.is_same(process, &stat) || is_hollow {
            return Err(LookError::Gone);
        }
        let head = ProcessHead {
            process,
            parent: stat.parent,
            uid: entry.uid(),
            comm: stat.comm,
            argv,
            started_at: StartClock::now().at(stat.start),
            forked: stat.forked,
        };
        let environ = observed(environ, &name("environ"));
        Ok(Process { head, exe, cwd, environ, open_files, listening, inner_pid })
    }
}

impl Kernel for Linux {
    fn witnesses(&self) -> Witnesses {
        Witnesses { locks: true, open_files: true, environ: true, sockets: true }
    }

    fn heads(&self) -> Observed<Vec<ProcessHead>> {
        self.all_heads().map_or_else(Observed::Unobservable, Observed::Seen)
    }

    fn inspect(&self, head: &ProcessHead, request: InspectRequest) -> Option<Process> {
        match self.inspect_process(head.process, request) {
            Ok(process) => Some(process),
            Err(LookError::Gone) => None,
            Err(error) => {
                let why = error.describe(&format!("process {}", head.process.pid));
                Some(Process {
                    head: head.clone(),
                    exe: Observed::Unobservable(why.clone()),
                    cwd: Observed::Unobservable(why.clone()),
                    environ: Observed::Unobservable(why.clone()),
                    open_files: Observed::Unobservable(why.clone()),
                    listening: Observed::Unobservable(why),
                    inner_pid: None,
                })
            }
        }
    }

    fn locks(&self) -> Observed<Vec<HeldLock>> {
        let path = self.root.join("locks");
        match (read_at_once(&path), self.folder()) {
            (Ok(text), Ok(folder)) => {
                let held = locks::parse(&String::from_utf8_lossy(&text));
                Observed::Seen(holders::as_stat_names_them(held, &folder))
            }
            (Err(error), _) => Observed::Unobservable(format!("cannot read {}: {error}", path.display())),
            (_, Err(error)) => Observed::Unobservable(error.describe(&self.root.display().to_string())),
        }
    }

    fn holds(&self, pid: u32, device: u64, inode: u64) -> Observed<bool> {
        let look = || holders::holds(&Entry::open(self.folder()?, pid.to_string())?, device, inode);
        let why = match look() {
            Ok(holds) => return Observed::Seen(holds),
            Err(error) => error.describe(&format!("open files of process {pid}")),
        };
        // Everybody may read the table of all locks, but it does not name every holder.
        let locks = self.locks();
        let on_file = |lock: &&HeldLock| (lock.device, lock.inode) == (device, inode);
        let holders: Vec<u32> =
            locks.seen().into_iter().flatten().filter(on_file).map(|lock| lock.pid).collect();
        if holders.is_empty() { Observed::Unobservable(why) } else { Observed::Seen(holders.contains(&pid)) }
    }

    fn memory(&self, process: ProcessRef) -> Option<u64> {
        let mut buffer = Vec::new();
        let (entry, stat) = self.open_pid(process.pid, &mut buffer).ok()?;
        entry.read("statm", &mut buffer).ok().filter(|()| self.is_same(process, &stat))?;
        let text = std::str::from_utf8(&buffer).ok()?;
        let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
        pages.checked_mul(u64::try_from(rustix::param::page_size()).ok()?)
    }

    fn own_uid(&self) -> Option<u32> {
        Some(rustix::process::geteuid().as_raw())
    }

    fn accepted_by(&self, near: SocketAddr, far: SocketAddr) -> Observed<Option<u32>> {
        let look = || sockets::accepted_by(&Entry::open(self.folder()?, "thread-self")?, near, far);
        observed(look(), "the sockets of this machine")
    }

    fn boot(&self) -> Boot {
        Boot { id: self.boot.clone().ok(), at: StartClock::now().boot() }
    }

    fn namespace_view(&self) -> NamespaceView {
        namespaces::view(&self.root)
    }

    fn again(&self, process: ProcessRef, request: InspectRequest) -> Observed<Option<Process>> {
        match self.inspect_process(process, request) {
            Ok(seen) => Observed::Seen(Some(seen)),
            Err(LookError::Gone) => Observed::Seen(None),
            Err(error) => Observed::Unobservable(error.describe(&format!("process {}", process.pid))),
        }
    }

    fn is_same_folder(&self, process: ProcessRef, theirs: &Path, ours: &Path) -> bool {
        let there = || {
            let (entry, stat) = self.open_pid(process.pid, &mut Vec::new()).ok()?;
            self.is_same(process, &stat).then(|| entry.folder_within(theirs).ok()).flatten()
        };
        theirs == ours || namespaces::folder(ours).is_some_and(|here| there() == Some(here))
    }

    fn is_open(&self, path: &Path, how: OpenHow) -> Observed<bool> {
        // A process that was just killed keeps its files a moment longer than its entry in `/proc`. Without this wait it
        // would be taken for an invisible process.
        for _ in 0..ATTEMPTS_WHILE_EXITING {
            let seen = lease::is_open(path, how);
            if seen != Observed::Seen(true) || !self.is_any_process_exiting() {
                return seen;
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
        lease::is_open(path, how)
    }

    fn is_lent(&self, folder: &Path) -> bool {
        namespaces::is_lent(&self.root, folder)
    }

    fn is_alive(&self, process: ProcessRef) -> Observed<bool> {
        if let Err(why) = &self.boot {
            return Observed::Unobservable(why.clone());
        }
        match self.open_pid(process.pid, &mut Vec::new()) {
            Ok((_, stat)) => Observed::Seen(self.is_same(process, &stat)),
            Err(LookError::Gone) if is_hidden(process.pid) => {
                Observed::Unobservable(format!("process {} is hidden from this user", process.pid))
            }
            Err(LookError::Gone) => Observed::Seen(false),
            Err(error) => Observed::Unobservable(error.describe(&format!("process {}", process.pid))),
        }
    }
}

/// `None` for kernel threads and zombies, which have an entry but are not live processes. A process that is exiting has
/// nothing left that identifies it, and counts as gone.
fn head(
    folder: &OwnedFd,
    pid: u32,
    boot: u128,
    clock: StartClock,
    buffer: &mut Vec<u8>,
) -> Result<Option<ProcessHead>, LookError> {
    let entry = Entry::open(folder, pid.to_string())?;
    let stat = entry.stat(buffer)?;
    if stat.kernel_thread || !stat.is_alive() {
        return Ok(None);
    }
    let body = entry.body(&stat, buffer)?;
    let argv = argv(body.as_ref().unwrap_or(&entry), buffer)?;
    Ok(Some(ProcessHead {
        process: ProcessRef { pid, start: stat.start, boot },
        parent: stat.parent,
        uid: entry.uid(),
        comm: stat.comm,
        argv,
        started_at: clock.at(stat.start),
        forked: stat.forked,
    }))
}

fn argv(entry: &Entry, buffer: &mut Vec<u8>) -> Result<Vec<String>, LookError> {
    match entry.read_loaded("cmdline", buffer) {
        Ok(()) => Ok(strings::argv(buffer)),
        // Another user's process that hides its arguments also looks as if it were loading.
        Err(LookError::Loading) => Ok(Vec::new()),
        Err(other) => Err(other),
    }
}

fn observed<T>(look: Result<T, LookError>, what: &str) -> Observed<T> {
    look.map_or_else(|error| Observed::Unobservable(error.describe(what)), Observed::Seen)
}

/// Reads the file in as few system calls as possible: during each of them the kernel blocks every process that takes a lock.
fn read_at_once(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(64 << 10);
    File::open(path)?.read_to_end(&mut text)?;
    Ok(text)
}

/// Whether a process with this pid exists that `/proc` does not show to this user.
fn is_hidden(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::PERM))
}

fn boot_id(text: &str) -> Option<u128> {
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_is_a_number() {
        assert_eq!(boot_id("00000000-0000-0000-0001-00000000000a\n"), Some(0x0001_0000_0000_000a));
        assert_eq!(boot_id(""), None);
    }

    #[test]
    fn a_machine_without_proc_has_no_empty_process_table() {
        let empty = tempfile::tempdir().expect("a folder");
        let kernel = Linux::reading(empty.path().into());
        assert!(kernel.heads().why_not().is_some_and(|why| why.contains("boot_id")));
        assert!(kernel.locks().why_not().is_some());
        let anyone = ProcessRef { pid: 1, start: 1, boot: 1 };
        assert!(kernel.is_alive(anyone).why_not().is_some());
    }
}
