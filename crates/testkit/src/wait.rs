//! Waits for a condition instead of for time to pass.

use std::fmt::Display;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(20);

/// Polls `look` until it returns a value; panics with `what` at the deadline.
pub fn until<T>(deadline: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    until_seen(deadline, what, || look().ok_or("not yet"))
}

/// Polls `look` until it returns `Ok`; panics with `what` and the last state at the deadline.
pub fn until_seen<T, S: Display>(
    deadline: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<T, S>,
) -> T {
    let started = Instant::now();
    loop {
        match look() {
            Ok(value) => return value,
            Err(state) if started.elapsed() >= deadline => {
                panic!("waited {deadline:?} for {what}; last seen: {state}")
            }
            Err(_) => std::thread::sleep(POLL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_returns_as_soon_as_the_condition_holds() {
        let mut calls = 0;
        let third = until(Duration::from_mins(1), "three calls", || {
            calls += 1;
            (calls == 3).then_some(calls)
        });
        assert_eq!(third, 3);
    }

    #[test]
    #[should_panic(expected = "for a miracle; last seen: nothing at all")]
    fn it_tells_what_it_saw_last() {
        until_seen(Duration::ZERO, "a miracle", || Err::<(), _>("nothing at all"));
    }
}
