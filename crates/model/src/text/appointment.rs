//! Parses a moment that is to come, as people type it. Pure.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::period::parse_duration;

/// Parses an RFC 3339 time, `HH:MM` (the next one by this zone), or a length of time from now, such as `+20m`.
pub fn parse(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, String> {
    let refuse = || format!("`{text}` is no time; write it like 18:30, +20m or 2026-11-15T18:30:00Z");
    if let Some(length) = text.strip_prefix('+') {
        let length = SignedDuration::try_from(parse_duration(length)?).map_err(|_| refuse())?;
        return now.checked_add(length).map_err(|_| refuse());
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    let (hour, minute) = text.split_once(':').ok_or_else(refuse)?;
    let two_digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !two_digits(hour) || !two_digits(minute) {
        return Err(refuse());
    }
    let (hour, minute) = (hour.parse().map_err(|_| refuse())?, minute.parse().map_err(|_| refuse())?);
    let time = Time::new(hour, minute, 0, 0).map_err(|_| refuse())?;
    let today = zone.to_datetime(now).date();
    [today, today.checked_add(1.day()).map_err(|_| refuse())?]
        .into_iter()
        .filter_map(|day| zone.to_ambiguous_zoned(day.to_datetime(time)).compatible().ok())
        .map(|at| at.timestamp())
        .find(|at| *at > now)
        .ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_absolute_a_time_of_day_or_a_length_from_now() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let now: Timestamp = "2026-11-15T10:00:00Z".parse().unwrap();
        let parsed = |text: &str| parse(text, now, &zone).map(|at| at.to_string());
        assert_eq!(parsed("12:01").unwrap(), "2026-11-15T10:01:00Z");
        assert_eq!(parsed("12:00").unwrap(), "2026-11-16T10:00:00Z", "the next one");
        assert_eq!(parsed("+20m").unwrap(), "2026-11-15T10:20:00Z");
        assert_eq!(parsed("2026-11-15T18:30:00+02:00").unwrap(), "2026-11-15T16:30:00Z");
        for wrong in ["", "soon", "25:00", "1:00", "12:60", "+", "+5", "12", "12:00:00", "-5m"] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
