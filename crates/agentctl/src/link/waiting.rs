//! Waits until sessions reach a state, wherever they are.

use std::time::{Duration, Instant};

use agentctl_fleet::Fleet;
use agentctl_fleet::read::wait::Until;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Link;
use super::hints::{HINT_TIMEOUT, Hints};
use super::waits::Waits;
use crate::surroundings::Surroundings;

/// How often the sessions are surveyed, without and with a daemon that announces changes.
const POLL_INTERVAL: Duration = Duration::from_millis(400);
const FALLBACK_INTERVAL: Duration = Duration::from_secs(3);

/// A state that can be waited for.
#[derive(Debug, Clone, Copy, clap::ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(crate) enum State {
    Running,
    Waiting,
    Idle,
    Stopped,
}

impl State {
    /// What is waited for where these were named.
    pub(crate) fn until(states: &[Self]) -> Vec<Until> {
        match states {
            [] => Until::DEFAULT.to_vec(),
            states => states.iter().copied().map(Until::from).collect(),
        }
    }
}

impl From<State> for Until {
    fn from(state: State) -> Self {
        match state {
            State::Running => Self::Running,
            State::Waiting => Self::Waiting,
            State::Idle => Self::Idle,
            State::Stopped => Self::Stopped,
        }
    }
}

/// How a wait came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Over,
    TimedOut,
    CalledOff,
}

/// Surveys until the wait is over, it is called off, or the time is up. `goes_on` is told, every moment, how far it is
/// and how long it lasts; it returns true to call the wait off.
pub(crate) fn until_over(
    wait: &mut Waits,
    fleet: &Fleet,
    timeout: Option<Duration>,
    surroundings: &Surroundings,
    mut goes_on: impl FnMut(&mut Waits, Duration) -> bool,
) -> Ended {
    let began = Instant::now();
    let mut hints = Hints::default();
    if !wait.is_over() && !wait.here.open().is_empty() {
        let link = Link::open(surroundings);
        hints = link.map(|link| Hints::of_sessions(&link, wait.here.open())).unwrap_or_default();
        // Changes from before the hints began are not announced.
        if hints.are_given() {
            wait.here.update(&fleet.survey(&wait.here.query()));
        }
    }
    let looks = wait.watch_others();
    loop {
        if wait.is_over() {
            return Ended::Over;
        }
        let surveyed_at = Instant::now();
        while surveyed_at.elapsed() < if hints.are_given() { FALLBACK_INTERVAL } else { POLL_INTERVAL } {
            if goes_on(wait, began.elapsed()) {
                return Ended::CalledOff;
            }
            if timeout.is_some_and(|timeout| began.elapsed() >= timeout) {
                return Ended::TimedOut;
            }
            if !hints.are_given() {
                std::thread::sleep(HINT_TIMEOUT);
            } else if hints.next().is_some() {
                hints.pass_over();
                break;
            }
            if looks.iter().enumerate().any(|(place, looks)| wait.hear(place, looks)) {
                break;
            }
        }
        if !wait.here.open().is_empty() {
            wait.here.update(&fleet.survey(&wait.here.query()));
        }
    }
}
