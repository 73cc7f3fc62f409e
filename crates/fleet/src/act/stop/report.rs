//! The results of stopping sessions, as `stop --json` prints them and the API returns them.

use agentctl_model::{Error, ProcessEntry, Session, Surveyed};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Patience, Stopped};
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
    /// Nothing of it runs any more: no process of its own, and no turn. `openIn` says whether a server keeps it open.
    stopped: bool,
    /// Nobody ran it.
    was_stopped: bool,
    /// What was done first, in words; `null` when nothing was.
    how: Option<String>,
    ended: Vec<ProcessEntry>,
    survived: Vec<ProcessEntry>,
    /// Where the session is still open after its turn was ended, in words: it is idle there and takes the next message.
    /// `null` when it is open nowhere.
    open_in: Option<String>,
    /// Why it was not stopped.
    error: Option<String>,
    /// The session as it is afterwards; `null` when it could not be looked at again.
    session: Option<Session>,
}

impl StopReport {
    /// For what was typed and is no one session.
    pub fn not_found(typed: &str, why: &str) -> Self {
        Self {
            id: typed.to_owned(),
            stopped: false,
            was_stopped: false,
            how: None,
            ended: Vec::new(),
            survived: Vec::new(),
            open_in: None,
            error: Some(why.to_owned()),
            session: None,
        }
    }

    pub fn not_stopped(target: &Surveyed, error: &Error) -> Self {
        Self {
            id: target.key.id.clone(),
            stopped: false,
            was_stopped: false,
            how: None,
            ended: Vec::new(),
            survived: Vec::new(),
            open_in: None,
            error: Some(error.message.clone()),
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
            open_in: stopped.open_in,
            error: None,
            session: self.after_stop(target).map(|now| *now.session),
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
