//! A list: which sessions, in which order, how many. `agentctl list` and `GET /v1/sessions` are this one function.

#[cfg(test)]
pub(crate) mod made;
mod order;
mod selection;

use std::path::PathBuf;

use agentctl_model::text::period::Since;
use agentctl_model::{Session, SourceReport, Surveyed};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use order::{Sort, sort};
use selection::Selection;
pub use selection::StatusWord;

use crate::{Fleet, Question, Wanted};

/// What a caller wants listed; the words are those of the command line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListQuery {
    /// Also stopped sessions.
    pub all: bool,
    /// How far back stopped sessions are shown; implies `all`.
    pub since: Option<Since>,
    pub limit: Option<usize>,
    pub adapters: Vec<String>,
    pub statuses: Vec<StatusWord>,
    pub group: Option<String>,
    /// Only these folders or below: one folder as typed and as it really is.
    pub folders: Vec<PathBuf>,
    /// Sub-agents as sessions of their own.
    pub subagents: bool,
    pub usage: bool,
    pub sort: Sort,
}

impl ListQuery {
    /// Whether sessions that are not live are looked at.
    pub fn everything(&self) -> bool {
        self.all || self.since.is_some() || self.statuses.iter().any(|word| word.reaches_stopped())
    }
}

/// One look at the fleet, narrowed and in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    pub as_of: Timestamp,
    pub sessions: Vec<Surveyed>,
    /// How many more there were before the limit.
    pub left_out: usize,
    pub sources: Vec<SourceReport>,
    /// How many live agent processes belong to no stored session.
    pub strays: usize,
}

/// What `list --json` prints and `GET /v1/sessions` answers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListAnswer<'a> {
    as_of: Timestamp,
    host: &'a str,
    pub sessions: Vec<&'a Session>,
    sources: &'a [SourceReport],
}

impl Listing {
    pub fn answer<'a>(&'a self, host: &'a str) -> ListAnswer<'a> {
        ListAnswer {
            as_of: self.as_of,
            host,
            sessions: self.sessions.iter().map(|surveyed| &*surveyed.session).collect(),
            sources: &self.sources,
        }
    }
}

impl Fleet {
    /// Asks the fleet and narrows the answer.
    pub fn list(&self, query: &ListQuery) -> Listing {
        let since = query.since.unwrap_or(Since::DEFAULT).start(now());
        let wanted = if query.everything() { Wanted::All { since } } else { Wanted::Live };
        let mut survey = self.survey(&Question {
            usage: query.usage,
            subagents: query.subagents,
            adapters: query.adapters.clone(),
            ..Question::new(wanted)
        });
        survey.fold_twins();
        let selection = Selection {
            live: !query.everything(),
            since,
            statuses: query.statuses.clone(),
            // As everywhere, a beginning that only one has is enough.
            group: query
                .group
                .as_ref()
                .map(|typed| self.group_named(typed).ok().flatten().unwrap_or_else(|| typed.clone())),
            folders: query.folders.clone(),
        };
        let mut sessions = selection.of(survey.sessions);
        sort(&mut sessions, query.sort);
        let shown = query.limit.unwrap_or(usize::MAX).min(sessions.len());
        let left_out = sessions.len() - shown;
        sessions.truncate(shown);
        Listing { as_of: now(), sessions, left_out, sources: survey.sources, strays: survey.strays.len() }
    }
}

/// Milliseconds are as fine as any agent writes.
#[expect(clippy::disallowed_methods, reason = "the moment of the look is part of the answer")]
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}
