//! The engine of agentctl. It joins the two witnesses (`read`), acts on sessions (`act`), and keeps the few files that
//! agentctl writes itself (`keep`).
//!
//! One function answers every question about sessions, so `list` and `status`, CLI and API cannot disagree.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write what is read"))]

pub mod act;
mod hold;
pub mod keep;
pub mod read;
pub mod worktree;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::agents::acp::AcpAgent;
use agentctl_adapters::hold::acp::Greeting;
use agentctl_adapters::{Adapter, Follow, Memory, Opening, ReadError, Root, WatchTarget};
use agentctl_model::{Entry, Environ, Surveyed};
use agentctl_process::Kernel;

pub use act::caller::{Caller, all_marks, find_program};
pub use act::gateways::{Preview, UndeliveredCallback};
pub use act::launch::Launching;
pub use act::orphans::{Orphan, Reaped};
pub use act::prune::Pruned;
pub use act::stop::{StopOptions, StopReport, TerminationReport};
pub use act::unattended::{EndedServer, Unattended};
pub use keep::kernel_lock::KernelLock;
pub use keep::locks::{LockError, Locks, ManualLock, session_holders};
pub use keep::store::{Document, Store, StoreError};
pub use read::budget::{BudgetState, in_words as budget_in_words};
pub use read::explain::Explanation;
pub use read::find::{FindError, Purpose, Selector};
pub use read::groups::{Group, Groups, Slot};
pub use read::known_agents::{AdapterEntry, known_agents};
pub use read::list::{ListAnswer, ListFilter, Listing, Sort, StatusFilter, sort};
pub use read::moment::{Moment, Unheard};
pub use read::offers::{Offer, gone_folder};
pub use read::prices::{Price, Prices};
pub use read::query::{Query, Since, Wanted};
pub use read::search::{SearchEnd, SearchQuery, Told};
pub use read::survey::feeds::SourceLine;
use read::survey::peers::guarded;
pub use read::timeline::TimelineQuery;
pub use read::usage::{Spent, UsageAnswer, UsageQuery, moment, zone_of, zone_text};
pub use worktree::root::worktree_root;

/// The questions that a child process of this program answers when it [reads for us](agentctl_files::run_helper).
pub static QUESTIONS: [&agentctl_files::Question; 7] = [
    &agentctl_files::REAL_PATH,
    &agentctl_files::IS_FOLDER,
    &worktree::head::BRANCH,
    &worktree::root::TOP,
    &worktree::root::HELD,
    &worktree::root::RESOLVED,
    &worktree::root::REPOSITORY,
];

/// One adapter at one root, with its timeout.
#[derive(Clone)]
pub struct Source {
    pub adapter: &'static dyn Adapter,
    pub root: Root,
    /// How long the source may make no progress before it counts as timed out.
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

/// All sources of one caller, and the kernel with which they are joined.
pub struct Fleet {
    /// The name of this machine.
    host: String,
    sources: Vec<Source>,
    kernel: Arc<dyn Kernel>,
    prices: Prices,
    /// The directory of the launch records.
    launches: Option<PathBuf>,
    /// The agents that can be started over ACP.
    acp: Arc<[AcpAgent]>,
    /// The variables with which such an agent is started to be asked for its sessions.
    environ: Option<Environ>,
    /// The budgets to which launches keep.
    budgets: Option<read::budget::BudgetBook>,
    /// The moment that is asked about, if it is not now.
    moment: Option<Arc<Moment>>,
    /// What was read of files before. Only a process that lives long enough to survey again has it.
    memory: Option<Arc<Memory>>,
}

impl Fleet {
    pub fn new(sources: Vec<Source>, kernel: Arc<dyn Kernel>) -> Self {
        let sources = guarded(sources, &kernel);
        let acp = agentctl_adapters::agents::acp::built_in().into();
        Self {
            host: own_name(),
            sources,
            kernel,
            prices: Prices::new(),
            launches: None,
            acp,
            environ: None,
            budgets: None,
            moment: None,
            memory: None,
        }
    }

    /// The name of this machine, as its sessions carry it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the same fleet, in which these agents can be started over ACP, with these variables where nothing but
    /// their sessions is asked for.
    #[must_use]
    pub fn with_acp(self, agents: Vec<AcpAgent>, environ: Environ) -> Self {
        Self { acp: agents.into(), environ: Some(environ), ..self }
    }

    /// The agents that can be started over ACP.
    pub fn acp_agents(&self) -> &[AcpAgent] {
        &self.acp
    }

