//! What sessions have spent, over HTTP.

use std::path::PathBuf;

use agentctl_fleet::{Fleet, Since, UsageQuery, moment, zone_of, zone_text};
use agentctl_model::usage::By;
use agentctl_model::{CoverageKind, HostReport, SourceReport};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use jiff::tz::TimeZone;

use super::sessions::{key, shared_survey};
use super::{App, answer, json, wants_whole};
use crate::run::clock;
use crate::serve::problem::Problem;
use crate::serve::query::{Pairs, Parameter, Parameters, joined};
use crate::serve::server::Peer;
use crate::serve::{chosen_sources, query};
use crate::shared::Shared;

pub(crate) const QUERY: Parameters = &[
    Parameter::word("by", "what the rows are about; day by default", by_words),
    Parameter::text(
        "since",
        "from this moment on: a day, a length of time back from now, an RFC 3339 time, or all (the default)",
    ),
    Parameter::text(
        "until",
        "up to this moment: the end of a day, a length of time back from now, or an RFC 3339 time",
    ),
    Parameter::text(
        "tz",
        "the time zone of days, weeks and months: Europe/Berlin, UTC (the default), +02:00",
    ),
    Parameter::adapter("only sessions of this agent").repeatable(),
    Parameter::text("cwd", "only sessions that work in this folder or below").repeatable(),
    Parameter::flag("strict", "an answer that is not complete is a problem (503, incomplete)"),
];

fn by_words() -> Vec<&'static str> {
    By::ALL.into_iter().map(By::as_str).collect()
}

pub(crate) async fn report(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    RawQuery(raw): RawQuery,
    Extension(pairs): Extension<Pairs>,
) -> Result<Response, Problem> {
    let (asked, strict) = (from(&pairs)?, query::flag(&pairs, "strict"));
    let fleet = chosen_sources::fleet(&*app.settings, &headers, &peer)?;
    let (key, whole) = (key("usage", raw.as_deref(), &headers, &peer), wants_whole(&headers));
    let count = move || {
        // Who asks several machines counts for himself, so that no call counts twice.
        if whole {
            return json(&fleet.spent(&asked));
        }
        let report = fleet.usage(&asked);
        if strict && report.sources.iter().any(SourceReport::is_incomplete) {
            return Err(Problem::incomplete("not every source could be heard completely", report.sources));
        }
        json(&report)
    };
    shared_survey(&app, key, count).await.map(answer)
}

/// The same over several machines.
pub(crate) fn of_hosts(raw: &str, app: &Shared, hosts: &[String], fleet: Fleet) -> Result<Bytes, Problem> {
    let pairs = query::parse(Some(raw), &[QUERY])?;
    let report = app.settings.usage_over(hosts, &from(&pairs)?, fleet)?;
    if query::flag(&pairs, "strict") && !all_heard(&report.hosts) {
        return Err(Problem::incomplete("not every machine could be heard completely", report.sources));
    }
    json(&report)
}

pub(super) fn all_heard(hosts: &[HostReport]) -> bool {
    hosts.iter().all(|row| row.coverage == CoverageKind::Complete)
}

/// What these pairs ask for.
fn from(pairs: &Pairs) -> Result<UsageQuery, Problem> {
    let zone = match query::one(pairs, "tz") {
        Some(text) => zone_of(text).map_err(|words| Problem::usage(format!("tz={text}: {words}")))?,
        None => TimeZone::UTC,
    };
    let at = |name: &str, ending| {
        let text = query::one(pairs, name);
        let read = |text| {
            moment(text, &zone, ending).map_err(|words| Problem::usage(format!("{name}={text}: {words}")))
        };
        text.map(read).transpose()
    };
    let (since, until) = (at("since", false)?, at("until", true)?);
    Ok(UsageQuery {
        by: query::one(pairs, "by").and_then(By::parse).unwrap_or_default(),
        since: since.unwrap_or(Since::Ever),
        until: until.and_then(|until| until.start(clock::now())),
        adapters: query::adapters(pairs),
        folders: query::every(pairs, "cwd").map(PathBuf::from).collect(),
        zone,
    })
}

/// The query string for this report; `None` when a query string cannot express it.
pub fn usage_pairs(asked: &UsageQuery) -> Option<String> {
    let mut pairs = vec![
        ("by", asked.by.as_str().to_owned()),
        ("since", asked.since.to_string()),
        ("tz", zone_text(&asked.zone)?),
    ];
    pairs.extend(asked.until.map(|until| ("until", until.to_string())));
    pairs.extend(asked.adapters.iter().map(|name| ("adapter", name.clone())));
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
    fn a_report_survives_the_journey() {
        let asked = UsageQuery {
            by: By::Model,
            since: Since::Ever,
            until: "2026-11-15T07:00:00Z".parse().ok(),
            zone: zone_of("Europe/Berlin").unwrap(),
            adapters: vec!["codex".into()],
            folders: vec!["/home/dév/a b".into()],
        };
        let raw = usage_pairs(&asked).unwrap();
        assert_eq!(from(&parse(Some(&raw), &[QUERY]).unwrap()).unwrap(), asked);
        for wrong in ["tz=Mars", "since=soon", "until=%7B"] {
            assert_eq!(from(&parse(Some(wrong), &[QUERY]).unwrap()).unwrap_err().code, "usage", "{wrong}");
        }
    }
}
