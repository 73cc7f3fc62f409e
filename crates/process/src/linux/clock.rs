//! From clock ticks since boot to the wall clock.
//!
//! This is the one place of the crate that reads clocks. The result is for people and for comparing with the times in
//! an agent's records; whether two processes are the same is never decided by it.

use jiff::{SignedDuration, Timestamp};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// When the machine booted, in terms of the wall clock of this moment, and how long a tick is.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartClock {
    boot: SignedDuration,
    ticks_per_second: u64,
}

impl StartClock {
    pub(super) fn now() -> Self {
        // Two clocks cannot be read at once: of a few tries, the one that was least disturbed counts.
        let (_, boot) = [both_clocks(), both_clocks(), both_clocks()].into_iter().min().unwrap_or_default();
        Self { boot, ticks_per_second: rustix::param::clock_ticks_per_second() }
    }

    /// When the machine booted.
    pub(super) fn boot(self) -> Option<Timestamp> {
        self.at(0)
    }

    /// Ticks are cut off, so this is never later than the start by more than the clocks' own noise; it is given in
    /// whole milliseconds because a tick is not finer than that.
    pub(super) fn at(self, ticks: u64) -> Option<Timestamp> {
        let whole = i64::try_from(ticks.checked_div(self.ticks_per_second)?).ok()?;
        let rest = ticks % self.ticks_per_second * 1000 / self.ticks_per_second;
        let since_boot =
            SignedDuration::from_secs(whole) + SignedDuration::from_millis(i64::try_from(rest).ok()?);
        let since_epoch = self.boot.checked_add(since_boot)?;
        Timestamp::from_millisecond(i64::try_from(since_epoch.as_millis()).ok()?).ok()
    }
}

/// How long the reading took, and the boot by it.
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
