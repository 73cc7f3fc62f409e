//! Times in words: how long ago, and when.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub(crate) use agentctl_model::text::period::{Since, parse_duration};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How long ago, in one unit: "12s", "3m", "2h", "5d". A time in the future (another clock) is "0s".
pub(crate) fn ago(now: Timestamp, then: Timestamp) -> String {
    short(elapsed(now, then))
}

pub(crate) fn elapsed(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

/// A duration in its largest whole unit.
pub(crate) fn short(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds < MINUTE => format!("{seconds}s"),
        seconds if seconds < HOUR => format!("{}m", seconds / MINUTE),
        seconds if seconds < DAY => format!("{}h", seconds / HOUR),
        seconds => format!("{}d", seconds / DAY),
    }
}

/// How long until then, in one unit and rounded up: a limit of two hours is not shown as one hour.
pub(crate) fn ahead(then: Timestamp, now: Timestamp) -> String {
    let left = elapsed(then, now);
    let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
    let unit = [(DAY, "d"), (HOUR, "h"), (MINUTE, "m")].into_iter().find(|(length, _)| seconds >= *length);
    // Rounding up may fill the next unit: 59m 30s is an hour.
    match unit.unwrap_or((1, "s")) {
        (MINUTE, _) if seconds.div_ceil(MINUTE) == 60 => "1h".to_owned(),
        (HOUR, _) if seconds.div_ceil(HOUR) == 24 => "1d".to_owned(),
        (length, letter) => format!("{}{letter}", seconds.div_ceil(length)),
    }
}

/// A duration that parses back to the same value, in the largest exact unit: "7d", "90s", "1500ms".
pub(crate) fn exact(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if duration.subsec_millis() != 0 {
        return format!("{}ms", duration.as_millis());
    }
    let unit = [(DAY, "d"), (HOUR, "h"), (MINUTE, "m")];
    let (length, letter) = unit
        .into_iter()
        .find(|(length, _)| seconds > 0 && seconds.is_multiple_of(*length))
        .unwrap_or((1, "s"));
    format!("{}{letter}", seconds / length)
}

/// A point in time with its distance: "2026-11-15 07:00:12 (3m ago)".
pub(crate) fn moment(now: Timestamp, then: Timestamp, zone: &TimeZone) -> String {
    format!("{} ({} ago)", then.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S"), ago(now, then))
}

pub(crate) fn clock(then: Timestamp, zone: &TimeZone) -> String {
    then.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string()
}

pub(crate) fn day(then: Timestamp, zone: &TimeZone) -> String {
    then.to_zoned(zone.clone()).strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn distances_have_one_unit() {
        let now = at("2026-11-15T12:00:00Z");
        for (then, words) in [
            ("2026-11-15T12:00:09Z", "0s"),
            ("2026-11-15T11:59:01Z", "59s"),
            ("2026-11-15T11:59:00Z", "1m"),
            ("2026-11-15T11:00:01Z", "59m"),
            ("2026-11-15T10:00:00Z", "2h"),
            ("2026-11-14T12:00:00Z", "1d"),
            ("2025-11-15T12:00:00Z", "365d"),
        ] {
            assert_eq!(ago(now, at(then)), words, "{then}");
        }
    }

    #[test]
    fn what_lies_ahead_is_rounded_up() {
        let now = at("2026-11-15T12:00:00Z");
        for (then, words) in [
            ("2026-11-15T11:00:00Z", "0s"),
            ("2026-11-15T12:00:00.2Z", "1s"),
            ("2026-11-15T12:00:59.5Z", "1m"),
            ("2026-11-15T12:09:59.9Z", "10m"),
            ("2026-11-15T12:59:30Z", "1h"),
            ("2026-11-15T13:59:59Z", "2h"),
            ("2026-11-16T11:30:00Z", "1d"),
            ("2026-11-17T12:00:00Z", "2d"),
        ] {
            assert_eq!(ahead(at(then), now), words, "{then}");
        }
    }

    #[test]
    fn an_exact_length_reads_back() {
        for (text, shown) in [
            ("7d", "7d"),
            ("2w", "14d"),
            ("1m 30s", "90s"),
            ("24h", "1d"),
            ("1500ms", "1500ms"),
            ("0s", "0s"),
        ] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(exact(duration), shown);
            assert_eq!(parse_duration(shown), Ok(duration));
        }
    }

    #[test]
    fn a_moment_is_shown_where_the_reader_is() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let text = moment(at("2026-11-15T12:03:00Z"), at("2026-11-15T12:00:00Z"), &zone);
        assert_eq!(text, "2026-11-15 14:00:00 (3m ago)");
    }
}
