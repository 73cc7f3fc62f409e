//! The disk witnesses: one directory per agent, each reading what that agent itself stores.
//!
//! An adapter receives kernel facts as data and never reads them itself; it cannot spawn, signal or write. It returns
//! the sessions it found and its claims about which process owns which session, and nothing else.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write what is read"))]

pub mod agents;
pub mod cancel;
mod card;
pub mod control;
pub mod feed;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod gateway;
pub mod hold;
pub mod join;
pub mod scope;
pub mod search;
pub mod sqlite;
pub mod transcript;
pub mod ways;
pub mod wire;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use agentctl_model::{
    Capability, Entry, Environ, Harvest, Joined, KernelView, Process, ProcessHead, Stamp, Way,
};
use jiff::Timestamp;

pub use agentctl_files::watch::WatchTarget;
pub use control::opening::Opening;
pub use control::{Answer, Control, ReasonLeft};
pub use feed::{Feed, Line};
pub use gateway::Gateway;
pub use gateway::keys::{Keys, Secret};
pub use gateway::peer::{Peer, PeerCheck};
pub use scope::{Progress, Reach, Scope};
pub use search::stored::{ListFiles, Stored, StoredFile};
pub use search::{Conversation, MayFit};
pub use transcript::jsonl::follow::Follow;
pub use transcript::memory::Memory;
pub use wire::tls::Pin;

/// What an agent is, and what agentctl can do with it.
#[derive(Debug)]
pub struct Card {
    /// The adapter's name in the contract.
    pub name: &'static str,
    /// The agent's own name, for people.
    pub title: &'static str,
    /// The programs a user starts it with, for `doctor`.
    pub programs: &'static [&'static str],
    /// Where it stores its sessions, unless its adapter looks in more places.
    pub home: Option<Home>,
    /// Its own command that opens a stored session, with `ID` for the session's id; empty where it has none.
    pub opened_by: &'static [&'static str],
    /// Every variable that it sets for its children. Nothing that agentctl starts inherits them.
    pub marks: &'static [&'static str],
    /// Those of its marks whose value is the session's id.
    pub id_marks: &'static [&'static str],
    /// Versions whose storage was observed.
    pub known_good: &'static str,
    /// What can be done with every session of the agent, wherever it runs.
    pub capabilities: &'static [Capability],
    /// Where its sessions can be spoken with.
    pub ways: &'static [Way],
    /// The expensive kernel reads that its join needs.
    pub looks: Looks,
    /// What its live processes leave in its files.
    pub trace: Trace,
    /// Its live processes can be asked over a connection (`Adapter::ask`).
    pub can_be_asked: bool,
    /// The facts were observed on the real agent (false: they were only read in its source).
    pub verified: bool,
}

/// Where an agent stores its sessions.
#[derive(Debug, Clone, Copy)]
pub struct Home {
    /// The variable that names a folder.
    pub variable: &'static str,
    /// The folder in the user's home directory that counts if the variable is not set.
    pub usual: &'static str,
    /// The agent's own folder in there, for a variable that several programs share.
    pub inside: Option<&'static str>,
}

/// Expensive kernel reads that a join needs.
#[expect(clippy::struct_excessive_bools, reason = "each is one look")]
#[derive(Debug, Clone, Copy, Default)]
pub struct Looks {
    pub locks: bool,
    pub open_files: bool,
    pub offspring: bool,
    /// The addresses on which the processes listen, so that they can be asked.
    pub listening: bool,
}

/// What a live process leaves in the agent's files for as long as it has a session. Files are visible from every pid
/// namespace that shares them, processes are not: when the process may be in another namespace, this trace is the
/// only thing that can be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// A note that names the process, from its start to its end. A session that no note names has no process.
    Note,
    /// A lock, or a file that the process keeps open. When no process has it open, the session has no process.
    OpenFile,
    /// Nothing, or not always. Its sessions are tied to processes only by what the kernel shows of the processes:
    /// argv, directory, variables.
    Nothing,
}

/// One place that an adapter reads: a config root, plus the directory to which the agent's variables moved its
/// sessions, if they did. For a gateway the path is its address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Root {
    pub path: PathBuf,
    pub store: Option<PathBuf>,
    /// The credentials for a gateway; a directory has none.
    pub keys: Option<Keys>,
}

impl Root {
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), store: None, keys: None }
    }
}

/// Why a transcript could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct ReadError {
    pub path: PathBuf,
    #[source]
    pub source: std::io::Error,
}

impl ReadError {
    pub fn new(path: &Path, source: std::io::Error) -> Self {
        Self { path: path.to_owned(), source }
    }
}

/// One agent, read through its own storage.
pub trait Adapter: Send + Sync {
    fn card(&self) -> &'static Card;

    /// Where an agent with these variables stores its sessions. The caller's variables say what to read; a process's
    /// variables say which source it belongs to.
    fn root(&self, environ: &Environ) -> Option<Root> {
        self.card().home.and_then(|home| home.root(environ)).map(Root::at)
    }

