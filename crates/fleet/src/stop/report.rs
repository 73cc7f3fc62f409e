//! What became of sessions that were to be stopped, as `stop --json` prints it and the API answers.

use agentctl_model::{ProcessEntry, Session, Surveyed};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Patience, StopError, Stopped};
use crate::{Caller, Fleet};

/// What `stop --json` prints and the API answers.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct StopAnswer {
    pub sessions: Vec<StopReport>,
}

/// What became of one session that was to be stopped.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StopReport {
    id: String,
    /// Nothing of it runs any more.
    stopped: bool,
    /// Nobody ran it.
    was_stopped: bool,
    /// What was done first, in words; `null` when nothing was.
    how: Option<String>,
    ended: Vec<ProcessEntry>,
    survived: Vec<ProcessEntry>,
    /// Why it was not stopped.
    error: Option<String>,
    /// The session as it is afterwards; `null` when it could not be looked at again.
    session: Option<Session>,
}

impl StopReport {
    pub fn not_stopped(target: &Surveyed, error: &StopError) -> Self {
        Self {
            id: target.key.id.clone(),
            stopped: false,
            was_stopped: false,
            how: None,
            ended: Vec::new(),
            survived: Vec::new(),
            error: Some(error.reason.clone()),
            session: Some((*target.session).clone()),
        }
    }
}

impl Fleet {
    /// What is true of a session after it was stopped.
    pub fn report_stopped(&self, target: &Surveyed, stopped: Stopped) -> StopReport {
        StopReport {
            id: target.key.id.clone(),
            stopped: stopped.survived.is_empty(),
            was_stopped: stopped.was_stopped,
            how: Some(stopped.how).filter(|how| !how.is_empty()),
            ended: stopped.ended,
            survived: stopped.survived,
            error: None,
            session: self.again(target).map(|now| *now.session),
        }
    }

    /// Stops them one after the other; one that is not stopped does not keep the others.
    pub fn stop_all(&self, targets: &[Surveyed], caller: &Caller, patience: Patience) -> StopAnswer {
        let one = |target: &Surveyed| match self.stop(target, caller, patience) {
            Ok(stopped) => self.report_stopped(target, stopped),
            Err(error) => StopReport::not_stopped(target, &error),
        };
        StopAnswer { sessions: targets.iter().map(one).collect() }
    }
}
