//! How much an adapter is asked to read.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use agentctl_model::KernelView;
use jiff::Timestamp;

use crate::transcript::jsonl::open::Opened;
use crate::transcript::memory::{Counted, Memory};

/// Which sessions are wanted.
#[derive(Debug, Clone, Copy)]
pub enum Reach<'a> {
    /// Those that a process may own: the kernel selected the candidates, so the cost does not grow with what is
    /// stored.
    Live(&'a KernelView),
    /// Every session whose id begins with one of these.
    Ids(&'a [String]),
    /// Everything stored, or what was written since then. Older sessions may be returned too.
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
    /// Every single model call is wanted too, with its time and model.
    pub calls: bool,
    /// Sub-agents are wanted as sessions of their own.
    pub subagents: bool,
    /// Texts are cut to this many characters; `None` = whole.
    pub text_limit: Option<usize>,
    pub progress: Progress,
    /// What was read and counted before, for processes that live long enough to ask again.
    pub memory: Option<Arc<Memory>>,
}

impl<'a> Scope<'a> {
    /// The smallest question about these sessions.
    pub fn new(reach: Reach<'a>) -> Self {
        let progress = Progress::default();
        Self { reach, usage: false, calls: false, subagents: false, text_limit: None, progress, memory: None }
    }

    /// The remembered totals of the whole file, if they are wanted and known.
    pub(crate) fn recall(&self, path: &Path, opened: &Opened) -> Option<Counted> {
        self.memory.as_ref().filter(|_| self.usage)?.recall(path, opened.state)
    }
}

/// Counts every file or row that was read. The timeout measures inactivity: a source that makes progress never times
/// out.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Steps>);

#[derive(Debug, Default)]
struct Steps {
    timeout: Option<Duration>,
    count: AtomicU64,
    given_up: AtomicBool,
}

impl Progress {
    /// For a caller that waits this long for the next step.
    pub fn awaited_for(timeout: Duration) -> Self {
        Self(Arc::new(Steps { timeout: Some(timeout), ..Steps::default() }))
    }

    /// How long the caller tolerates inactivity; `None` when it sets no limit.
    pub fn timeout(&self) -> Option<Duration> {
        self.0.timeout
    }

    pub fn tick(&self) {
        self.0.count.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.0.count.load(Ordering::Relaxed)
    }

    /// The opposite direction: the caller has stopped waiting, so nobody needs the rest of the read.
    pub fn give_up(&self) {
        self.0.given_up.store(true, Ordering::Relaxed);
    }

    pub fn is_given_up(&self) -> bool {
        self.0.given_up.load(Ordering::Relaxed)
    }
}
