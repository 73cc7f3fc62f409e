//! Reads the times of records: there is one in each of hundreds of thousands of calls. Pure.

use jiff::Timestamp;

/// What `text.parse()` gives. A time as machines write it, `2026-11-15T06:50:13.123Z`, is read many times as fast; any
/// other is left to the slower parser.
pub(crate) fn time(text: &str) -> Option<Timestamp> {
    quick(text.as_bytes()).or_else(|| text.parse().ok())
}

/// `None` is no verdict.
fn quick(text: &[u8]) -> Option<Timestamp> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1, b'T', h0, h1, b':', i0, i1, b':', s0, s1, rest @ ..] =
        text
    else {
        return None;
    };
    let year = number(&[*y0, *y1, *y2, *y3])?;
    let [month, day, hour, minute, second] =
        [[*m0, *m1], [*d0, *d1], [*h0, *h1], [*i0, *i1], [*s0, *s1]].map(|pair| number(&pair));
    let (month, day, hour, minute, second) = (month?, day?, hour?, minute?, second?);
    // Other years, the last days of months and leap seconds are for the slower parser.
    let is_usual = (1970..3000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=28).contains(&day)
        && (hour < 24 && minute < 60 && second < 60);
    if !is_usual {
        return None;
    }
    let nanosecond = match rest {
        b"Z" => 0,
        [b'.', digits @ .., b'Z'] if (1..=9).contains(&digits.len()) => {
            digits.iter().chain(b"00000000").take(9).copied().try_fold(0, with_digit)?
        }
        _ => return None,
    };
    let of_day = (hour * 60 + minute) * 60 + second;
    Timestamp::new(days(year, month, day) * 86_400 + i64::from(of_day), nanosecond).ok()
}

fn number(digits: &[u8]) -> Option<i32> {
    digits.iter().copied().try_fold(0, with_digit)
}

fn with_digit(number: i32, digit: u8) -> Option<i32> {
    digit.is_ascii_digit().then(|| number * 10 + i32::from(digit - b'0'))
}

/// The days from March of the year 0 to 1970.
const TO_1970: i32 = 719_468;

/// The days from 1970 to this one. Years are counted from March, so that the day that not every year has is the last one.
fn days(year: i32, month: i32, day: i32) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1;
    i64::from(days - TO_1970)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_the_slower_parser_reads(
            (year, month, day) in (1900_u32..3100, 0_u32..15, 0_u32..35),
            (hour, minute, second) in (0_u32..26, 0_u32..62, 0_u32..62),
            fraction in prop::option::of("[0-9]{0,10}"),
            end in prop::sample::select(vec!["Z", "Z", "Z", "Z", "z", "", "+02:00", "ZZ", " Z"]),
            broken in prop::option::weighted(0.2, (0_usize..20, any::<u8>())),
        ) {
            let fraction = fraction.map(|digits| format!(".{digits}")).unwrap_or_default();
            let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{end}");
            let mut bytes = text.into_bytes();
            if let Some((at, byte)) = broken {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            let text = String::from_utf8_lossy(&bytes);
            prop_assert_eq!(time(&text), text.parse().ok());
            if let Some(quick) = quick(text.as_bytes()) {
                prop_assert_eq!(Ok(quick), text.parse::<Timestamp>().map_err(drop));
            }
        }
    }

    #[test]
    fn a_time_as_agents_write_it_needs_no_other_parser() {
        for text in ["2026-11-15T06:50:13.123Z", "2024-02-28T23:59:59Z", "2026-03-01T00:00:00.123456789Z"] {
            assert_eq!(quick(text.as_bytes()), text.parse().ok(), "{text}");
        }
    }

    #[test]
    fn every_day_is_where_it_belongs() {
        let first: Timestamp = "1970-01-01T00:00:00Z".parse().unwrap();
        let zone = jiff::tz::TimeZone::UTC;
        for day in 0..20_000_i64 {
            let at = Timestamp::from_second(first.as_second() + day * 86_400).unwrap();
            let date = zone.to_datetime(at).date();
            assert_eq!(days(date.year().into(), date.month().into(), date.day().into()), day, "{date}");
        }
    }
}
