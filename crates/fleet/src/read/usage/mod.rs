//! What sessions have spent: a survey that asks for every model call, counted by `model::usage`.

mod counting;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use agentctl_model::usage::{By, Spender, Total, UsageRow, Window};
use agentctl_model::{HostReport, Relation, Session, SourceReport, Surveyed};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Fleet;
use crate::read::list::ListFilter;
use crate::read::prices::table;
use crate::read::query::{Query, Since, Wanted};
use crate::worktree::root::repository_root;

/// What a report is to be about.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageQuery {
    pub by: By,
    pub since: Since,
    /// The first moment that is not counted.
    pub until: Option<Timestamp>,
    /// The time zone of days, weeks and months.
    pub zone: TimeZone,
    /// Only these adapters; empty means all.
    pub adapters: Vec<String>,
    /// Only sessions that work in one of these folders or below; empty means all.
    pub folders: Vec<PathBuf>,
}

/// What `usage --json` prints and `GET /v1/usage` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageAnswer {
    pub as_of: Timestamp,
    pub host: String,
    /// What the rows are about.
    pub by: By,
    /// The first moment that is counted; `null` = from the beginning.
    pub since: Option<Timestamp>,
    /// The first moment that is not counted any more; `null` = until now.
    pub until: Option<Timestamp>,
    /// The time zone of days, weeks and months.
    pub time_zone: String,
    pub rows: Vec<UsageRow>,
    pub total: Total,
    /// The models whose tokens are counted and that have no price.
    pub unpriced: Vec<String>,
    /// The table that prices come from where neither the agent nor the settings say one.
    pub price_table: String,
    pub sources: Vec<SourceReport>,
    pub hosts: Vec<HostReport>,
}

/// What was found on one machine or on several, before it is counted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spent {
    pub as_of: Timestamp,
    pub spenders: Vec<Spender>,
    pub sources: Vec<SourceReport>,
    pub hosts: Vec<HostReport>,
}

impl Fleet {
    /// Counts what was spent. Each call counts at its own time, once, in the session that made it.
    pub fn usage(&self, asked: &UsageQuery) -> UsageAnswer {
        // The table takes a while to unpack, which is done beside the reading. Without a thread it is done when it is needed.
        let _ = std::thread::Builder::new().spawn(table::unpack);
        self.counted(self.spent(asked), asked)
    }

    /// Finds every session that may have spent something, with its calls.
    pub fn spent(&self, asked: &UsageQuery) -> Spent {
        let query = Query {
            usage: true,
            calls: true,
            subagents: true,
            adapters: asked.adapters.clone(),
            filter: ListFilter::default(),
            ..Query::new(Wanted::All { since: asked.since })
        };
        let listing = self.list(&query);
        let filter = ListFilter { folders: asked.folders.clone(), ..ListFilter::default() };
        let is_asked = filter.which(&listing.sessions);
        let spenders = self.spenders(listing.sessions.into_iter().zip(is_asked).collect());
        Spent { as_of: listing.as_of, spenders, sources: listing.sources, hosts: listing.hosts }
    }

    /// Counts what was found, at the prices of this machine.
    pub fn counted(&self, spent: Spent, asked: &UsageQuery) -> UsageAnswer {
        let window = Window { since: asked.since.start(spent.as_of), until: asked.until };
        let report = counting::count(&spent.spenders, (asked.by, &asked.zone), window, &self.prices);
        free_beside(spent.spenders);
        UsageAnswer {
            as_of: spent.as_of,
            host: self.host().to_owned(),
            by: asked.by,
            since: window.since,
            until: window.until,
            time_zone: zone_text(&asked.zone).unwrap_or_else(|| "local".to_owned()),
            rows: report.rows,
            total: report.total,
            unpriced: report.unpriced,
            price_table: table::NAME.to_owned(),
            sources: spent.sources,
            hosts: spent.hosts,
        }
    }

    /// The sessions as spenders; beside each stands whether it counts.
    pub(crate) fn spenders(&self, sessions: Vec<(Surveyed, bool)>) -> Vec<Spender> {
        // A gateway session and the session of the agent behind it are one conversation, which its agent has paid for.
        let natives: HashSet<(&str, &str)> = sessions
            .iter()
            .filter_map(|(one, _)| one.session.meta.native.as_ref())
            .map(|native| (native.adapter.as_str(), native.id.as_str()))
            .collect();
        let stored: HashSet<(&str, &str)> = sessions
            .iter()
            .map(|(one, _)| (one.key.adapter.as_str(), one.key.id.as_str()))
            .filter(|name| !natives.is_empty() && natives.contains(name))
            .collect();
        let is_told_twice = |(one, _): &(Surveyed, bool)| {
            let native = one.session.meta.native.as_ref();
            native.is_some_and(|native| stored.contains(&(native.adapter.as_str(), native.id.as_str())))
        };
        let told_twice: Vec<bool> = sessions.iter().map(is_told_twice).collect();
        let mut places = Places::default();
        let mut spenders = Vec::with_capacity(sessions.len());
        let mut emptied = Vec::with_capacity(sessions.len());
        for ((one, is_counted), is_told_twice) in sessions.into_iter().zip(told_twice) {
            if !is_told_twice {
                let (spender, rest) = self.spender(one, is_counted, &mut places);
                spenders.push(spender);
                emptied.push(rest);
            }
        }
        free_beside(emptied);
        spenders
    }

