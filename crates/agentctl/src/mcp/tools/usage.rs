//! `usage`: what `agentctl usage` counts.

use std::path::PathBuf;

use agentctl_fleet::{Since, UsageQuery, moment, zone_of};
use agentctl_model::Error;
use agentctl_model::text::{self, counted};
use agentctl_model::usage::{By, Total, UsageRow};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list_sessions::Unheard;
use super::{Card, Request, Told, TypedTool};
use crate::mcp::desk::Desk;

const USUAL: usize = 20;
const MOST: usize = 200;

pub(super) struct Usage;

/// What the rows are about, and what is counted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Takes {
    /// What the rows are about: days, unless another word is given.
    #[serde(default)]
    by: By,
    /// From this moment on: a day, 30d, 12h, an RFC 3339 time. Everything, unless it is given.
    since: Option<String>,
    /// Up to this moment: the end of a day, 12h (ago), or an RFC 3339 time.
    until: Option<String>,
    /// The time zone of days, weeks and months: Europe/Berlin, UTC, +02:00. That of this machine, unless it is given.
    tz: Option<String>,
    /// Only sessions of this agent.
    adapter: Option<String>,
    /// Only sessions that work in this folder or below.
    cwd: Option<PathBuf>,
    /// At most this many rows: 20, and never more than 200. The total is always that of all.
    limit: Option<usize>,
    /// Leave out this many of the first rows, to page on.
    before: Option<usize>,
}

/// What was spent.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gives {
    as_of: Timestamp,
    by: By,
    /// The first moment that is counted; `null` = from the beginning.
    since: Option<Timestamp>,
    /// The first moment that is not counted any more; `null` = until now.
    until: Option<Timestamp>,
    /// The time zone of days, weeks and months.
    time_zone: String,
    rows: Vec<UsageRow>,
    /// How many more rows there are behind these; `before` pages on.
    left_out: usize,
    /// Of all rows, also of those that are left out.
    total: Total,
    /// The models whose tokens are counted and that have no price.
    unpriced: Vec<String>,
    /// Sources that could not be heard completely: what was spent there is missing.
    not_heard: Vec<Unheard>,
}

impl TypedTool for Usage {
    const CARD: Card = Card {
        name: "usage",
        title: "Count tokens and cost",
        about: "Counts what sessions of this machine have spent, in tokens and US dollars, by day, week, month, model, \
                adapter, cwd or session. Every model call counts once. What has no price is counted in tokens and named.",
        needs: None,
        ends_work: false,
    };
    type Takes = Takes;
    type Gives = Gives;

    fn run(desk: &Desk, takes: Takes, _request: &Request<'_>) -> Result<Told<Gives>, Error> {
        let _look = desk.look();
        let surroundings = desk.surroundings();
        let zone = takes.tz.as_deref().map(zone_of).transpose().map_err(Error::usage)?;
        let zone = zone.unwrap_or_else(|| surroundings.zone.clone());
        let moment_of = |text: &Option<String>, is_end| {
            text.as_deref().map(|text| moment(text, &zone, is_end)).transpose().map_err(Error::usage)
        };
        let (since, until) = (moment_of(&takes.since, false)?, moment_of(&takes.until, true)?);
        let asked = UsageQuery {
            by: takes.by,
            since: since.unwrap_or(Since::Ever),
            until: until.and_then(|until| until.start(surroundings.now())),
            adapters: takes.adapter.into_iter().collect(),
            folders: takes.cwd.iter().flat_map(|given| surroundings.meant_folders(given)).collect(),
            zone,
        };
        let answer = desk.link()?.usage(&asked);
        let skipped = takes.before.unwrap_or(0).min(answer.rows.len());
        let limit = takes.limit.unwrap_or(USUAL).min(MOST);
        let all = answer.rows.len();
        let rows: Vec<UsageRow> = answer.rows.into_iter().skip(skipped).take(limit).collect();
        let left_out = all - skipped - rows.len();
        let more = match left_out {
            0 => String::new(),
            more => format!(", {more} more (page on with before: {})", skipped + rows.len()),
        };
        let total =
            format!("{}; all together: {}", counted(rows.len(), "row", "rows"), figures(&answer.total));
        let not_heard = Unheard::among(&answer.sources, &answer.hosts);
        let unheard = match not_heard.len() {
            0 => String::new(),
            unheard => format!("; {} not heard completely", counted(unheard, "source was", "sources were")),
        };
        let body = rows.iter().map(line).collect::<Vec<_>>().join("\n");
        let data = Gives {
            as_of: answer.as_of,
            by: answer.by,
            since: answer.since,
            until: answer.until,
            time_zone: answer.time_zone,
            rows,
            left_out,
            total: answer.total,
            unpriced: answer.unpriced,
            not_heard,
        };
        Ok(Told { data, headline: format!("{total}{more}{unheard}"), body })
    }
}

fn line(row: &UsageRow) -> String {
    let key = row.key.as_deref().unwrap_or("unknown");
    let name = row.name.as_deref().unwrap_or_default();
    text::one_line(&format!("{key}  {}  {name}", figures(&row.total)))
}

fn figures(total: &Total) -> String {
    let tokens = &total.tokens;
    let parts = [
        ("in", tokens.input),
        ("out", tokens.output),
        ("cache read", tokens.cache_read),
        ("cache write", tokens.cache_write),
    ];
    let mut words: Vec<String> =
        parts.into_iter().filter_map(|(name, count)| Some(format!("{} {name}", count?))).collect();
    words.push(total.cost.map_or_else(|| "no price".to_owned(), |dollars| format!("${dollars:.2}")));
    words.join(", ")
}
