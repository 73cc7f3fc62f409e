//! The room where both witnesses are heard: surveys, and finding one session.
//!
//! One function answers every question about sessions, so `list` and `status`, CLI and API cannot disagree.

mod ask;
mod assemble;
mod find;
mod git_head;
mod hear;
mod look;
mod prices;
mod question;
mod survey;

use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::{Adapter, Follow, ReadError, Root};
use agentctl_model::{Entry, Surveyed};
use agentctl_process::Kernel;

pub use find::{FindError, Selector};
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

    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The last `limit` entries of a session, oldest first.
    pub fn read(&self, session: &Surveyed, limit: usize) -> Result<Vec<Entry>, ReadError> {
        let (place, id) = (&session.place, &session.key.id);
        self.source_of(session)
            .map_or_else(|| Ok(Vec::new()), |source| source.adapter.read_at(&source.root, place, id, limit))
    }

    /// Entries as they are written, beginning with the last `backlog`.
    pub fn follow(&self, session: &Surveyed, backlog: usize) -> Result<Option<Box<dyn Follow>>, ReadError> {
        let (place, id) = (&session.place, &session.key.id);
        self.source_of(session)
            .map(|source| source.adapter.follow_at(&source.root, place, id, backlog))
            .transpose()
    }

    fn source_of(&self, session: &Surveyed) -> Option<&Source> {
        let key = &session.key;
        let of_adapter = || self.sources.iter().filter(|source| source.name() == key.adapter);
        let of_root = of_adapter().find(|source| source.root.path.as_os_str() == key.root.as_str());
        of_root.or_else(|| of_adapter().next())
    }
}
