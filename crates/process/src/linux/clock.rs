//! Converts clock ticks since boot to wall-clock time.
//!
//! Only this module of the crate reads clocks. The result is shown to people and compared with the times in an agent's
//! records; it never decides whether two processes are the same.

use jiff::{SignedDuration, Timestamp};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// When the machine booted by the current wall clock, and how long a tick is.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartClock {
    boot: SignedDuration,
    ticks_per_second: u64,
}

impl StartClock {
    pub(super) fn now() -> Self {
        // Two clocks cannot be read at once, so the fastest of a few attempts counts.
        let (_, boot) = [both_clocks(), both_clocks(), both_clocks()].into_iter().min().unwrap_or_default();
        Self { boot, ticks_per_second: rustix::param::clock_ticks_per_second() }
    }

    pub(super) fn boot(self) -> Option<Timestamp> {
        self.at(0)
    }

    /// The wall-clock time of a tick. The kernel rounds ticks down, so this is never later than the real start by more than
    /// the noise of the clocks. It is in whole milliseconds, because a tick is not finer than that.
    pub(super) fn at(self, ticks: u64) -> Option<Timestamp> {
        let whole = i64::try_from(ticks.checked_div(self.ticks_per_second)?).ok()?;
        let rest = ticks % self.ticks_per_second * 1000 / self.ticks_per_second;
        let since_boot =
            SignedDuration::from_secs(whole) + SignedDuration::from_millis(i64::try_from(rest).ok()?);
        let since_epoch = self.boot.checked_add(since_boot)?;
        Timestamp::from_millisecond(i64::try_from(since_epoch.as_millis()).ok()?).ok()
    }
}

/// How long reading both clocks took, and the boot time that follows from them.
fn both_clocks() -> (SignedDuration, SignedDuration) {
    let up = duration(clock_gettime(ClockId::Boottime));
    let wall = duration(clock_gettime(ClockId::Realtime));
    (duration(clock_gettime(ClockId::Boottime)) - up, wall - up)
}

fn duration(time: Timespec) -> SignedDuration {
    SignedDuration::from_secs(time.tv_sec) + SignedDuration::from_nanos(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_count_from_the_boot() {
        let clock = StartClock { boot: SignedDuration::from_secs(1_000), ticks_per_second: 100 };
        assert_eq!(clock.at(0), Timestamp::from_second(1_000).ok());
        assert_eq!(clock.at(12_345), Timestamp::from_millisecond(1_123_450).ok());
        assert_eq!(clock.at(u64::MAX), None);
    }

    #[test]
    fn a_clock_without_ticks_knows_no_start() {
        assert_eq!(StartClock { boot: SignedDuration::ZERO, ticks_per_second: 0 }.at(5), None);
    }
}
