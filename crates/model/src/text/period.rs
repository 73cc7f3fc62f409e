//! Parses lengths of time as people type them, such as "7d" or "2h 5m". Pure.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Parses whole numbers with ms, s, m, h, d or w, such as "10m", "7d" or "2h 5m", but not "1.5s".
pub fn parse_duration(text: &str) -> Result<Duration, String> {
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

/// How far back a list goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    Back(Duration),
    Moment(Timestamp),
    Ever,
}

/// Writes the value so that `Since::parse` can read it.
impl fmt::Display for Since {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // In two parts: the longest time has more milliseconds than a number can hold.
            Self::Back(duration) => write!(out, "{}s{}ms", duration.as_secs(), duration.subsec_millis()),
            Self::Moment(moment) => write!(out, "{moment}"),
            Self::Ever => out.write_str("all"),
        }
    }
}

impl Since {
    pub const DEFAULT: Self = Self::Back(Duration::from_secs(7 * DAY));

    /// Parses "7d", "all", or an RFC 3339 time.
    pub fn parse(text: &str) -> Result<Self, String> {
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

    /// The earliest moment that is included; `None` includes everything.
    pub fn start(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Ever => None,
            Self::Moment(moment) => Some(moment),
            // A duration that is too long for a timestamp means everything.
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
        let longest = Since::Back(Duration::new(u64::MAX, 999_000_000));
        for since in [Since::DEFAULT, Since::Ever, Since::Moment(now), longest] {
            assert_eq!(Since::parse(&since.to_string()), Ok(since));
        }
    }
}
