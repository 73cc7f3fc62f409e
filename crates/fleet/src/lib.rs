//! The room where both witnesses are heard: surveys, and finding one session.
//!
//! One function answers every question about sessions, so `list` and `status`, CLI and API cannot disagree.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write what is read"))]

pub mod act;
pub mod keep;
pub mod read;
pub mod worktree;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::{Adapter, Follow, Memory, Opening, ReadError, Root};
use agentctl_model::{Entry, Environ, Surveyed};
use agentctl_process::Kernel;

pub use act::caller::{Caller, all_marks, find_program};
pub use act::gateways::{Preview, Untold};
pub use act::launch::{LaunchError, Launching};
pub use act::orphans::{Orphan, Reaped};
pub use act::prune::Pruned;
pub use act::steer::SpeakError;
pub use act::stop::{NotStopped, Patience, StopError, Stopped};
pub use keep::kernel_lock::KernelLock;
pub use keep::locks::{LockError, Locks, ManualLock, session_holders};
pub use keep::store::{Document, Store, StoreError};
pub use read::explain::Explanation;
pub use read::find::{FindError, Purpose, Selector};
pub use read::groups::{Group, Groups, Slot};
pub use read::known_agents::{AdapterEntry, known_agents};
pub use read::list::{ListAnswer, Listing, Narrowing, Sort, StatusWord, sort};
pub use read::offers::{Offer, gone_folder};
pub use read::prices::{Price, Prices};
pub use read::query::{Query, Since, Wanted};
pub use read::survey::feeds::SourceLine;
use read::survey::peers::guarded;
pub use worktree::root::worktree_root;

/// What a process of this program that [looks](agentctl_files::answer) can be asked.
pub static QUESTIONS: [&agentctl_files::Question; 6] = [
    &agentctl_files::REAL_PATH,
    &agentctl_files::IS_FOLDER,
    &worktree::head::BRANCH,
    &worktree::root::TOP,
    &worktree::root::HELD,
    &worktree::root::RESOLVED,
];

/// One place to read, with the patience for it.
#[derive(Clone)]
pub struct Source {
    pub adapter: &'static dyn Adapter,
    pub root: Root,
    /// The longest silence before the source counts as timed out.
    pub timeout: Duration,
}

impl Source {
    pub fn name(&self) -> &'static str {
        self.adapter.card().name
    }

    fn is(&self, adapter: &str, root: &str) -> bool {
        self.name() == adapter && self.root.path.as_os_str() == root
    }
}

/// All sources of one caller and the kernel they are joined with.
pub struct Fleet {
    sources: Vec<Source>,
    kernel: Arc<dyn Kernel>,
    prices: Prices,
    /// Where launch records are.
    launches: Option<PathBuf>,
    /// What was counted before, where somebody lives long enough to be asked again.
    memory: Option<Arc<Memory>>,
}

impl Fleet {
    pub fn new(sources: Vec<Source>, kernel: Arc<dyn Kernel>) -> Self {
        let sources = guarded(sources, &kernel);
        Self { sources, kernel, prices: Prices::new(), launches: None, memory: None }
    }

    /// The same, with costs where the agents give none.
    #[must_use]
    pub fn with_prices(self, prices: Prices) -> Self {
        Self { prices, ..self }
    }

    /// The same, knowing what agentctl itself started.
    #[must_use]
    pub fn with_launches(self, folder: PathBuf) -> Self {
        Self { launches: Some(folder), ..self }
    }

    /// The same, not counting twice what stayed as it was.
    #[must_use]
    pub fn with_memory(self, memory: Arc<Memory>) -> Self {
        Self { memory: Some(memory), ..self }
    }

    pub fn kernel(&self) -> &dyn Kernel {
        self.kernel.as_ref()
    }

    /// The same kernel and prices over other sources: for a caller that names its own roots.
    #[must_use]
    pub fn reading(&self, sources: Vec<Source>) -> Self {
        Self {
            sources: guarded(sources, &self.kernel),
            kernel: self.kernel.clone(),
            prices: self.prices.clone(),
            launches: self.launches.clone(),
            memory: self.memory.clone(),
        }
    }

    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The last `limit` entries of a session, oldest first.
    pub fn read(&self, session: &Surveyed, limit: usize) -> Result<Vec<Entry>, ReadError> {
        let (place, id) = (&session.place, &session.key.id);
        let Some(source) = self.source_of(session) else { return Ok(Vec::new()) };
        match source.adapter.gateway() {
            Some(gateway) => gateway.read(&source.root, id, limit),
            None => source.adapter.read(place, id, limit),
        }
    }

    /// Entries as they are written, beginning with the last `backlog`.
    pub fn follow(&self, session: &Surveyed, backlog: usize) -> Result<Option<Box<dyn Follow>>, ReadError> {
        let (place, id) = (&session.place, &session.key.id);
        let Some(source) = self.source_of(session) else { return Ok(None) };
        let follow = match source.adapter.gateway() {
            Some(gateway) => gateway.follow(&source.root, id, backlog),
            None => source.adapter.follow(place, id, backlog),
        };
        follow.map(Some)
    }

    /// The agent's own command that opens a session in a terminal. The variable for the root is left out where `environ`
    /// leads there anyway.
    pub fn opening(&self, session: &Surveyed, environ: &Environ) -> Option<Opening> {
        let source = self.source_of(session)?;
        let mut opening = source.adapter.opening(&source.root, &session.key.id, &session.place)?;
        if source.adapter.root(environ).is_some_and(|own| own.path == source.root.path) {
            opening.root_variable = None;
        }
        Some(opening)
    }

    fn source_of(&self, session: &Surveyed) -> Option<&Source> {
        let key = &session.key;
        let of_adapter = || self.sources.iter().find(|source| source.name() == key.adapter);
        self.source(&key.adapter, &key.root).or_else(of_adapter)
    }

    /// The source of this adapter and root.
    pub fn source(&self, adapter: &str, root: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.is(adapter, root))
    }
}
