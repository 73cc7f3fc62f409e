//! Minds the idle timeouts of private servers whose runner is gone.

use std::time::{Duration, Instant};

use super::expiry::until;
use crate::run::clock;
use crate::shared::Shared;

/// How often to look. A runner that is killed changes no file, so nobody announces it.
const BETWEEN_LOOKS: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct IdleServers {
    next: Option<Instant>,
}

impl IdleServers {
    /// Looks if it is time to, and returns how long nothing needs to be done.
    pub(super) fn check(&mut self, shared: &Shared) -> Duration {
        if let Some(next) = self.next.filter(|next| *next > Instant::now()) {
            return next - Instant::now();
        }
        let now = clock::now();
        let due = match shared.stopper.end_unattended(now) {
            Ok((done, due)) => {
                for words in &done {
                    shared.log.say(words);
                }
                due
            }
            Err(error) => {
                shared.log.say(&format!("private servers: {error}"));
                None
            }
        };
        let sleep = due.map_or(BETWEEN_LOOKS, |due| until(Some(due), now).min(BETWEEN_LOOKS));
        // One that could not be ended is not tried all the time.
        let sleep = sleep.max(Duration::from_secs(1));
        self.next = Some(Instant::now() + sleep);
        sleep
    }
}
