//! A list: which sessions, in which order, and how many. `agentctl list` and `GET /v1/sessions` both call this one
//! function.

mod selection;
mod sort;
mod written;

use std::time::Instant;

use agentctl_model::{HostReport, Road, Session, SourceReport, Surveyed};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use selection::{ListFilter, StatusFilter};
pub use sort::{Sort, sort};

use crate::{Fleet, Query};

/// One survey, filtered and sorted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listing<S = Surveyed> {
    pub as_of: Timestamp,
    pub sessions: Vec<S>,
    /// How many more sessions there were before the limit was applied.
    pub left_out: usize,
    pub sources: Vec<SourceReport>,
    /// The machines that were asked.
    #[serde(default)]
    pub hosts: Vec<HostReport>,
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
    hosts: &'a [HostReport],
}

impl<S: AsRef<Session>> Listing<S> {
    pub fn answer<'a>(&'a self, host: &'a str) -> ListAnswer<'a> {
        ListAnswer {
            as_of: self.as_of,
            host,
            sessions: self.sessions.iter().map(AsRef::as_ref).collect(),
            sources: &self.sources,
            hosts: &self.hosts,
        }
    }
}

impl Fleet {
    /// Surveys the fleet, filters and sorts the sessions.
    pub fn list(&self, query: &Query) -> Listing {
        let began = Instant::now();
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
        let as_of = self.past().unwrap_or_else(now);
        let (sources, strays) = (survey.sources, survey.strays.len());
        let hosts = vec![self.own_report(as_of, &sessions, &sources, began)];
        Listing { as_of, sessions, left_out, sources, hosts, strays }
    }

    /// How this machine was heard.
    pub(crate) fn own_report(
        &self,
        as_of: Timestamp,
        sessions: &[Surveyed],
        sources: &[SourceReport],
        began: Instant,
    ) -> HostReport {
        let mut report = HostReport::unheard(self.host().to_owned(), Road::Local);
        report.version = Some(env!("CARGO_PKG_VERSION").to_owned());
        report.took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        report.heard(as_of, sessions.iter().map(|surveyed| &*surveyed.session), sources);
        report
    }
}

/// No agent writes times finer than milliseconds.
#[expect(clippy::disallowed_methods, reason = "the moment of the look is part of the answer")]
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}