    /// Where a new session is to be kept, for an agent that keeps a session only if its start names the folder.
    fn store_to_name(&self, _root: &Root) -> Option<PathBuf> {
        None
    }

    /// A root that the user configured by path alone; the files there may name variables.
    fn configured_root(&self, path: &Path, _environ: &Environ) -> Root {
        Root::at(path)
    }

    /// What the live process of a session that is stored at `place` leaves in the agent's files.
    fn trace(&self, _place: &Path) -> Trace {
        self.card().trace
    }

    /// Reads the disk. It never fails: a failure is reported as a coverage.
    fn survey(&self, root: &Root, scope: &Scope<'_>) -> Harvest;

    /// Cheap: it uses name and argv only, so that only these processes are read in detail. The vendor's helper
    /// processes, which must not become sessions, may be recognised here and left out by `join`.
    fn recognises(&self, head: &ProcessHead) -> bool;

    /// Whether this process works under this root: the kernel view knows it, or the process's own variables resolve
    /// to it.
    fn is_ours(&self, root: &Root, kernel: &KernelView, process: &Process) -> bool {
        kernel.is_ours(process) || self.leads_to(root, process)
    }

    /// The process's own variables resolve to this root.
    fn leads_to(&self, root: &Root, process: &Process) -> bool {
        process.environ.seen().and_then(|environ| self.root(environ)).as_ref() == Some(root)
    }

    /// Pure: which process owns which session.
    fn join(&self, root: &Root, harvest: &Harvest, kernel: &KernelView) -> Joined;

    /// Only for agents whose live owner can itself be asked (a server of the agent): adds its report to the claims.
    /// It runs under the source's deadline; a server that does not answer leaves the claims as they are.
    fn ask(&self, _root: &Root, _kernel: &KernelView, _joined: &mut Joined) {}

    /// Pure: the agent's own command that opens a stored session in a terminal, where it has one.
    fn opening(&self, root: &Root, id: &str, _place: &Path) -> Option<Opening> {
        Opening::by_id(self.card(), id, &root.path)
    }

    /// Where a change of a live session shows on disk. Watching more than needed costs surveys; watching less delays
    /// the change until the next survey.
    fn watch(&self, root: &Root) -> Vec<WatchTarget> {
        std::iter::once(&root.path).chain(&root.store).map(|path| WatchTarget::new(path, 3)).collect()
    }

    /// The servers of this source that announce changes themselves, where no file changes. This is called again with
    /// every survey; `kernel` reads the processes, for adapters that find their servers there.
    fn lines(&self, _root: &Root, _kernel: &dyn Fn() -> KernelView) -> Vec<Line> {
        Vec::new()
    }

    /// The current state of a place where sessions are stored; `None` when it cannot be read. It equals the stamp of
    /// what was found there as long as nothing has been written since.
    fn stamp(&self, place: &Path) -> Option<Stamp> {
        let now = std::fs::metadata(place).ok()?;
        let modified = now.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
        Some(Stamp { size: now.len(), modified })
    }

    /// The last `limit` entries of a conversation, oldest first.
    fn read(&self, place: &Path, id: &str, limit: usize) -> Result<Vec<Entry>, ReadError>;

    /// Entries as they are written, beginning with the last `backlog` ones.
    fn follow(&self, place: &Path, id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError>;

    /// How a conversation is stored, to be searched.
    fn conversation(&self, place: &Path, id: &str) -> Conversation<'_>;

    /// How the conversations are found that lie in files of their own, without reading one of them; `None` where only a
    /// survey tells. Each file is the place that the survey would give its session.
    fn stored(&self) -> Option<ListFiles> {
        None
    }

    /// The ids of the sessions in a place of many that have a record which may fit, found in one pass; `None` where each
    /// has a place of its own. A session that is not among them does not fit.
    fn candidates(&self, _place: &Path, _may_fit: MayFit<'_>) -> Result<Option<HashSet<String>>, ReadError> {
        Ok(None)
    }

    /// Everything that is read of the databases in which it stores sessions; `None` where it has none.
    fn tables(&self) -> Option<&'static sqlite::excerpt::Tables> {
        None
    }

    /// What can be done with this agent; `None` where it can only be read.
    fn control(&self) -> Option<&'static dyn Control> {
        None
    }

    /// Everything about sessions that live in a gateway: how to connect to it and what can be done there. An adapter
    /// has plans for processes (`control`) or this, never both.
    fn gateway(&self) -> Option<&'static dyn Gateway> {
        None
    }
}

/// Every adapter there is. A new agent is one directory and one line here.
pub fn registry() -> Vec<&'static dyn Adapter> {
    vec![
        &agents::claude_code::ClaudeCode,
        &agents::codex::Codex,
        &agents::pi::Pi,
        &agents::pi_rust::PiRust,
        &agents::opencode::OpenCode,
        &agents::openclaw::OpenClaw,
        &agents::slate::Slate,
        &agents::copilot::Copilot,
        &agents::qwen::Qwen,
        &agents::gemini::Gemini,
        &agents::kimi::Kimi,
    ]
}
