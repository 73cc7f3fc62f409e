//! A process table that tests write themselves. It never reads the kernel's.
//!
//! ```
//! use agentctl_process::fake::{Scripted, ScriptedProcess};
//! use agentctl_process::Kernel;
//!
//! let agent = ScriptedProcess::new(100, &["claude", "--resume", "a"]).cwd("/project").variable("HOME", "/h");
//! let kernel = Scripted::new().process(agent).lock(100, 1, 2).then(Scripted::new());
//! assert_eq!(kernel.heads().seen().map(Vec::len), Some(1));
//! assert_eq!(kernel.heads().seen().map(Vec::len), Some(0)); // the second read, as scripted by `then`
//! ```

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use agentctl_model::{
    Environ, HeldLock, NamespaceView, Observed, OpenFile, Process, ProcessHead, ProcessRef, Witnesses,
};
use jiff::Timestamp;

use crate::{Boot, InspectRequest, Kernel, OpenHow};

/// The boot of every scripted process.
pub const BOOT: u128 = 1;

/// The user id of every scripted process, and of the caller.
pub const US: u32 = 1000;

/// One process of a scripted table. Every field can be set; the builder methods are the short way.
#[derive(Debug, Clone)]
pub struct ScriptedProcess {
    pub process: Process,
    /// The process is listed, but it exits before it is inspected.
    pub gone_when_inspected: bool,
}

impl ScriptedProcess {
    /// A child of pid 1 of which everything is visible: it works in `/`, has no variables and no open files, and its start
    /// time is unknown.
    pub fn new(pid: u32, argv: &[&str]) -> Self {
        let program = argv.first().copied().unwrap_or("scripted");
        let head = ProcessHead {
            process: ProcessRef { pid, start: u64::from(pid), boot: BOOT },
            parent: 1,
            uid: Some(US),
            comm: program.rsplit('/').next().unwrap_or(program).chars().take(15).collect(),
            argv: argv.iter().map(ToString::to_string).collect(),
            started_at: None,
            forked: false,
        };
        let process = Process {
            head,
            exe: Observed::Seen(PathBuf::from(program)),
            cwd: Observed::Seen(PathBuf::from("/")),
            environ: Observed::Seen(Environ::default()),
            open_files: Observed::Seen(Vec::new()),
            listening: Observed::Seen(Vec::new()),
            inner_pid: None,
        };
        Self { process, gone_when_inspected: false }
    }

    #[must_use]
    pub fn parent(mut self, pid: u32) -> Self {
        self.process.head.parent = pid;
        self
    }

    /// A copy of its parent that has run no program of its own yet.
    #[must_use]
    pub fn forked(mut self) -> Self {
        self.process.head.forked = true;
        self
    }

    /// The start in clock ticks: the same pid with another start is another process.
    #[must_use]
    pub fn start(mut self, ticks: u64) -> Self {
        self.process.head.process.start = ticks;
        self
    }

    #[must_use]
    pub fn started_at(mut self, at: Timestamp) -> Self {
        self.process.head.started_at = Some(at);
        self
    }

    #[must_use]
    pub fn comm(mut self, comm: &str) -> Self {
        self.process.head.comm = comm.into();
        self
    }

    #[must_use]
    pub fn exe(mut self, path: impl Into<PathBuf>) -> Self {
        self.process.exe = Observed::Seen(path.into());
        self
    }

    #[must_use]
    pub fn cwd(mut self, path: impl Into<PathBuf>) -> Self {
        self.process.cwd = Observed::Seen(path.into());
        self
    }

    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        let mut environ = self.process.environ.seen().cloned().unwrap_or_default();
        environ.set(name, value);
        self.process.environ = Observed::Seen(environ);
        self
    }

    #[must_use]
    pub fn open(mut self, path: impl Into<PathBuf>, writable: bool) -> Self {
        let mut files = self.process.open_files.seen().cloned().unwrap_or_default();
        files.push(OpenFile { path: path.into(), writable });
        self.process.open_files = Observed::Seen(files);
        self
    }

    #[must_use]
    pub fn listens(mut self, address: SocketAddr) -> Self {
        let mut addresses = self.process.listening.seen().cloned().unwrap_or_default();
        addresses.push(address);
        self.process.listening = Observed::Seen(addresses);
        self
    }

    /// Makes it another user's process: it is listed, but cannot be inspected.
    #[must_use]
    pub fn closed(mut self, why: &str) -> Self {
        self.process.exe = Observed::Unobservable(why.into());
        self.process.cwd = Observed::Unobservable(why.into());
        self.process.environ = Observed::Unobservable(why.into());
        self.process.open_files = Observed::Unobservable(why.into());
        self.process.listening = Observed::Unobservable(why.into());
        self
    }

    #[must_use]
    pub fn uid(mut self, uid: u32) -> Self {
        self.process.head.uid = Some(uid);
        self
    }

    /// Puts it into a pid namespace of its own, in which it has this pid.
    #[must_use]
    pub fn inner_pid(mut self, pid: u32) -> Self {
        self.process.inner_pid = Some(pid);
        self
    }

    #[must_use]
    pub fn gone_when_inspected(mut self) -> Self {
        self.gone_when_inspected = true;
        self
    }

    pub fn reference(&self) -> ProcessRef {
        self.process.head.process
    }
}

