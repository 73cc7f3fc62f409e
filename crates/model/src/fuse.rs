//! A limit that the user set on a directory or a session. Data only: the daemon keeps fuses and acts on them.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::SessionKey;

/// How far a fuse has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    Set,
    /// Four fifths of a session's limit are used.
    Warned,
    /// The limit was reached, and whoever is to hear of it is told.
    Reached,
    /// The session was asked to break off.
    Interrupted,
    /// What happens at the end is happening.
    Firing,
    /// The sessions of a budget were stopped; nothing may begin there until the period ends.
    Spent,
}

/// The period of a budget, by the time zone of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Period {
    Day,
    // From Monday on.
    Week,
    Month,
}

impl Period {
    pub const ALL: [Self; 3] = [Self::Day, Self::Week, Self::Month];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|period| period.as_str() == word)
    }

    /// The period around this moment: its first moment, and the first one after it.
    pub fn around(self, now: Timestamp, zone: &TimeZone) -> (Timestamp, Timestamp) {
        let today = zone.to_datetime(now).date();
        let first = match self {
            Self::Day => today,
            Self::Week => {
                let days = i64::from(today.weekday().to_monday_zero_offset());
                today.checked_sub(days.days()).unwrap_or(today)
            }
            Self::Month => today.first_of_month(),
        };
        let length: Span = match self {
            Self::Day => 1.day(),
            Self::Week => 1.week(),
            Self::Month => 1.month(),
        };
        let midnight = |date: jiff::civil::Date| {
            let at = zone.to_ambiguous_zoned(date.at(0, 0, 0, 0)).compatible();
            at.map(|at| at.timestamp())
        };
        let next = first.checked_add(length).and_then(midnight).unwrap_or(Timestamp::MAX);
        (midnight(first).unwrap_or(Timestamp::MIN), next)
    }
}

/// What a budget has counted, at the moment of the answer. It is never on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spent {
    /// The first moment of the period.
    pub from: Timestamp,
    /// The first moment after the period.
    pub until: Timestamp,
    /// All kinds of tokens together.
    pub tokens: u64,
    /// US dollars: the sum of what has a price; `null` if nothing has.
    pub cost: Option<f64>,
    /// How many sessions spent it.
    pub sessions: usize,
    /// Why more may have been spent than is known: what has no price, and what was not heard. Empty = all is known.
    pub blind: Vec<String>,
}

/// What happens when a fuse expires, beside the event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OnExpire {
    /// A command line of the shell, run in the directory.
    pub script: Option<String>,
    /// An address that is told.
    pub webhook: Option<String>,
    /// A name for whoever reads the event.
    pub event: Option<String>,
}

/// A resume that is done at a time, if the session is still as it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedResume {
    pub message: String,
    /// The other fields of the body of `POST /v1/sessions/{id}/resume`.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// The variables that choose where the agent's records are.
    pub variables: BTreeMap<String, String>,
    /// The session's last record when it was planned. Whatever is written later was written by somebody who took it up.
    pub last_record: Option<Timestamp>,
    /// Why it was not done when its time had come, or that nobody knows whether it was. Then it is not tried again.
    #[serde(default)]
    pub problem: Option<String>,
}

/// One fuse, as it is shown and as it lies on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fuse {
    pub id: String,
    /// Of a directory's fuse, and of a budget.
    pub directory: Option<String>,
    /// Of a session's fuse.
    pub session_id: Option<String>,
    /// Of a session's fuse; of a budget, if it is about one agent.
    pub adapter: Option<String>,
    pub config_root: Option<String>,
    /// What tells two sessions of one id apart, where an agent lets one stand twice.
    #[serde(rename = "slot")]
    pub variant: Option<String>,
    pub label: Option<String>,
    pub set_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub max_tokens: Option<u64>,
    pub max_cost: Option<f64>,
    /// Of a budget: what may be spent in each of these.
    #[serde(default)]
    pub per: Option<Period>,
    pub on_expire: OnExpire,
    pub stage: Stage,
    /// When that stage was reached.
    pub stage_at: Timestamp,
    /// Of a budget: what was spent in this period; `null` where it was not counted.
    #[serde(default)]
    pub spent: Option<Spent>,
    /// Of a plan: what the session is told when the fuse expires.
    #[serde(default)]
    pub resume: Option<PlannedResume>,
}

impl Fuse {
    pub fn session(&self) -> Option<SessionKey> {
        Some(SessionKey {
            adapter: self.adapter.clone()?,
            root: self.config_root.clone()?,
            id: self.session_id.clone()?,
            variant: self.variant.clone(),
        })
    }

    /// Whether it is a plan: a resume at a time.
    pub fn is_plan(&self) -> bool {
        self.resume.is_some()
    }

    /// Whether it is a budget: a limit on what the sessions of a directory spend in a period.
    pub fn is_budget(&self) -> bool {
        self.per.is_some()
    }

    /// Whether one takes the place of the other: both are timers on one directory, budgets of one directory, period and
    /// agent, limits of one session, or plans for one.
    pub fn is_about(&self, other: &Self) -> bool {
        let Some(directory) = &self.directory else {
            let are_alike = self.is_plan() == other.is_plan();
            return other.directory.is_none() && self.session() == other.session() && are_alike;
        };
        let agents = self.per.is_none() || self.adapter == other.adapter;
        other.directory.as_ref() == Some(directory) && self.per == other.per && agents
    }

    /// The part of the budget that is spent, as far as it is known: the larger one of cost and tokens.
    pub fn part_spent(&self, spent: &Spent) -> f64 {
        let cost = self.max_cost.zip(spent.cost).map(|(most, cost)| cost / most);
        #[expect(clippy::cast_precision_loss, reason = "nobody spends 2^53 tokens")]
        let tokens = self.max_tokens.map(|most| spent.tokens as f64 / most as f64);
        cost.into_iter().chain(tokens).fold(0.0, f64::max)
    }

    /// Whether nothing is left of the budget. What was reached in this period stays so while not everything is heard.
    pub fn is_spent(&self, spent: &Spent) -> bool {
        let was_reached = self.stage > Stage::Warned && self.stage_at >= spent.from;
        self.part_spent(spent) >= 1.0 || (was_reached && !spent.blind.is_empty())
    }

    /// Names one firing of it. A budget fires in every period anew, and is told by the moment at which it was reached.
    pub fn firing(&self) -> String {
        match self.per {
            Some(_) => format!("{}-{}", self.id, self.stage_at.as_second()),
            None => self.id.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_of_the_zone_also_where_a_day_has_23_hours() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let around = |period: Period, now: &str, zone: &TimeZone| {
            let (from, until) = period.around(now.parse().unwrap(), zone);
            format!("{from} {until}")
        };
        let at = "2026-03-29T12:00:00Z";
        assert_eq!(around(Period::Day, at, &berlin), "2026-03-28T23:00:00Z 2026-03-29T22:00:00Z");
        assert_eq!(around(Period::Week, at, &berlin), "2026-03-22T23:00:00Z 2026-03-29T22:00:00Z");
        assert_eq!(around(Period::Month, at, &berlin), "2026-02-28T23:00:00Z 2026-03-31T22:00:00Z");
        let newyear = "2026-01-01T00:00:00Z";
        assert_eq!(
            around(Period::Week, newyear, &TimeZone::UTC),
            "2025-12-29T00:00:00Z 2026-01-05T00:00:00Z"
        );
        assert_eq!(around(Period::Day, newyear, &TimeZone::UTC), "2026-01-01T00:00:00Z 2026-01-02T00:00:00Z");
    }
}
