//! The only place in this crate that reads the wall clock. No verdict about a session rests on it.

use jiff::Timestamp;

/// The time is cut to milliseconds, which is the finest resolution that any agent writes.
#[expect(clippy::disallowed_methods, reason = "events and fuses happen at a time")]
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}
