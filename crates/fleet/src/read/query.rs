//! What a caller wants to know.

use agentctl_model::SessionKey;
pub use agentctl_model::text::period::Since;
use jiff::Timestamp;

use crate::keep::launches::Record;
use crate::read::list::{ListFilter, StatusFilter};

/// Which sessions a caller wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Sessions that a process may own now.
    Live,
    /// Sessions whose id begins with one of these.
    Ids(Vec<String>),
    /// Everything that was stored since then, and everything that is live.
    All { since: Since },
}

impl Wanted {
    /// Returns what a list shows: live sessions, and with `all` stopped ones too. A period, or a status that stopped
    /// sessions have, also asks for stopped ones.
    pub fn listed(all: bool, since: Option<Since>, statuses: &[StatusFilter]) -> Self {
        if all || since.is_some() || statuses.iter().any(|word| word.reaches_stopped()) {
            Self::All { since: since.unwrap_or(Since::DEFAULT) }
        } else {
            Self::Live
        }
    }

    /// Whether a session with this id is wanted, as far as its id can tell.
    pub(crate) fn names(&self, id: &str) -> bool {
        match self {
            Self::Ids(wanted) => wanted.iter().any(|prefix| id.starts_with(prefix.as_str())),
            Self::Live | Self::All { .. } => true,
        }
    }

    /// How far back stopped sessions are wanted; `None` means as far as anything is stored.
    pub(crate) fn since(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::All { since } => since.start(now),
            Self::Live | Self::Ids(_) => None,
        }
    }
}

/// A query to the whole fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Query {
    pub wanted: Wanted,
    /// Report token totals even where that costs a read of the whole transcript.
    pub usage: bool,
    /// Report every single model call too. They stay beside the session object.
    pub calls: bool,
    /// Report sub-agents as sessions of their own.
    pub subagents: bool,
    /// Report whole texts instead of the first 200 characters.
    pub whole_texts: bool,
    /// Only these adapters; empty means all.
    pub adapters: Vec<String>,
    /// Only this config root.
    pub root: Option<String>,
    /// An agent that only ACP knows, and that is named here, may be started to be asked for its sessions.
    pub asks_agents: bool,
    /// How a list filters and sorts the answer. It does not narrow the survey.
    pub filter: ListFilter,
}

/// How many characters of a prompt or message a list contains.
pub(crate) const LIST_TEXT: usize = 200;

impl Query {
    pub fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            usage: false,
            calls: false,
            subagents: false,
            whole_texts: false,
            adapters: Vec::new(),
            root: None,
            asks_agents: false,
            filter: ListFilter::default(),
        }
    }

    /// Asks for one session, whatever its state. An id may be the prefix of other ids, so the answer may contain more
    /// sessions.
    pub fn one(key: &SessionKey) -> Self {
        Self::stored(&key.adapter, &key.root, &key.id)
    }

    /// Asks for the session of a launch; `None` while the launch has none.
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
