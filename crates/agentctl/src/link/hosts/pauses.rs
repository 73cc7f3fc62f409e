//! How long a machine that was lost is left alone before it is asked again.

use std::time::Duration;

/// A stream of which nothing came for this long is lost: a machine that has nothing to tell says so every 15 seconds.
pub(crate) const SILENCE: Duration = Duration::from_secs(45);

const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// Each pause is twice as long as the one before, up to a bound.
#[derive(Debug, Default)]
pub(crate) struct Pauses(Option<Duration>);

impl Pauses {
    /// Whether the machine was heard just before.
    pub(crate) fn is_first(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.0.map_or(SHORTEST, |last| (last * 2).min(LONGEST));
        self.0 = Some(pause);
        pause
    }

    pub(crate) fn reset(&mut self) {
        self.0 = None;
    }
}
