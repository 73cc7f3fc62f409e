//! Who worked, waited and rested when, over HTTP.

use std::path::PathBuf;

use agentctl_fleet::{Fleet, Since, TimelineQuery};
use agentctl_model::SourceReport;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;

use super::sessions::{key, shared_survey};
use super::usage::all_heard;
use super::{App, answer, json};
use crate::serve::problem::Problem;
use crate::serve::query::{Pairs, Parameter, Parameters, joined};
use crate::serve::server::Peer;
use crate::serve::{chosen_sources, query};
use crate::shared::Shared;

pub(crate) const QUERY: Parameters = &[
    Parameter::since("since", "how far back: a length of time, an RFC 3339 time, or all; 24h by default"),
    Parameter::text("id", "only this session: its full id, a unique beginning of it, or its exact name")
        .repeatable(),
    Parameter::adapter("only sessions of this agent").repeatable(),
    Parameter::text("root", "only sessions stored under this config root"),
    Parameter::path("cwd", "only sessions that work in this folder or below").repeatable(),
    Parameter::flag("strict", "an answer that is not complete is a problem (503, incomplete)"),
];

pub(crate) async fn report(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    RawQuery(raw): RawQuery,
    Extension(pairs): Extension<Pairs>,
) -> Result<Response, Problem> {
    let (asked, strict) = (from(&pairs), query::flag(&pairs, "strict"));
    let fleet = chosen_sources::fleet(&*app.settings, &headers, &peer)?;
    let key = key("timeline", raw.as_deref(), &headers, &peer);
    let draw = move || {
        let timeline = fleet.timeline(&asked).map_err(|error| Problem::not_one(error, false))?;
        if strict && timeline.sources.iter().any(SourceReport::is_incomplete) {
            return Err(Problem::incomplete("not every source could be heard completely", timeline.sources));
        }
        json(&timeline)
    };
    shared_survey(&app, key, draw).await.map(answer)
}

/// The same over several machines.
pub(crate) fn of_hosts(raw: &str, app: &Shared, hosts: &[String], fleet: Fleet) -> Result<Bytes, Problem> {
    let pairs = query::parse(Some(raw), &[QUERY])?;
    let asked = from(&pairs);
    if !asked.ids.is_empty() {
        return Err(Problem::usage("a session is asked for on its own machine"));
    }
    let timeline = app.settings.timeline_over(hosts, &asked, fleet)?;
    if query::flag(&pairs, "strict") && !all_heard(&timeline.hosts) {
        return Err(Problem::incomplete("not every machine could be heard completely", timeline.sources));
    }
    json(&timeline)
}

/// What these pairs ask for.
fn from(pairs: &Pairs) -> TimelineQuery {
    let since = query::one(pairs, "since").and_then(|text| Since::parse(text).ok());
    TimelineQuery {
        since: since.unwrap_or(TimelineQuery::WINDOW),
        ids: query::every(pairs, "id").map(str::to_owned).collect(),
        adapters: query::adapters(pairs),
        root: query::one(pairs, "root").map(str::to_owned),
        folders: query::every(pairs, "cwd").map(PathBuf::from).collect(),
    }
}

/// The query string for this timeline; `None` when a query string cannot express it.
pub fn timeline_pairs(asked: &TimelineQuery) -> Option<String> {
    let mut pairs = vec![("since", asked.since.to_string())];
    pairs.extend(asked.ids.iter().map(|id| ("id", id.clone())));
    pairs.extend(asked.adapters.iter().map(|name| ("adapter", name.clone())));
    pairs.extend(asked.root.iter().map(|root| ("root", root.clone())));
    for folder in &asked.folders {
        pairs.push(("cwd", folder.to_str()?.to_owned()));
    }
    Some(joined(&pairs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::query::parse;

    #[test]
    fn a_timeline_survives_the_journey() {
        let asked = TimelineQuery {
            since: Since::Ever,
            ids: vec!["a b".into(), "c&d".into()],
            adapters: vec!["codex".into()],
            root: Some("/home/dév/.codex".into()),
            folders: vec!["/home/dév/a b".into()],
        };
        let raw = timeline_pairs(&asked).unwrap();
        assert_eq!(from(&parse(Some(&raw), &[QUERY]).unwrap()), asked);
        assert_eq!(from(&Pairs::default()).since, TimelineQuery::WINDOW);
        assert_eq!(parse(Some("since=soon"), &[QUERY]).unwrap_err().code, "usage");
    }
}