    /// Starts an agent over ACP and asks what it is and offers. The error says why it could not be asked.
    pub fn ask_acp_agent(&self, agent: &AcpAgent) -> Result<Greeting, String> {
        let environ = self.environ.as_ref().ok_or("no variables are known to start it with")?;
        let asked = hold::inquire(agent, environ, false, self.kernel.as_ref())?;
        asked.greeting.ok_or_else(|| "the agent said nothing of itself".to_owned())
    }

    /// The agent of this name, with its prefix.
    pub fn acp_agent(&self, name: &str) -> Option<&AcpAgent> {
        self.acp.iter().find(|agent| agent.name == name)
    }

    /// Returns the same fleet with prices for sessions whose agent reports no cost.
    #[must_use]
    pub fn with_prices(self, prices: Prices) -> Self {
        Self { prices, ..self }
    }

    /// Returns the same fleet, which also reads the records of what agentctl itself started.
    #[must_use]
    pub fn with_launches(self, folder: PathBuf) -> Self {
        Self { launches: Some(folder), ..self }
    }

    /// Returns the same fleet, which does not read unchanged files a second time.
    #[must_use]
    pub fn with_memory(self, memory: Arc<Memory>) -> Self {
        Self { memory: Some(memory), ..self }
    }

    pub fn kernel(&self) -> &dyn Kernel {
        self.kernel.as_ref()
    }

    /// The kernel, for somebody who listens to what it answers.
    pub fn shared_kernel(&self) -> Arc<dyn Kernel> {
        self.kernel.clone()
    }

    /// Returns a fleet that sees the same through another kernel.
    #[must_use]
    pub fn seen_by(&self, kernel: Arc<dyn Kernel>) -> Self {
        Self { kernel, ..self.reading(self.sources.clone()) }
    }

    /// The directory of the launch records.
    pub fn launches_folder(&self) -> Option<&Path> {
        self.launches.as_deref()
    }

    /// Returns a fleet with the same kernel and prices but other sources, for a caller that names its own roots.
    #[must_use]
    pub fn reading(&self, sources: Vec<Source>) -> Self {
        Self {
            host: self.host.clone(),
            sources: guarded(sources, &self.kernel),
            kernel: self.kernel.clone(),
            prices: self.prices.clone(),
            launches: self.launches.clone(),
            acp: self.acp.clone(),
            environ: self.environ.clone(),
            budgets: self.budgets.clone(),
            moment: self.moment.clone(),
            memory: self.memory.clone(),
        }
    }

    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The folders in which changes of live sessions show. A root whose file system does not answer is one itself: what lies
    /// there cannot be asked, and who watches says why it is not watched.
    pub fn watch_targets(&self) -> Vec<WatchTarget> {
        let watched = |source: &Source| {
            let root = &source.root.path;
            // The address of a gateway is no directory.
            if root.is_absolute() && agentctl_files::is_folder_within(root).is_err() {
                return vec![WatchTarget::new(root, 0)];
            }
            source.adapter.watch(&source.root)
        };
        let mut targets: Vec<WatchTarget> = self.sources.iter().flat_map(watched).collect();
        targets.sort();
        targets.dedup();
        targets
    }

    /// Returns the last `limit` entries of a session, oldest first.
    pub fn read(&self, session: &Surveyed, limit: usize) -> Result<Vec<Entry>, ReadError> {
        let (place, id) = (&session.place, &session.key.id);
        let Some(source) = self.source_of(session) else { return Ok(Vec::new()) };
        match source.adapter.gateway() {
            Some(gateway) => gateway.read(&source.root, id, limit),
            None => source.adapter.read(place, id, limit),
        }
    }

    /// Returns the entries of a session as they are written, beginning with the last `backlog`.
    pub fn follow(&self, session: &Surveyed, backlog: usize) -> Result<Option<Box<dyn Follow>>, ReadError> {
        let (place, id) = (&session.place, &session.key.id);
        let Some(source) = self.source_of(session) else { return Ok(None) };
        let follow = match source.adapter.gateway() {
            Some(gateway) => gateway.follow(&source.root, id, backlog),
            None => source.adapter.follow(place, id, backlog),
        };
        follow.map(Some)
    }

    /// Returns the agent's own command that opens a session in a terminal. The variable for the root is left out where
    /// `environ` already leads to that root.
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

    /// Returns the source of this adapter and root.
    pub fn source(&self, adapter: &str, root: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.is(adapter, root))
    }
}
/// What this machine calls itself, up to the first dot: one machine has one name, in whatever network it is.
pub fn own_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    agentctl_model::text::one_line(name.split('.').next().unwrap_or_default())
}
