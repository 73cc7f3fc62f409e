//! What a caller wants to know.

use jiff::Timestamp;

/// Which sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// What a process may carry now.
    Live,
    /// Sessions whose id begins with one of these.
    Ids(Vec<String>),
    /// Everything stored since then (`None`: everything), and whatever is live.
    All { since: Option<Timestamp> },
}

impl Wanted {
    /// Whether a session with this id is asked for, as far as its id tells.
    pub(crate) fn names(&self, id: &str) -> bool {
        match self {
            Self::Ids(wanted) => wanted.iter().any(|prefix| id.starts_with(prefix.as_str())),
            Self::Live | Self::All { .. } => true,
        }
    }
}

/// A question to the whole fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub wanted: Wanted,
    /// Token totals even where they cost a read of the whole transcript.
    pub usage: bool,
    /// Sub-agents as sessions of their own.
    pub subagents: bool,
    /// Whole texts instead of the first 200 characters.
    pub whole_texts: bool,
    /// Only these adapters; empty means all.
    pub adapters: Vec<String>,
    /// Only this config root.
    pub root: Option<String>,
}

/// How many characters of a prompt or message a list carries.
pub(crate) const LIST_TEXT: usize = 200;

impl Question {
    pub fn new(wanted: Wanted) -> Self {
        Self { wanted, usage: false, subagents: false, whole_texts: false, adapters: Vec::new(), root: None }
    }

    pub(crate) fn text_limit(&self) -> Option<usize> {
        (!self.whole_texts).then_some(LIST_TEXT)
    }
}
