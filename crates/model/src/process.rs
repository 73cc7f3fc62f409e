//! What the kernel shows about processes, as data. The `process` crate reads it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::PathBuf;

use jiff::Timestamp;

use crate::launch::exit::EndedLaunch;

/// The identity of one process. A pid can be reused; this identity cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessRef {
    pub pid: u32,
    /// The start time as the kernel counts it (clock ticks since boot on Linux).
    pub start: u64,
    /// The boot of the machine from which `start` counts.
    pub boot: u128,
}

/// The facts that are cheap to read for every process of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessHead {
    pub process: ProcessRef,
    pub parent: u32,
    pub uid: Option<u32>,
    /// The kernel's short name for the process (15 bytes on Linux).
    pub comm: String,
    pub argv: Vec<String>,
    pub started_at: Option<Timestamp>,
    /// It is a copy of the process that forked it, and has run no program of its own yet. `false` where the platform
    /// does not show it.
    pub forked: bool,
}

impl ProcessHead {
    /// The file name of `argv[0]`, or of the kernel's name when there is no argv.
    pub fn program(&self) -> &str {
        let first = self.argv.first().map_or(self.comm.as_str(), String::as_str);
        first.rsplit('/').next().unwrap_or(first)
    }

    /// The argument after `flag`, or the part after `flag=`.
    pub fn option(&self, flag: &str) -> Option<&str> {
        let mut args = self.argv.iter().skip(1);
        while let Some(arg) = args.next() {
            if arg == "--" {
                return None;
            }
            if arg == flag {
                return args.next().map(String::as_str);
            }
            if let Some(value) = arg.strip_prefix(flag).and_then(|rest| rest.strip_prefix('=')) {
                return Some(value);
            }
        }
        None
    }

    /// Whether one of the arguments is exactly `flag`.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.argv.iter().skip(1).take_while(|arg| *arg != "--").any(|arg| arg == flag)
    }
}

/// A fact that may be unreadable, because access is denied or the platform does not show it. Unreadable never means
/// "nothing".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed<T> {
    Seen(T),
    Unobservable(String),
}

impl<T> Observed<T> {
    pub fn seen(&self) -> Option<&T> {
        match self {
            Self::Seen(value) => Some(value),
            Self::Unobservable(_) => None,
        }
    }

    pub fn why_not(&self) -> Option<&str> {
        match self {
            Self::Seen(_) => None,
            Self::Unobservable(why) => Some(why),
        }
    }
}

/// The environment of one process, or of the caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environ(BTreeMap<OsString, OsString>);

impl Environ {
    /// The value, unless it is empty: agents treat an empty variable as absent.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(OsStr::to_str)
    }

    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    pub fn remove(&mut self, name: &str) {
        self.0.remove(OsStr::new(name));
    }

    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.0.insert(name.into(), value.into());
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environ {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// A file that a process has open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    pub path: PathBuf,
    pub writable: bool,
}

/// All facts about one process, including the expensive ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub head: ProcessHead,
    pub exe: Observed<PathBuf>,
    pub cwd: Observed<PathBuf>,
    pub environ: Observed<Environ>,
    pub open_files: Observed<Vec<OpenFile>>,
    /// The TCP addresses on which it listens and that can be reached from here.
    pub listening: Observed<Vec<SocketAddr>>,
    /// Its pid in its own pid namespace, if that is one below ours (a container).
    pub inner_pid: Option<u32>,
}

impl Process {
    pub fn pid(&self) -> u32 {
        self.head.process.pid
    }

    /// The pid that the process itself writes into its notes.
    pub fn noted_pid(&self) -> u32 {
        self.inner_pid.unwrap_or(self.pid())
    }

    /// A variable of the process; `None` when it is not set or the environment cannot be read.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environ.seen().and_then(|environ| environ.text(name))
    }
}

/// A pid namespace of a machine. The kernel reuses a number only after its namespace is gone, so two namespaces that exist
/// at the same time are the same if their numbers are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PidNamespace {
    /// The machine id, where the machine has one.
    pub machine: Option<u128>,
    pub number: u64,
}

impl PidNamespace {
    /// Parses the text of `/etc/machine-id`, which may be missing, and the target of `/proc/PID/ns/pid`, such as
    /// `pid:[4026531836]`.
    pub fn named(machine: &str, link: &str) -> Option<Self> {
        let machine = match machine.trim() {
            "" => None,
            id => Some(u128::from_str_radix(id, 16).ok()?),
        };
        let number = link.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()?;
        Some(Self { machine, number })
    }
}

/// Which pid namespace the process table shows. A pid is only meaningful within its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceView {
    /// Every process of the machine is visible. If not, absence proves nothing about processes in namespaces above ours or
    /// beside it.
    pub sees_all: bool,
    /// Our own namespace: every process in it is visible.
    pub namespace: Option<PidNamespace>,
    /// When the first process of this namespace started.
    pub born_at: Option<Timestamp>,
    pub booted_at: Option<Timestamp>,
}