/// The state between two reads of the process table.
#[derive(Debug, Clone, Default)]
struct Table {
    processes: Vec<ScriptedProcess>,
    locks: Vec<HeldLock>,
    unobservable: Option<String>,
    locks_unobservable: Option<String>,
    namespace_view: Option<NamespaceView>,
    open_elsewhere: Option<Vec<PathBuf>>,
    boot: Option<Boot>,
}

#[derive(Debug, Default)]
struct Script {
    now: Table,
    /// The tables of the later reads.
    next: VecDeque<Table>,
    looks: usize,
}

/// The scripted process table.
#[derive(Debug, Default)]
pub struct Scripted(Mutex<Script>);

impl Scripted {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn process(self, process: ScriptedProcess) -> Self {
        self.starts(process);
        self
    }

    #[must_use]
    pub fn lock(self, pid: u32, device: u64, inode: u64) -> Self {
        self.takes_lock(HeldLock { pid, device, inode });
        self
    }

    /// Every read fails.
    #[must_use]
    pub fn unobservable(self, why: &str) -> Self {
        self.goes_blind(why);
        self
    }

    /// The caller sees only this part of the machine; by default it sees all processes.
    #[must_use]
    pub fn namespace_view(self, view: NamespaceView) -> Self {
        self.script().now.namespace_view = Some(view);
        self
    }

    /// Makes [`Kernel::is_open`] work. Besides the scripted processes, an invisible process has these files open.
    #[must_use]
    pub fn open_elsewhere(self, files: &[PathBuf]) -> Self {
        self.script().now.open_elsewhere = Some(files.to_vec());
        self
    }

    /// The machine started then, and this is its boot. Processes that were scripted before keep theirs.
    #[must_use]
    pub fn booted(self, id: u128, at: Timestamp) -> Self {
        self.script().now.boot = Some(Boot { id: Some(id), at: Some(at) });
        self
    }

    /// Makes it a platform that does not show locks.
    #[must_use]
    pub fn without_locks(self, why: &str) -> Self {
        self.script().now.locks_unobservable = Some(why.into());
        self
    }

    /// The table that the next call of `heads` sees: the first call sees the first table, the second call the next one, and
    /// the last table stays. Other calls are answered from the table of the last call of `heads`.
    #[must_use]
    pub fn then(self, next: Scripted) -> Self {
        let later = next.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        {
            let mut script = self.script();
            script.next.push_back(later.now);
            script.next.extend(later.next);
        }
        self
    }

    /// Starts a process now; a process with the same pid ends.
    pub fn starts(&self, process: ScriptedProcess) {
        let mut script = self.script();
        script.now.processes.retain(|other| other.process.pid() != process.process.pid());
        script.now.processes.push(process);
    }

    /// Ends a process now and releases its locks.
    pub fn ends(&self, pid: u32) {
        let mut script = self.script();
        script.now.processes.retain(|process| process.process.pid() != pid);
        script.now.locks.retain(|lock| lock.pid != pid);
    }

    pub fn takes_lock(&self, lock: HeldLock) {
        self.script().now.locks.push(lock);
    }

    pub fn goes_blind(&self, why: &str) {
        self.script().now.unobservable = Some(why.into());
    }

    pub fn sees_again(&self) {
        self.script().now.unobservable = None;
    }

