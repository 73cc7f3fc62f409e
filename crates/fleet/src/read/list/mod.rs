//! A list: which sessions, in which order, and how many. `agentctl list` and `GET /v1/sessions` both call this one
//! function.

mod selection;
mod sort;

use agentctl_model::{Session, SourceReport, Surveyed};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use selection::{ListFilter, StatusFilter};
pub use sort::{Sort, sort};

use crate::{Fleet, Query};

/// One survey, filtered and sorted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    pub as_of: Timestamp,
    pub sessions: Vec<Surveyed>,
    /// How many more sessions there were before the limit was applied.
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
    /// Surveys the fleet, filters and sorts the sessions.
    pub fn list(&self, query: &Query) -> Listing {
        let mut survey = self.survey(query);
        survey.fold_twins();
        // A prefix that only one group has is enough, as everywhere.
        let named = |typed: &String| self.group_named(typed).ok().flatten().unwrap_or_else(|| typed.clone());
        let filter = ListFilter { group: query.filter.group.as_ref().map(named), ..query.filter.clone() };
        let mut sessions = filter.of(survey.sessions);
        sort(&mut sessions, filter.sort);
        let shown = filter.limit.unwrap_or(usize::MAX).min(sessions.len());
        let left_out = sessions.len() - shown;
        sessions.truncate(shown);
        Listing { as_of: now(), sessions, left_out, sources: survey.sources, strays: survey.strays.len() }
    }
}

/// No agent writes times finer than milliseconds.
#[expect(clippy::disallowed_methods, reason = "the moment of the look is part of the answer")]
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}
