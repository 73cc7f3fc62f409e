//! The disk witnesses: one folder per agent, each reading what that agent itself stores.
//!
//! An adapter gets kernel facts as data and never looks itself; it cannot spawn, signal or write.
//! It returns what it found, claims about who carries what, and nothing else.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write what is read"))]

pub mod agents;
pub mod cancel;
mod card;
pub mod control;
pub mod feed;
pub mod gateway;
pub mod join;
pub mod scope;
pub mod sqlite;
pub mod transcript;
pub mod wire;

use std::path::{Path, PathBuf};

use agentctl_model::{Capability, Entry, Environ, Harvest, Joined, KernelView, Process, ProcessHead, Stamp};
use jiff::Timestamp;

pub use agentctl_files::watch::WatchTarget;
pub use control::opening::Opening;
pub use control::{Answer, Control};
pub use feed::{Feed, Line};
pub use gateway::Gateway;
pub use gateway::far_end::{FarEnd, FarEnds};
pub use gateway::keys::{Keys, Secret};
pub use scope::{Progress, Reach, Scope};
pub use transcript::jsonl::follow::Follow;
pub use transcript::memory::Memory;
pub use wire::tls::Pin;

/// What an agent is, and what agentctl can do with it.
#[derive(Debug)]
pub struct Card {
    /// The contract's name of the adapter.
    pub name: &'static str,
    /// The agent's own name, for people.
    pub title: &'static str,
    /// The programs a user starts it with, for `doctor`.
    pub programs: &'static [&'static str],
    /// Versions whose storage was observed.
    pub known_good: &'static str,
    pub capabilities: &'static [Capability],
    /// Which expensive looks its join needs.
    pub looks: Looks,
    /// What its live processes leave in its files.
    pub trace: Trace,
    /// Its live processes can be asked (`Adapter::ask`).
    pub can_be_asked: bool,
    /// Facts were observed on the real agent (false: read in its source only).
    pub verified: bool,
}

/// Expensive looks at the kernel that a join needs.
#[expect(clippy::struct_excessive_bools, reason = "each is one look")]
#[derive(Debug, Clone, Copy, Default)]
pub struct Looks {
    pub locks: bool,
    pub open_files: bool,
    pub offspring: bool,
    /// Where the processes listen, to ask them.
    pub listening: bool,
}

/// What a live process leaves in the agent's files for as long as it has a session. Files are seen from every pid namespace
/// that shares them, processes are not: this is all that there is to look at when the process may be in another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// A note that names the process, from its start to its end. A session that no note names has no process.
    Note,
    /// A lock, or a file that it keeps open. Where nobody has it open, the session has no process.
    OpenFile,
    /// Nothing, or not always. Its sessions are tied to processes by what is seen of these alone: argv, directory, variables.
    Nothing,
}

/// One place an adapter reads: a config root, and where the agent's variables moved its sessions, if they did; or a
/// gateway, whose path is its address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Root {
    pub path: PathBuf,
    pub store: Option<PathBuf>,
    /// What opens a gateway; a folder has none.
    pub keys: Option<Keys>,
}

impl Root {
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), store: None, keys: None }
    }

    /// The folder that this variable names, else this one in the home.
    pub(crate) fn moved_by(environ: &Environ, variable: &str, in_home: &str) -> Option<Self> {
        let moved = environ.path(variable);
        moved.or_else(|| environ.path("HOME").map(|home| home.join(in_home))).map(Self::at)
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

/// One agent, heard through its own storage.
pub trait Adapter: Send + Sync {
    fn card(&self) -> &'static Card;

    /// Where an agent with these variables keeps its sessions. The caller's variables say what to read;
    /// a process's variables say which source it belongs to.
    fn root(&self, environ: &Environ) -> Option<Root>;

    /// A root that the user configured by path alone; what is written there may name variables.
    fn configured_root(&self, path: &Path, _environ: &Environ) -> Root {
        Root::at(path)
    }

    /// What the live process of a session that is stored at `place` leaves in the agent's files.
    fn trace(&self, _place: &Path) -> Trace {
        self.card().trace
    }

    /// The disk. Never fails: failure is a coverage.
    fn survey(&self, root: &Root, scope: &Scope<'_>) -> Harvest;

    /// Cheap: name and argv only, so that only these processes are looked at closely. Helpers of the vendor
    /// that must not become sessions may be recognised here and left out by `join`.
    fn recognises(&self, head: &ProcessHead) -> bool;

    /// Whether this process works under this root: it is known to, or its own variables lead there.
    fn is_ours(&self, root: &Root, kernel: &KernelView, process: &Process) -> bool {
        kernel.is_ours(process) || self.leads_to(root, process)
    }

    /// The process's own variables resolve to this root.
    fn leads_to(&self, root: &Root, process: &Process) -> bool {
        process.environ.seen().and_then(|environ| self.root(environ)).as_ref() == Some(root)
    }

    /// Pure: who carries what.
    fn join(&self, root: &Root, harvest: &Harvest, kernel: &KernelView) -> Joined;

    /// Only where the live owner itself can be asked (a server of the agent): puts its word into the claims.
    /// Runs under the source's deadline; a server that does not answer leaves the claims as they are.
    fn ask(&self, _root: &Root, _kernel: &KernelView, _joined: &mut Joined) {}

    /// Pure: the agent's own command that opens a stored session in a terminal, where it has one.
    fn opening(&self, _root: &Root, _id: &str, _place: &Path) -> Option<Opening> {
        None
    }

    /// Where a change of a live session shows on disk. More than needed costs looks, less costs time until the next one.
    fn watch(&self, root: &Root) -> Vec<WatchTarget> {
        std::iter::once(&root.path).chain(&root.store).map(|path| WatchTarget::new(path, 3)).collect()
    }

    /// The servers of this source that tell by themselves when something changes, where no file does. Asked anew with every
    /// look; `kernel` looks at the processes for those that must find their servers there.
    fn lines(&self, _root: &Root, _kernel: &dyn Fn() -> KernelView) -> Vec<Line> {
        Vec::new()
    }

    /// The state of a place where sessions are stored, now; `None` when it cannot be seen. Equal to the stamp of what was
    /// found there as long as nothing was written since.
    fn stamp(&self, place: &Path) -> Option<Stamp> {
        let now = std::fs::metadata(place).ok()?;
        let modified = now.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
        Some(Stamp { size: now.len(), modified })
    }

    /// The last `limit` entries of a conversation, oldest first.
    fn read(&self, place: &Path, id: &str, limit: usize) -> Result<Vec<Entry>, ReadError>;

    /// Entries as they are written, beginning with the last `backlog` ones.
    fn follow(&self, place: &Path, id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError>;

    /// What can be done with this agent; `None` where it can only be read.
    fn control(&self) -> Option<&'static dyn Control> {
        None
    }

    /// Everything about sessions that live in a gateway: its doors and what can be done there. An adapter has plans for
    /// processes (`control`) or this, never both.
    fn gateway(&self) -> Option<&'static dyn Gateway> {
        None
    }
}

/// Every adapter there is. A new agent is one folder and one line here.
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