    /// How often the process table was read.
    pub fn looks(&self) -> usize {
        self.script().looks
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kernel for Scripted {
    fn witnesses(&self) -> Witnesses {
        let locks = self.script().now.locks_unobservable.is_none();
        Witnesses { locks, open_files: true, environ: true, sockets: true }
    }

    /// Every server belongs to the caller's user.
    fn accepted_by(&self, _near: SocketAddr, _far: SocketAddr) -> Observed<Option<u32>> {
        Observed::Seen(Some(US))
    }

    fn heads(&self) -> Observed<Vec<ProcessHead>> {
        let mut script = self.script();
        script.looks += 1;
        if script.looks > 1
            && let Some(next) = script.next.pop_front()
        {
            script.now = next;
        }
        match &script.now.unobservable {
            Some(why) => Observed::Unobservable(why.clone()),
            None => Observed::Seen(
                script.now.processes.iter().map(|process| process.process.head.clone()).collect(),
            ),
        }
    }

    fn inspect(&self, head: &ProcessHead, request: InspectRequest) -> Option<Process> {
        let script = self.script();
        let found = script.now.processes.iter().find(|process| process.reference() == head.process)?;
        let mut process = (!found.gone_when_inspected).then(|| found.process.clone())?;
        if !request.open_files {
            process.open_files = Observed::Unobservable("not looked at".into());
        }
        if !request.listening {
            process.listening = Observed::Unobservable("not looked at".into());
        }
        Some(process)
    }

    fn locks(&self) -> Observed<Vec<HeldLock>> {
        let table = &self.script().now;
        match table.unobservable.as_ref().or(table.locks_unobservable.as_ref()) {
            Some(why) => Observed::Unobservable(why.clone()),
            None => Observed::Seen(table.locks.clone()),
        }
    }

    fn is_alive(&self, process: ProcessRef) -> Observed<bool> {
        let table = &self.script().now;
        match &table.unobservable {
            Some(why) => Observed::Unobservable(why.clone()),
            None => Observed::Seen(table.processes.iter().any(|found| found.reference() == process)),
        }
    }

    fn memory(&self, _process: ProcessRef) -> Option<u64> {
        None
    }

    fn own_uid(&self) -> Option<u32> {
        Some(US)
    }

    fn boot(&self) -> Boot {
        self.script().now.boot.unwrap_or(Boot { id: Some(BOOT), at: None })
    }

    fn namespace_view(&self) -> NamespaceView {
        self.script().now.namespace_view.unwrap_or(NamespaceView::ALL)
    }

    fn is_open(&self, path: &Path, _how: OpenHow) -> Observed<bool> {
        let table = &self.script().now;
        let Some(elsewhere) = &table.open_elsewhere else {
            return Observed::Unobservable("no leases are scripted".into());
        };
        let has_it = |found: &ScriptedProcess| {
            found.process.open_files.seen().is_some_and(|files| files.iter().any(|file| file.path == *path))
        };
        Observed::Seen(elsewhere.iter().any(|file| file == path) || table.processes.iter().any(has_it))
    }

    fn again(&self, process: ProcessRef, request: InspectRequest) -> Observed<Option<Process>> {
        let head = self.script().now.processes.iter().find(|found| found.reference() == process).cloned();
        Observed::Seen(head.and_then(|found| self.inspect(&found.process.head, request)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pids(kernel: &Scripted) -> Option<Vec<u32>> {
        kernel.heads().seen().map(|heads| heads.iter().map(|head| head.process.pid).collect())
    }

    #[test]
    fn looks_follow_the_script_and_the_last_one_stays() {
        let kernel = Scripted::new()
            .process(ScriptedProcess::new(1, &["a"]))
            .then(Scripted::new().process(ScriptedProcess::new(2, &["b"])))
            .then(Scripted::new().unobservable("broken"));
        let first = ScriptedProcess::new(1, &["a"]).reference();
        assert_eq!(pids(&kernel), Some(vec![1]));
        assert_eq!(kernel.is_alive(first), Observed::Seen(true), "still the table of the first look");
        assert_eq!(pids(&kernel), Some(vec![2]));
        assert_eq!(kernel.is_alive(first), Observed::Seen(false));
        assert_eq!((pids(&kernel), pids(&kernel), kernel.looks()), (None, None, 4));
    }

    #[test]
    fn the_table_changes_between_looks() {
        let kernel = Scripted::new().process(ScriptedProcess::new(7, &["a"])).lock(7, 1, 2);
        let head = ScriptedProcess::new(7, &["a"]).process.head;
        kernel.starts(ScriptedProcess::new(7, &["b"]).start(99));
        assert_eq!(kernel.inspect(&head, InspectRequest::default()), None, "the pid has another owner");
        kernel.ends(7);
        assert_eq!(kernel.locks(), Observed::Seen(Vec::new()));
        kernel.goes_blind("gone blind");
        assert_eq!(kernel.heads().why_not(), Some("gone blind"));
        kernel.sees_again();
        assert_eq!(pids(&kernel), Some(Vec::new()));
    }

    #[test]
    fn open_files_are_shown_to_those_who_ask() {
        let agent = ScriptedProcess::new(7, &["a"]).open("/f", true);
        let head = agent.process.head.clone();
        let kernel = Scripted::new().process(agent);
        let unasked = kernel.inspect(&head, InspectRequest::default()).expect("alive");
        assert!(unasked.open_files.why_not().is_some());
        let asked = kernel
            .inspect(&head, InspectRequest { open_files: true, ..InspectRequest::default() })
            .expect("alive");
        assert_eq!(asked.open_files.seen().map(Vec::len), Some(1));
    }
}
