//! What the kernel answered while the sessions were surveyed, as data, and a kernel that answers the same again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentctl_model::{
    Environ, HeldLock, NamespaceView, Observed, OpenFile, PidNamespace, Process, ProcessHead, ProcessRef,
    Witnesses,
};
use agentctl_process::{Boot, InspectRequest, Kernel, OpenHow};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::redact::Redactor;

/// A fact, or why it could not be seen.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fact<T> {
    Seen(T),
    Unseen(String),
}

impl<T> From<Observed<T>> for Fact<T> {
    fn from(observed: Observed<T>) -> Self {
        match observed {
            Observed::Seen(value) => Self::Seen(value),
            Observed::Unobservable(why) => Self::Unseen(why),
        }
    }
}

impl<T> From<Fact<T>> for Observed<T> {
    fn from(fact: Fact<T>) -> Self {
        match fact {
            Fact::Seen(value) => Self::Seen(value),
            Fact::Unseen(why) => Self::Unobservable(why),
        }
    }
}

impl<T> Fact<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Self::Seen(value) => Fact::Seen(change(value)),
            Self::Unseen(why) => Fact::Unseen(why),
        }
    }
}

/// Everything that the kernel answered.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is one kind of fact")]
pub struct KernelRecord {
    pub shows_locks: bool,
    pub shows_open_files: bool,
    pub shows_environ: bool,
    pub shows_sockets: bool,
    pub uid: Option<u32>,
    pub boot: String,
    pub booted_at: Option<Timestamp>,
    pub sees_all: bool,
    pub namespace: Option<NamespaceRecord>,
    pub born_at: Option<Timestamp>,
    /// Why the process table could not be read.
    pub blind: Option<String>,
    pub heads: Vec<HeadRecord>,
    pub processes: Vec<ProcessRecord>,
    /// `null` if nobody asked for them.
    pub locks: Option<Fact<Vec<LockRecord>>>,
    pub open: Vec<OpenAnswer>,
    /// Folders that were lent from outside.
    pub lent: BTreeSet<PathBuf>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceRecord {
    machine: Option<String>,
    number: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeadRecord {
    pid: u32,
    start: u64,
    parent: u32,
    uid: Option<u32>,
    comm: String,
    argv: Vec<String>,
    started_at: Option<Timestamp>,
    forked: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessRecord {
    head: HeadRecord,
    exe: Fact<PathBuf>,
    cwd: Fact<PathBuf>,
    environ: Fact<BTreeMap<String, String>>,
    open_files: Fact<Vec<OpenRecord>>,
    inner_pid: Option<u32>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OpenRecord {
    path: PathBuf,
    writable: bool,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct LockRecord {
    pub pid: u32,
    pub device: u64,
    pub inode: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenAnswer {
    path: PathBuf,
    for_writing: bool,
    open: Fact<bool>,
}

/// The variables of a process that a reader looks at; the others are not kept.
fn is_read(name: &str) -> bool {
    matches!(name, "HOME" | "AGENTCTL_LAUNCH_ID" | "AGENTCTL_HOME") || crate::redact::is_known_word(name)
}

/// A kernel that writes down what another one answers.
pub(crate) struct Recorder {
    kernel: Arc<dyn Kernel>,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    heads: Option<Observed<Vec<ProcessHead>>>,
    processes: Vec<Process>,
    locks: Option<Observed<Vec<HeldLock>>>,
    open: Vec<OpenAnswer>,
    lent: BTreeSet<PathBuf>,
}

impl Recorder {
    pub(crate) fn new(kernel: Arc<dyn Kernel>) -> Self {
        Self { kernel, heard: Mutex::default() }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, seen: &Process) {
        let mut heard = self.heard();
        let processes = &mut heard.processes;
        let known = processes.iter_mut().find(|known| known.head.process == seen.head.process);
        let Some(known) = known else {
            processes.push(seen.clone());
            return;
        };
        // What was looked at once is not lost by a later look that did not ask for it.
        if seen.open_files.seen().is_some() {
            known.open_files = seen.open_files.clone();
        }
    }

    /// Returns what was heard: the processes that were inspected, their ancestors and their descendants, the locks on
    /// these files, and of the open files those below these folders.
    pub(crate) fn record(&self, locked: &HashSet<(u64, u64)>, roots: &[PathBuf]) -> KernelRecord {
        let heard = self.heard();
        let (witnesses, boot, view) =
            (self.kernel.witnesses(), self.kernel.boot(), self.kernel.namespace_view());
        let all = heard.heads.as_ref().and_then(Observed::seen).cloned().unwrap_or_default();
        let kept = family(&all, &heard.processes);
        let is_ours = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        let locks = heard.locks.clone().map(|locks| {
            Fact::from(locks).map(|locks| {
                let ours = locks.into_iter().filter(|lock| locked.contains(&(lock.device, lock.inode)));
                ours.map(|HeldLock { pid, device, inode }| LockRecord { pid, device, inode }).collect()
            })
        });
        KernelRecord {
            shows_locks: witnesses.locks,
            shows_open_files: witnesses.open_files,
            shows_environ: witnesses.environ,
            shows_sockets: witnesses.sockets,
            uid: self.kernel.own_uid(),
            boot: format!("{:032x}", boot.id.unwrap_or_default()),
            booted_at: boot.at,
            sees_all: view.sees_all,
            namespace: view.namespace.map(|namespace| NamespaceRecord {
                machine: namespace.machine.map(|machine| format!("{machine:032x}")),
                number: namespace.number,
            }),
            born_at: view.born_at,
            blind: heard.heads.as_ref().and_then(Observed::why_not).map(str::to_owned),
            heads: all.iter().filter(|head| kept.contains(&head.process.pid)).map(head_record).collect(),
            processes: heard.processes.iter().map(|process| process_record(process, is_ours)).collect(),
            locks,
            open: heard.open.clone(),
            lent: heard.lent.clone(),
        }
    }
}

/// The pids of these processes, of those above them and of those below them.
fn family(all: &[ProcessHead], inspected: &[Process]) -> HashSet<u32> {
    let own: HashSet<u32> = inspected.iter().map(Process::pid).collect();
    let mut family = own.clone();
    for pid in &own {
        let mut current = *pid;
        for _ in 0..all.len() {
            let Some(head) = all.iter().find(|head| head.process.pid == current) else { break };
            family.insert(current);
            current = head.parent;
        }
    }
    let mut below = own;
    loop {
        let fresh = all.iter().filter(|head| below.contains(&head.parent));
        let fresh: Vec<u32> = fresh.map(|head| head.process.pid).filter(|pid| !below.contains(pid)).collect();
        if fresh.is_empty() {
            return family.into_iter().chain(below).collect();
        }
        below.extend(fresh);
    }
}

fn head_record(head: &ProcessHead) -> HeadRecord {
    HeadRecord {
        pid: head.process.pid,
        start: head.process.start,
        parent: head.parent,
        uid: head.uid,
        comm: head.comm.clone(),
        argv: head.argv.clone(),
        started_at: head.started_at,
        forked: head.forked,
    }
}

fn process_record(process: &Process, is_ours: impl Fn(&Path) -> bool) -> ProcessRecord {
    let read = |environ: Environ| {
        let pairs = environ.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
        let read = pairs.filter(|(name, _)| is_read(name));
        read.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let below = |files: Vec<OpenFile>| {
        let ours = files.into_iter().filter(|file| is_ours(&file.path));
        ours.map(|OpenFile { path, writable }| OpenRecord { path, writable }).collect()
    };
    ProcessRecord {
        head: head_record(&process.head),
        exe: process.exe.clone().into(),
        cwd: process.cwd.clone().into(),
        environ: Fact::from(process.environ.clone()).map(read),
        open_files: Fact::from(process.open_files.clone()).map(below),
        inner_pid: process.inner_pid,
    }
}

impl Kernel for Recorder {
    fn witnesses(&self) -> Witnesses {
        self.kernel.witnesses()
    }

    fn heads(&self) -> Observed<Vec<ProcessHead>> {
        let heads = self.kernel.heads();
        self.heard().heads = Some(heads.clone());
        heads
    }

    fn inspect(&self, head: &ProcessHead, request: InspectRequest) -> Option<Process> {
        let seen = self.kernel.inspect(head, request)?;
        self.note(&seen);
        Some(seen)
    }

    fn locks(&self) -> Observed<Vec<HeldLock>> {
        let locks = self.kernel.locks();
        self.heard().locks = Some(locks.clone());
        locks
    }

    fn holds(&self, pid: u32, device: u64, inode: u64) -> Observed<bool> {
        self.kernel.holds(pid, device, inode)
    }

    fn is_alive(&self, process: ProcessRef) -> Observed<bool> {
        self.kernel.is_alive(process)
    }

    fn memory(&self, process: ProcessRef) -> Option<u64> {
        self.kernel.memory(process)
    }

    fn own_uid(&self) -> Option<u32> {
        self.kernel.own_uid()
    }

    fn accepted_by(&self, near: SocketAddr, far: SocketAddr) -> Observed<Option<u32>> {
        self.kernel.accepted_by(near, far)
    }

    fn boot(&self) -> Boot {
        self.kernel.boot()
    }

    fn namespace_view(&self) -> NamespaceView {
        self.kernel.namespace_view()
    }

    fn again(&self, process: ProcessRef, request: InspectRequest) -> Observed<Option<Process>> {
        let again = self.kernel.again(process, request);
        if let Observed::Seen(Some(seen)) = &again {
            self.note(seen);
        }
        again
    }

    fn is_same_folder(&self, process: ProcessRef, theirs: &Path, ours: &Path) -> bool {
        self.kernel.is_same_folder(process, theirs, ours)
    }

    fn is_open(&self, path: &Path, how: OpenHow) -> Observed<bool> {
        let open = self.kernel.is_open(path, how);
        let for_writing = how == OpenHow::ForWriting;
        self.heard().open.push(OpenAnswer { path: path.to_owned(), for_writing, open: open.clone().into() });
        open
    }

    fn is_lent(&self, folder: &Path) -> bool {
        let is_lent = self.kernel.is_lent(folder);
        if is_lent {
            self.heard().lent.insert(folder.to_owned());
        }
        is_lent
    }
}

impl KernelRecord {
    /// Replaces every text in it.
    pub(crate) fn redact(&mut self, redactor: &Redactor) {
        let path = |path: &mut PathBuf| *path = redactor.path(path).unwrap_or_default();
        let why = |why: &mut String| *why = redactor.value(why);
        let head = |head: &mut HeadRecord| {
            head.comm = redactor.name(&head.comm);
            head.argv.iter_mut().for_each(|word| *word = redactor.argument(word));
        };
        self.blind.iter_mut().for_each(why);
        // Launch records name it too.
        self.boot = redactor.name(&self.boot);
        if let Some(machine) = self.namespace.as_mut().and_then(|namespace| namespace.machine.as_mut()) {
            *machine = redactor.name(machine);
        }
        self.heads.iter_mut().for_each(head);
        for process in &mut self.processes {
            head(&mut process.head);
            for place in [&mut process.exe, &mut process.cwd] {
                match place {
                    Fact::Seen(seen) => path(seen),
                    Fact::Unseen(reason) => why(reason),
                }
            }
            match &mut process.environ {
                Fact::Seen(environ) => environ.values_mut().for_each(|value| *value = redactor.value(value)),
                Fact::Unseen(reason) => why(reason),
            }
            match &mut process.open_files {
                Fact::Seen(files) => files.iter_mut().for_each(|file| path(&mut file.path)),
                Fact::Unseen(reason) => why(reason),
            }
        }
        if let Some(Fact::Unseen(reason)) = &mut self.locks {
            why(reason);
        }
        for answer in &mut self.open {
            path(&mut answer.path);
            if let Fact::Unseen(reason) = &mut answer.open {
                why(reason);
            }
        }
        self.lent = self.lent.iter().filter_map(|folder| redactor.path(folder)).collect();
    }
}

/// A kernel that answers from a record. Paths of records lie below a private folder.
pub(crate) struct Replayed {
    record: KernelRecord,
    boot: u128,
    /// The private folder, and what is below it.
    inside: PathBuf,
    roots: Vec<PathBuf>,
    /// Which file of ours stands for which one of that machine.
    files: BTreeMap<(u64, u64), (u64, u64)>,
}

impl Replayed {
    pub(crate) fn new(
        record: KernelRecord,
        inside: PathBuf,
        roots: Vec<PathBuf>,
        files: BTreeMap<(u64, u64), (u64, u64)>,
    ) -> Self {
        let boot = u128::from_str_radix(&record.boot, 16).unwrap_or_default();
        Self { record, boot, inside, roots, files }
    }

    /// A path of that machine as it is here, if its records are.
    fn here(&self, path: &Path) -> PathBuf {
        let concerns = |root: &PathBuf| path.starts_with(root) || root.starts_with(path);
        match path.strip_prefix("/") {
            Ok(inner) if self.roots.iter().any(concerns) => self.inside.join(inner),
            _ => path.to_owned(),
        }
    }

    fn there(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.inside).map_or_else(|_| path.to_owned(), |inner| Path::new("/").join(inner))
    }

    fn head(&self, record: &HeadRecord) -> ProcessHead {
        ProcessHead {
            process: ProcessRef { pid: record.pid, start: record.start, boot: self.boot },
            parent: record.parent,
            uid: record.uid,
            comm: record.comm.clone(),
            argv: record.argv.clone(),
            started_at: record.started_at,
            forked: record.forked,
        }
    }

    fn process(&self, record: &ProcessRecord, request: InspectRequest) -> Process {
        let environ = record.environ.clone().map(|pairs| {
            let pairs = pairs.into_iter().map(|(name, value)| {
                let value = if value.starts_with('/') { self.here(Path::new(&value)) } else { value.into() };
                (name, value)
            });
            pairs.collect::<Environ>()
        });
        let open_files = record.open_files.clone().map(|files| {
            let file = |file: OpenRecord| OpenFile { path: self.here(&file.path), writable: file.writable };
            files.into_iter().map(file).collect()
        });
        let unasked = || "not looked at".to_owned();
        Process {
            head: self.head(&record.head),
            exe: record.exe.clone().into(),
            cwd: record.cwd.clone().into(),
            environ: environ.into(),
            open_files: if request.open_files {
                open_files.into()
            } else {
                Observed::Unobservable(unasked())
            },
            // Nobody is asked in a replay.
            listening: if request.listening {
                Observed::Seen(Vec::new())
            } else {
                Observed::Unobservable(unasked())
            },
            inner_pid: record.inner_pid,
        }
    }

    fn named(&self, process: ProcessRef) -> Option<&ProcessRecord> {
        let is_it = |record: &&ProcessRecord| {
            (record.head.pid, record.head.start, self.boot) == (process.pid, process.start, process.boot)
        };
        self.record.processes.iter().find(is_it)
    }
}

impl Kernel for Replayed {
    fn witnesses(&self) -> Witnesses {
        let record = &self.record;
        Witnesses {
            locks: record.shows_locks,
            open_files: record.shows_open_files,
            environ: record.shows_environ,
            sockets: record.shows_sockets,
        }
    }

    fn heads(&self) -> Observed<Vec<ProcessHead>> {
        match &self.record.blind {
            Some(why) => Observed::Unobservable(why.clone()),
            None => Observed::Seen(self.record.heads.iter().map(|head| self.head(head)).collect()),
        }
    }

    fn inspect(&self, head: &ProcessHead, request: InspectRequest) -> Option<Process> {
        self.named(head.process).map(|record| self.process(record, request))
    }

    fn locks(&self) -> Observed<Vec<HeldLock>> {
        let Some(locks) = self.record.locks.clone() else { return Observed::Seen(Vec::new()) };
        let here = |lock: LockRecord| {
            let (device, inode) = *self.files.get(&(lock.device, lock.inode))?;
            Some(HeldLock { pid: lock.pid, device, inode })
        };
        locks.map(|locks| locks.into_iter().filter_map(here).collect()).into()
    }

    fn holds(&self, pid: u32, device: u64, inode: u64) -> Observed<bool> {
        match self.locks() {
            Observed::Seen(locks) => Observed::Seen(locks.contains(&HeldLock { pid, device, inode })),
            Observed::Unobservable(why) => Observed::Unobservable(why),
        }
    }

    fn is_alive(&self, process: ProcessRef) -> Observed<bool> {
        match self.heads() {
            Observed::Seen(heads) => Observed::Seen(heads.iter().any(|head| head.process == process)),
            Observed::Unobservable(why) => Observed::Unobservable(why),
        }
    }

    fn memory(&self, _process: ProcessRef) -> Option<u64> {
        None
    }

    fn own_uid(&self) -> Option<u32> {
        self.record.uid
    }

    fn boot(&self) -> Boot {
        Boot { id: Some(self.boot).filter(|boot| *boot != 0), at: self.record.booted_at }
    }

    fn namespace_view(&self) -> NamespaceView {
        let record = &self.record;
        let number = |text: &String| u128::from_str_radix(text, 16).ok();
        let namespace = record.namespace.as_ref().map(|namespace| PidNamespace {
            machine: namespace.machine.as_ref().and_then(number),
            number: namespace.number,
        });
        let (sees_all, born_at, booted_at) = (record.sees_all, record.born_at, record.booted_at);
        NamespaceView { sees_all, namespace, born_at, booted_at }
    }

    fn again(&self, process: ProcessRef, request: InspectRequest) -> Observed<Option<Process>> {
        Observed::Seen(self.named(process).map(|record| self.process(record, request)))
    }

    fn is_open(&self, path: &Path, how: OpenHow) -> Observed<bool> {
        let there = self.there(path);
        let fits =
            |answer: &&OpenAnswer| answer.path == there && answer.for_writing == (how == OpenHow::ForWriting);
        // The last answer is the one that counted.
        match self.record.open.iter().rfind(fits) {
            Some(answer) => answer.open.clone().into(),
            None => Observed::Unobservable("nobody asked when the snapshot was taken".to_owned()),
        }
    }

    fn is_lent(&self, folder: &Path) -> bool {
        self.record.lent.contains(&self.there(folder))
    }
}
