//! Waits until sessions of this machine reach a state, for programs.

use std::time::{Duration, Instant};

use agentctl_fleet::Fleet;
use agentctl_fleet::read::wait::Wait;
use agentctl_model::Surveyed;

use super::Link;
use super::hints::{HINT_TIMEOUT, Hints};
use crate::surroundings::Surroundings;

/// How often the sessions are surveyed, without and with a daemon that announces changes.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(400);
pub(crate) const FALLBACK_INTERVAL: Duration = Duration::from_secs(3);

/// How a wait came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Over,
    TimedOut,
    CalledOff,
}

/// Surveys until the wait is over, it is called off, or the time is up. `goes_on` is told, every moment, which sessions
/// have not reached the state yet and how long that lasts; it returns true to call the wait off.
pub(crate) fn until_over(
    wait: &mut Wait,
    fleet: &Fleet,
    timeout: Option<Duration>,
    surroundings: &Surroundings,
    mut goes_on: impl FnMut(&[Surveyed], Duration) -> bool,
) -> Ended {
    let began = Instant::now();
    let mut hints = Hints::default();
    if !wait.is_over() {
        let link = Link::open(surroundings);
        hints = link.map(|link| Hints::of_sessions(&link, wait.open())).unwrap_or_default();
        // Changes from before the hints began are not announced.
        if hints.are_given() {
            wait.update(&fleet.survey(&wait.query()));
        }
    }
    loop {
        if wait.is_over() {
            return Ended::Over;
        }
        let surveyed_at = Instant::now();
        while surveyed_at.elapsed() < if hints.are_given() { FALLBACK_INTERVAL } else { POLL_INTERVAL } {
            if goes_on(wait.open(), began.elapsed()) {
                return Ended::CalledOff;
            }
            if timeout.is_some_and(|timeout| began.elapsed() >= timeout) {
                return Ended::TimedOut;
            }
            if !hints.are_given() {
                std::thread::sleep(HINT_TIMEOUT);
            } else if hints.next().is_some() {
                break;
            }
        }
        wait.update(&fleet.survey(&wait.query()));
    }
}
