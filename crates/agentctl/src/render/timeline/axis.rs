//! Which times stand at the axis, and where.

use agentctl_model::timeline::Timeline;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Unit, Zoned, ZonedRound};

/// The time that is drawn, mapped to a length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

/// One labelled moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    /// Where it is, as a share of the axis.
    pub(super) share: f64,
    pub(super) label: String,
}

/// Distances between two moments at the axis, in minutes.
const STEPS: [i64; 15] = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2 * 1440, 7 * 1440, 30 * 1440];

impl Axis {
    /// The window; one without a beginning begins with the first span.
    pub(super) fn of(timeline: &Timeline) -> Self {
        let to = timeline.window.until;
        let first = || timeline.lanes.iter().flat_map(|lane| &lane.spans).map(|span| span.from).min();
        let from = timeline.window.since.or_else(first).unwrap_or(to).min(to);
        Self { from, to }
    }

    /// Where a moment is, as a share of the axis.
    #[expect(clippy::cast_precision_loss, reason = "a screen has a few thousand points")]
    pub(super) fn share(self, at: Timestamp) -> f64 {
        let whole = self.to.duration_since(self.from).as_millis().max(1) as f64;
        (at.duration_since(self.from).as_millis() as f64 / whole).clamp(0.0, 1.0)
    }

    /// At most so many moments, on the hour or the day of the zone.
    pub(super) fn ticks(self, most: usize, zone: &TimeZone) -> Vec<Tick> {
        let minutes = self.to.duration_since(self.from).as_mins();
        let room = i64::try_from(most.max(1)).unwrap_or(i64::MAX);
        let last = STEPS[STEPS.len() - 1];
        let step = STEPS.into_iter().find(|step| minutes / step < room).unwrap_or(last.max(minutes / room));
        let Some(mut at) = first_at(self.from, step, zone) else { return Vec::new() };
        let mut ticks = Vec::new();
        while at.timestamp() <= self.to && ticks.len() < most {
            if at.timestamp() >= self.from {
                ticks.push(Tick { share: self.share(at.timestamp()), label: label(&at, step) });
            }
            let Ok(next) = at.checked_add(SignedDuration::from_mins(step)) else { break };
            at = next;
        }
        ticks
    }
}

/// The first moment that a step reaches from midnight, at or after this one.
fn first_at(from: Timestamp, step: i64, zone: &TimeZone) -> Option<Zoned> {
    let midnight = from
        .to_zoned(zone.clone())
        .round(ZonedRound::new().smallest(Unit::Day).mode(jiff::RoundMode::Trunc))
        .ok()?;
    let since = from.duration_since(midnight.timestamp()).as_mins();
    midnight.checked_add(SignedDuration::from_mins(since / step * step)).ok()
}

fn label(at: &Zoned, step: i64) -> String {
    let is_midnight = at.hour() == 0 && at.minute() == 0;
    at.strftime(if step >= 1440 || is_midnight { "%b %d" } else { "%H:%M" }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(from: &str, to: &str, most: usize) -> Vec<String> {
        let axis = Axis { from: from.parse().unwrap(), to: to.parse().unwrap() };
        axis.ticks(most, &TimeZone::UTC).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn times_stand_on_the_hour_and_never_crowd() {
        let day = ticks("2026-11-15T09:20:00Z", "2026-11-16T09:20:00Z", 6);
        assert_eq!(day, ["12:00", "18:00", "Nov 16", "06:00"]);
        assert_eq!(ticks("2026-11-15T09:20:10Z", "2026-11-15T09:22:30Z", 6), ["09:21", "09:22"]);
        let weeks = ticks("2026-11-01T09:20:00Z", "2026-11-15T09:20:00Z", 8);
        assert_eq!(weeks.first().unwrap(), "Nov 03");
        for most in [1, 3, 9, 40] {
            assert!(ticks("2024-01-01T00:00:00Z", "2026-11-16T00:00:00Z", most).len() <= most);
        }
        assert_eq!(ticks("2026-11-15T09:20:00Z", "2026-11-15T09:20:00Z", 4), ["09:20"]);
    }
}