impl NamespaceView {
    /// Every process is visible.
    pub const ALL: Self = Self { sees_all: true, namespace: None, born_at: None, booted_at: None };
}

/// Whether a process works under the config root in question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootMembership {
    /// Its variables name this root, or it has a file there open for writing.
    Ours,
    /// Its variables name another root.
    Elsewhere,
    /// Neither can be read, for this reason.
    Unseen(String),
}

/// A file lock that a process holds, with the identity of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeldLock {
    pub pid: u32,
    pub device: u64,
    pub inode: u64,
}

/// Which kinds of facts a backend can read at all.
#[expect(clippy::struct_excessive_bools, reason = "each is one kind of fact")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Witnesses {
    pub locks: bool,
    pub open_files: bool,
    pub environ: bool,
    /// Which user has the other end of a connection.
    pub sockets: bool,
}

/// What an adapter gets from the kernel: the processes that it recognised, inspected, and the holders of file locks.
#[derive(Debug, Clone)]
pub struct KernelView {
    /// When the process table was read: always after the storage with which it is joined.
    pub as_of: Timestamp,
    /// The processes that the adapter recognised. All belong to this user, and none is agentctl.
    pub processes: Vec<Process>,
    /// Under which root each of them works, by pid.
    pub root_memberships: HashMap<u32, RootMembership>,
    /// Children and grandchildren of those processes: tool processes have the agents' marks in their environment.
    pub offspring: Vec<Process>,
    pub locks: Observed<Vec<HeldLock>>,
    /// Which of these processes agentctl started, and for which session; the mark in their environment shows it.
    pub launched: Vec<Launched>,
    /// The sessions that agentctl launched and whose processes have exited.
    pub ended: Vec<EndedLaunch>,
}

/// A process that has the mark of a launch, and the session that the launch record names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    pub pid: u32,
    pub id: String,
    /// It shows its own screen and stays after its turn.
    pub on_screen: bool,
    /// The session was to be held: a server that was started for it serves it alone.
    pub held: bool,
}

impl KernelView {
    /// Whether this process works under the root in question, as far as the kernel shows.
    pub fn is_ours(&self, process: &Process) -> bool {
        self.root_memberships.get(&process.pid()) == Some(&RootMembership::Ours)
    }

    /// The session for which agentctl started this process, if it did.
    pub fn launched_for(&self, process: &Process) -> Option<&str> {
        let launched = self.launched.iter().find(|launched| launched.pid == process.pid());
        launched.map(|launched| launched.id.as_str())
    }

    /// Whether agentctl started this process on its own screen, where it stays after its turn.
    pub fn is_on_screen(&self, process: &Process) -> bool {
        self.launched.iter().any(|launched| launched.pid == process.pid() && launched.on_screen)
    }

    /// The session for which agentctl started this server, if it serves that one alone.
    pub fn private_server_of(&self, process: &Process) -> Option<&str> {
        let launched = self.launched.iter().find(|launched| launched.pid == process.pid() && launched.held);
        launched.map(|launched| launched.id.as_str())
    }

    /// The recognised process that is the parent of this one.
    pub fn parent_among_recognised(&self, process: &Process) -> Option<&Process> {
        self.processes.iter().find(|candidate| candidate.pid() == process.head.parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(argv: &[&str]) -> ProcessHead {
        ProcessHead {
            process: ProcessRef { pid: 1, start: 2, boot: 3 },
            parent: 0,
            uid: None,
            comm: "claude".into(),
            argv: argv.iter().map(ToString::to_string).collect(),
            started_at: None,
            forked: false,
        }
    }

    #[test]
    fn options_are_found_in_both_spellings_and_never_behind_a_double_dash() {
        assert_eq!(head(&["claude", "--session-id", "a"]).option("--session-id"), Some("a"));
        assert_eq!(head(&["claude", "--session-id=a"]).option("--session-id"), Some("a"));
        assert_eq!(head(&["claude", "--", "--session-id", "a"]).option("--session-id"), None);
        assert_eq!(head(&["claude", "--session-idx", "a"]).option("--session-id"), None);
        assert!(head(&["claude", "-p"]).has_flag("-p"));
        assert!(!head(&["claude", "--", "-p"]).has_flag("-p"));
    }

    #[test]
    fn an_empty_variable_is_an_absent_one() {
        let environ = Environ::from_iter([("CODEX_HOME", ""), ("HOME", "/h")]);
        assert_eq!(environ.get("CODEX_HOME"), None);
        assert_eq!(environ.text("HOME"), Some("/h"));
    }
}
