//! Metrics in the Prometheus text format. Every metric family is always present. Labels are agents and words
//! of the contract, never prompts, paths or ids.

mod over_hosts;
mod page;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agentctl_fleet::keep::outbox::duration;
use agentctl_model::{EventKind, Outcome, Survey};

use crate::tell::events::EventMessage;

pub(crate) use over_hosts::page_of_hosts;
pub(crate) use page::{Gauges, page};

/// The upper bounds of the histogram of durations, in seconds.
const BOUNDS: [f64; 6] = [60.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0];

/// The counters since the daemon started.
#[derive(Debug, Default)]
struct Counted {
    /// By outcome; `unknown` where the agent does not report one.
    ended: BTreeMap<&'static str, u64>,
    buckets: [u64; BOUNDS.len()],
    durations: u64,
    duration_sum: f64,
    fuses_expired: u64,
    /// The duration of the last survey in seconds, by adapter.
    survey_seconds: BTreeMap<String, f64>,
}

#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<Counted>);

impl Metrics {
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn on_event(&self, message: &EventMessage) {
        let event = &message.event;
        let mut counted = self.counted();
        match (event.kind, &event.session) {
            (EventKind::SessionStopped, Some(session)) => {
                *counted.ended.entry(session.outcome.map_or("unknown", Outcome::as_str)).or_default() += 1;
                if let Some(seconds) = duration(session, Some(message.at)) {
                    counted.durations += 1;
                    counted.duration_sum += seconds;
                    for (bucket, bound) in counted.buckets.iter_mut().zip(BOUNDS) {
                        *bucket += u64::from(seconds <= bound);
                    }
                }
            }
            (EventKind::FuseExpired, _) => counted.fuses_expired += 1,
            _ => {}
        }
    }

    pub(crate) fn surveyed(&self, survey: &Survey) {
        let mut counted = self.counted();
        for source in &survey.sources {
            counted.survey_seconds.remove(&source.adapter);
        }
        for source in &survey.sources {
            let took = std::time::Duration::from_millis(source.took_ms).as_secs_f64();
            let known = counted.survey_seconds.entry(source.adapter.clone()).or_default();
            *known = known.max(took);
        }
    }
}