    /// What counts of a session, and the rest of it.
    fn spender(&self, one: Surveyed, is_counted: bool, places: &mut Places) -> (Spender, Box<Session>) {
        let Surveyed { key, mut session, calls, .. } = one;
        let relation = session.relation;
        let is = |wanted| relation == Some(wanted);
        let spender = Spender {
            host: self.host().to_owned(),
            since: None,
            name: session.name.take().or_else(|| session.prompt.take()),
            place: session.cwd.take().filter(|_| is_counted).map(|cwd| places.of(cwd)),
            started_at: session.started_at,
            updated_at: session.updated_at,
            // What an agent says of a fork as a whole may contain what its parent spent.
            cost: session.cost.filter(|_| !is(Relation::Fork)),
            subagent_of: session.parent_id.take().filter(|_| is(Relation::Subagent)),
            tokens: session.tokens,
            model: session.model.take(),
            calls,
            key,
            is_counted,
        };
        (spender, session)
    }
}

/// Frees a long list, for which nobody waits: a few sessions can have hundreds of thousands of calls. Where no thread can be
/// had, it is freed here.
fn free_beside<T: Send + 'static>(list: Vec<T>) {
    const LONG: usize = 50;
    if list.len() >= LONG {
        let _ = std::thread::Builder::new().spawn(move || drop(list));
    }
}

/// The repository of each folder, looked up once.
#[derive(Default)]
struct Places(HashMap<String, String>);

impl Places {
    fn of(&mut self, cwd: String) -> String {
        let known = self.0.entry(cwd).or_insert_with_key(|cwd| {
            let root = repository_root(Path::new(cwd));
            root.map_or_else(|| cwd.clone(), |root| root.to_string_lossy().into_owned())
        });
        known.clone()
    }
}

/// The zone of this name, or at this distance from UTC: `Europe/Berlin`, `UTC`, `+02:00`.
pub fn zone_of(text: &str) -> Result<TimeZone, String> {
    if text.starts_with(['+', '-']) {
        let moment = jiff::fmt::strtime::parse("%:z", text).ok().and_then(|parsed| parsed.offset());
        return moment
            .map(TimeZone::fixed)
            .ok_or_else(|| format!("`{text}` is no distance from UTC; write it like +02:00"));
    }
    TimeZone::get(text)
        .map_err(|_| format!("`{text}` is no time zone; write it like Europe/Berlin, UTC or +02:00"))
}

/// The text from which [`zone_of`] makes the same zone; `None` for a zone without a name.
pub fn zone_text(zone: &TimeZone) -> Option<String> {
    let fixed = || {
        let seconds = zone.to_fixed_offset().ok()?.seconds();
        let sign = if seconds < 0 { '-' } else { '+' };
        let minutes = seconds.unsigned_abs() / 60;
        Some(format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
    };
    zone.iana_name()
        .map(str::to_owned)
        .or_else(|| (zone == &TimeZone::UTC).then(|| "UTC".to_owned()))
        .or_else(fixed)
}

/// A moment as people type it: a length of time back from now, an RFC 3339 time, `all`, or a day of the zone. A day
/// means its beginning, or with `ending` its end.
pub fn moment(text: &str, zone: &TimeZone, ending: bool) -> Result<Since, String> {
    let Ok(date) = text.parse::<Date>() else {
        return Since::parse(text).map_err(|_| {
            format!(
                "`{text}` is neither a day (2026-11-15), a length of time (7d, 12h), nor an RFC 3339 time"
            )
        });
    };
    let date = if ending { date.checked_add(1.day()).unwrap_or(date) } else { date };
    let begins = zone.to_ambiguous_zoned(date.at(0, 0, 0, 0)).compatible();
    begins
        .map(|at| Since::Moment(at.timestamp()))
        .map_err(|_| format!("`{text}` is no day that can be counted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_zones_are_read_as_people_type_them() {
        let berlin = zone_of("Europe/Berlin").unwrap();
        let at = |text: &str, ending| moment(text, &berlin, ending).map(|since| since.to_string());
        assert_eq!(at("2026-11-15", false).unwrap(), "2026-11-14T23:00:00Z");
        assert_eq!(at("2026-11-15", true).unwrap(), "2026-11-15T23:00:00Z");
        assert_eq!(at("2026-11-15T07:00:00Z", false).unwrap(), "2026-11-15T07:00:00Z");
        assert_eq!(at("all", false).unwrap(), "all");
        assert!(at("yesterday-ish", false).unwrap_err().contains("2026-11-15"));
        for text in ["Europe/Berlin", "UTC", "+02:00", "-05:30"] {
            let zone = zone_of(text).unwrap();
            let again = zone_text(&zone).unwrap();
            assert_eq!(zone_of(&again).unwrap(), zone, "{text} {again}");
        }
        assert!(zone_of("Mars/Olympus").is_err() && zone_of("+99").is_err());
    }
}
