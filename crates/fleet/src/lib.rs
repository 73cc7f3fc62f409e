//! The room where both witnesses are heard: surveys, and finding one session.
//!
//! One function answers every question about sessions, so `list` and `status`, CLI and API cannot disagree.

mod ask;
mod assemble;
mod explain;
mod find;
mod git_head;
mod hear;
mod known_agents;
mod list;
mod look;
mod prices;
mod question;
mod survey;

use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::{Adapter, Follow, ReadError, Root};
use agentctl_model::{Entry, Surveyed};
use agentctl_process::Kernel;

pub use explain::Explanation;
pub use find::{FindError, Selector};
pub use known_agents::{AdapterEntry, known_agents};
pub use list::{ListAnswer, ListQuery, Listing, Sort, StatusWord, sort};
pub use prices::{Price, Prices};
pub use question::{Question, Wanted};

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
}

/// All sources of one caller and the kernel they are joined with.
pub struct Fleet {
    sources: Vec<Source>,
    kernel: Arc<dyn Kernel>,
    prices: Prices,
}

impl Fleet {
    pub fn new(sources: Vec<Source>, kernel: Arc<dyn Kernel>) -> Self {
        Self { sources, kernel, prices: Prices::new() }
    }

    /// The same, with costs where the agents give none.
    #[must_use]
    pub fn with_prices(self, prices: Prices) -> Self {
        Self { prices, ..self }
    }

    /// The same kernel and prices over other sources: for a caller that names its own roots.
    #[must_use]
    pub fn reading(&self, sources: Vec<Source>) -> Self {
        Self { sources, kernel: self.kernel.clone(), prices: self.prices.clone() }
    }

    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The last `limit` entries of a session, oldest first.
    pub fn read(&self, session: &Surveyed, limit: usize) -> Result<Vec<Entry>, ReadError> {
        self.adapter_of(session)
            .map_or_else(|| Ok(Vec::new()), |adapter| adapter.read(&session.place, &session.key.id, limit))
    }

    /// Entries as they are written, beginning with the last `backlog`.
    pub fn follow(&self, session: &Surveyed, backlog: usize) -> Result<Option<Box<dyn Follow>>, ReadError> {
        self.adapter_of(session)
            .map(|adapter| adapter.follow(&session.place, &session.key.id, backlog))
            .transpose()
    }

    fn adapter_of(&self, session: &Surveyed) -> Option<&'static dyn Adapter> {
        self.sources.iter().find(|source| source.name() == session.key.adapter).map(|source| source.adapter)
    }
}
