//! Times in words: how long ago, which moment, and what a person means by "7d" or "2h 5m".

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How long it has been, in one unit: "12s", "3m", "2h", "5d". A moment ahead of us (another clock) is "0s".
pub(crate) fn ago(now: Timestamp, then: Timestamp) -> String {
    short(elapsed(now, then))
}

pub(crate) fn elapsed(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

/// A length of time in its largest whole unit.
pub(crate) fn short(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds < MINUTE => format!("{seconds}s"),
        seconds if seconds < HOUR => format!("{}m", seconds / MINUTE),
        seconds if seconds < DAY => format!("{}h", seconds / HOUR),
        seconds => format!("{}d", seconds / DAY),
    }
}

/// A length of time that reads back as the same one, in the largest unit that can say it: "7d", "90s", "1500ms".
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

/// A moment with its distance: "2026-11-15 07:00:12 (3m ago)".
pub(crate) fn moment(now: Timestamp, then: Timestamp, zone: &TimeZone) -> String {
    format!("{} ({} ago)", then.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S"), ago(now, then))
}

pub(crate) fn clock(then: Timestamp, zone: &TimeZone) -> String {
    then.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string()
}

pub(crate) fn day(then: Timestamp, zone: &TimeZone) -> String {
    then.to_zoned(zone.clone()).strftime("%Y-%m-%d").to_string()
}

/// "10m", "7d", "2h 5m", "1.5s" is not one: whole numbers with ms, s, m, h, d or w.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let refuse = || format!("`{text}` is not a length of time; write it like 30s, 10m, 2h 5m or 7d");
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(refuse());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(refuse)?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let number: u64 = number.parse().map_err(|_| refuse())?;
        let part = match unit {
            "ms" => Some(Duration::from_millis(number)),
            "s" => Some(Duration::from_secs(number)),
            "m" => number.checked_mul(MINUTE).map(Duration::from_secs),
            "h" => number.checked_mul(HOUR).map(Duration::from_secs),
            "d" => number.checked_mul(DAY).map(Duration::from_secs),
            "w" => number.checked_mul(7 * DAY).map(Duration::from_secs),
            _ => None,
        };
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(refuse)?;
        rest = tail.trim_start();
    }
    Ok(total)
}

/// How far back a list looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    Back(Duration),
    Moment(Timestamp),
    Ever,
}

impl Since {
    pub(crate) const DEFAULT: Self = Self::Back(Duration::from_secs(7 * DAY));

    /// "7d", "all", or an RFC 3339 moment.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::Ever);
        }
        if let Ok(moment) = text.parse::<Timestamp>() {
            return Ok(Self::Moment(moment));
        }
        parse_duration(text).map(Self::Back).map_err(|_| {
            format!("`{text}` is neither a length of time (7d, 12h), `all`, nor an RFC 3339 time")
        })
    }

    /// The earliest moment that is still wanted; `None` is everything.
    pub(crate) fn start(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Ever => None,
            Self::Moment(moment) => Some(moment),
            // Longer ago than time itself is everything.
            Self::Back(duration) => {
                SignedDuration::try_from(duration).ok().and_then(|back| now.checked_sub(back).ok())
            }
        }
    }
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
    fn durations_are_sums_of_whole_parts() {
        assert_eq!(parse_duration("10m"), Ok(Duration::from_mins(10)));
        assert_eq!(parse_duration("2h 5m"), Ok(Duration::from_mins(125)));
        assert_eq!(parse_duration("2h5m"), Ok(Duration::from_mins(125)));
        assert_eq!(parse_duration("7d"), Ok(Duration::from_hours(168)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in
            ["", "7", "d", "1.5h", "-3m", "3x", "m3", "99999999999999999999d", "18446744073709551615w"]
        {
            assert!(parse_duration(wrong).is_err(), "{wrong:?}");
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
    fn since_takes_lengths_moments_and_all() {
        let now = at("2026-11-15T12:00:00Z");
        assert_eq!(Since::parse("7d").unwrap().start(now), Some(at("2026-11-08T12:00:00Z")));
        assert_eq!(Since::parse("all").unwrap().start(now), None);
        assert_eq!(
            Since::parse("2026-11-01T00:00:00+01:00").unwrap().start(now),
            Some(at("2026-10-31T23:00:00Z"))
        );
        assert_eq!(Since::parse("99999999w").unwrap().start(now), None);
        assert!(Since::parse("yesterday").is_err());
    }

    #[test]
    fn a_moment_is_shown_where_the_reader_is() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let text = moment(at("2026-11-15T12:03:00Z"), at("2026-11-15T12:00:00Z"), &zone);
        assert_eq!(text, "2026-11-15 14:00:00 (3m ago)");
    }
}
