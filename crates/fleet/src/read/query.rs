//! What a caller wants to know.

use agentctl_model::SessionKey;
pub use agentctl_model::text::period::Since;
use jiff::Timestamp;

use crate::keep::launches::Record;
use crate::read::list::{Narrowing, StatusWord};

/// Which sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// What a process may carry now.
    Live,
    /// Sessions whose id begins with one of these.
    Ids(Vec<String>),
    /// Everything stored since then, and whatever is live.
    All { since: Since },
}

impl Wanted {
    /// What a list shows: live sessions, and with `all` stopped ones too. A time, and a status that stopped sessions have,
    /// ask for those as well.
    pub fn listed(all: bool, since: Option<Since>, statuses: &[StatusWord]) -> Self {
        if all || since.is_some() || statuses.iter().any(|word| word.reaches_stopped()) {
            Self::All { since: since.unwrap_or(Since::DEFAULT) }
        } else {
            Self::Live
        }
    }

    /// Whether a session with this id is asked for, as far as its id tells.
    pub(crate) fn names(&self, id: &str) -> bool {
        match self {
            Self::Ids(wanted) => wanted.iter().any(|prefix| id.starts_with(prefix.as_str())),
            Self::Live | Self::All { .. } => true,
        }
    }

    /// How far back stopped sessions are wanted; `None`: as far as anything is stored.
    pub(crate) fn since(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::All { since } => since.start(now),
            Self::Live | Self::Ids(_) => None,
        }
    }
}

/// A query to the whole fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
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
    /// What a list shows of the answer, and in which order. A survey is not narrowed by it.
    pub narrowing: Narrowing,
}

/// How many characters of a prompt or message a list carries.
pub(crate) const LIST_TEXT: usize = 200;

impl Query {
    pub fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            usage: false,
            subagents: false,
            whole_texts: false,
            adapters: Vec::new(),
            root: None,
            narrowing: Narrowing::default(),
        }
    }

    /// One session, whatever it is. An id is also the beginning of others, so that the answer may hold more.
    pub fn one(key: &SessionKey) -> Self {
        Self::stored(&key.adapter, &key.root, &key.id)
    }

    /// The session of a launch; `None` as long as it has none.
    pub fn of_launch(record: &Record) -> Option<Self> {
        let id = record.session_id.as_deref()?;
        Some(Self::stored(&record.order.adapter, &record.order.root, id))
    }

    fn stored(adapter: &str, root: &str, id: &str) -> Self {
        Self {
            subagents: true,
            adapters: vec![adapter.to_owned()],
            root: Some(root.to_owned()),
            ..Self::new(Wanted::Ids(vec![id.to_owned()]))
        }
    }

    pub(crate) fn text_limit(&self) -> Option<usize> {
        (!self.whole_texts).then_some(LIST_TEXT)
    }
}
