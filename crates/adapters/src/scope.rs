//! How much an adapter is asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentctl_model::KernelView;
use jiff::Timestamp;

/// Which sessions are wanted.
#[derive(Debug, Clone, Copy)]
pub enum Reach<'a> {
    /// Those that a process may carry: the kernel picked the candidates, so that the cost does not grow with what is stored.
    Live(&'a KernelView),
    /// Every session whose id begins with one of these.
    Ids(&'a [String]),
    /// Everything stored, or what was written since then. Older ones may be given too.
    All { since: Option<Timestamp> },
}

impl Reach<'_> {
    /// Whether this id is asked for by name.
    pub fn names(&self, id: &str) -> bool {
        match self {
            Self::Ids(wanted) => wanted.iter().any(|prefix| id.starts_with(prefix.as_str())),
            Self::Live(_) | Self::All { .. } => true,
        }
    }
}

/// A question to one source.
#[derive(Debug, Clone)]
pub struct Scope<'a> {
    pub reach: Reach<'a>,
    /// Token totals are wanted even where they cost a read of the whole transcript.
    pub usage: bool,
    /// Sub-agents are wanted as sessions of their own.
    pub subagents: bool,
    /// Texts are cut to this many characters; `None` = whole.
    pub text_limit: Option<usize>,
    pub progress: Progress,
}

/// Told with every file or row that was read: a source that works is not late, a silent one is.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    pub fn tick(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
