//! The results of stopping sessions, as `stop --json` prints them and the API returns them.

use std::time::{Duration, Instant};

use agentctl_model::{EndedBy, Error, ProcessEntry, Rule, Session, Surveyed};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{LOOK, StopOptions, TerminationReport};
use crate::{Caller, Fleet};

/// How long a report on a stop waits for a runner that has yet to write the exit.
const WRITING: Duration = Duration::from_secs(5);

/// What `stop --json` prints and the API answers.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct StopAnswer {
    pub sessions: Vec<StopReport>,
}

/// What became of one session that was to be stopped.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StopReport {
    id: String,
    /// Nothing of it runs any more: no process of its own, and no turn. `openIn` says whether a server keeps it open.
    stopped: bool,
    /// Nobody ran it.
    pub was_stopped: bool,
    /// What was done first, in words; `null` when nothing was.
    pub how: Option<String>,
    pub ended: Vec<ProcessEntry>,
    pub survived: Vec<ProcessEntry>,
    /// Where the session is still open after its turn was ended, in words: it is idle there and takes the next message.
    /// `null` when it is open nowhere.
    pub open_in: Option<String>,
    /// Why it was not stopped.
    #[serde(serialize_with = "message", deserialize_with = "failed", default)]
    #[schemars(with = "Option<String>")]
    pub error: Option<Error>,
    /// The session as it is afterwards; `null` when it could not be looked at again.
    pub session: Option<Session>,
}

/// Only the message is part of the report; the kind and the hint are for the caller.
#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn message<S: Serializer>(error: &Option<Error>, out: S) -> Result<S::Ok, S::Error> {
    error.as_ref().map(|error| &error.message).serialize(out)
}

/// What another machine wrote.
fn failed<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Error>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(Error::failed))
}

impl StopReport {
    /// The id is the one that was typed or found; the session is as it is now.
    pub fn new(id: &str, stopped: Result<TerminationReport, Error>, session: Option<Session>) -> Self {
        let (report, error) = match stopped {
            Ok(report) => (report, None),
            Err(error) => (TerminationReport::default(), Some(error)),
        };
        Self {
            id: id.to_owned(),
            stopped: error.is_none() && report.survived.is_empty(),
            was_stopped: report.was_stopped,
            how: Some(report.how).filter(|how| !how.is_empty()),
            ended: report.ended,
            survived: report.survived,
            open_in: report.open_in,
            error,
            session,
        }
    }
}

impl Fleet {
    /// Ends the whole process tree of a session because a user asked for it, and reads the session again.
    pub fn stop(
        &self,
        target: &Surveyed,
        caller: &Caller,
        options: StopOptions,
    ) -> Result<StopReport, Error> {
        let ended = self.terminate(&EndedBy::stop(), target, caller, options)?;
        let now = self.after_stop(target).map(|now| *now.session);
        Ok(StopReport::new(&target.key.id, Ok(ended), now))
    }

    /// Stops these one after the other; a failure does not prevent the others.
    pub fn stop_all(&self, targets: &[Surveyed], caller: &Caller, options: StopOptions) -> Vec<StopReport> {
        let stop = |target: &Surveyed| {
            self.stop(target, caller, options).unwrap_or_else(|error| {
                StopReport::new(&target.key.id, Err(error), Some((*target.session).clone()))
            })
        };
        targets.iter().map(stop).collect()
    }

    /// The same session after a stop. Its runner takes a moment to write down how the process ended; one that takes
    /// longer leaves the outcome open.
    fn after_stop(&self, target: &Surveyed) -> Option<Surveyed> {
        let began = Instant::now();
        loop {
            let now = self.again(target);
            let is_written = now.as_ref().is_none_or(|now| now.rule != Rule::ExitNotWrittenYet);
            if is_written || began.elapsed() >= WRITING {
                return now;
            }
            std::thread::sleep(LOOK);
        }
    }
}
