//! How a process that agentctl launched for a session ended, as its runner recorded it. These are facts only: the law
//! (`status.rs`) and the joins decide what they mean for the session.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::process::{KernelView, Process};
use crate::session::Found;

const HANG_UP: i32 = 1;
const INTERRUPT: i32 = 2;
const TERMINATE: i32 = 15;

/// What made agentctl end a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Ender")]
pub enum EndCause {
    /// Somebody asked for it.
    Stop,
    /// The time was up that its launch gave it.
    Timeout,
    /// A limit was reached that somebody had set for its session.
    Fuse,
}

/// Why agentctl ended a process that it had started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndedBy {
    pub by: EndCause,
    /// The limit that was reached, as it was set; `null` where there was none or it is not known.
    pub limit: Option<String>,
}

impl EndedBy {
    pub fn stop() -> Self {
        Self { by: EndCause::Stop, limit: None }
    }

    pub fn timeout(limit: Option<String>) -> Self {
        Self { by: EndCause::Timeout, limit }
    }

    pub fn fuse(limit: String) -> Self {
        Self { by: EndCause::Fuse, limit: Some(limit) }
    }

    pub fn describe(&self) -> String {
        let limit = self.limit.as_ref().map(|limit| format!(" ({limit})")).unwrap_or_default();
        match self.by {
            EndCause::Stop => "stopped with `agentctl stop`".to_owned(),
            EndCause::Timeout => format!("stopped by agentctl: its time was up{limit}"),
            EndCause::Fuse => format!("stopped by agentctl: its fuse was spent{limit}"),
        }
    }
}

/// An exit that the runner saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenExit {
    pub at: Timestamp,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Why agentctl ended the process, if it did.
    pub by: Option<EndedBy>,
}

impl SeenExit {
    /// Whether a person or a clean signal ended the process. Agents that catch a signal exit with 128 plus its number.
    pub fn was_clean(&self) -> bool {
        let signal = self.signal.or_else(|| self.code.map(|code| code - 128));
        self.by.is_some() || matches!(signal, Some(HANG_UP | INTERRUPT | TERMINATE))
    }

    /// Whether nothing was written after this exit, so that the records are as this process left them.
    pub fn is_the_end(&self, updated_at: Option<Timestamp>) -> bool {
        updated_at.is_some_and(|at| at <= self.at)
    }

    pub fn describe(&self) -> String {
        let by = self.by.as_ref().map(|by| format!("; it was {}", by.describe())).unwrap_or_default();
        let how = match (self.code, self.signal) {
            (_, Some(signal)) => format!("signal {signal}"),
            (Some(code), None) => format!("exit code {code}"),
            (None, None) => "no exit code".to_owned(),
        };
        format!("the process that agentctl started ended with {how}{by}")
    }
}

/// A session that agentctl launched and whose process has exited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedLaunch {
    pub id: String,
    pub exit: LaunchExit,
}

/// What is known about the exit of a launched process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchExit {
    Seen(SeenExit),
    /// The runner had exited before, so nobody saw the exit.
    Unseen,
    /// The runner is alive and has not written the exit down yet: it is not known now, but will be.
    Unwritten,
}

impl LaunchExit {
    pub const UNWRITTEN: &'static str = "its runner has yet to write down how the process ended";

    pub fn seen(&self) -> Option<&SeenExit> {
        match self {
            Self::Seen(exit) => Some(exit),
            Self::Unseen | Self::Unwritten => None,
        }
    }
}

/// Whether the launch records allow that a process owns a session, when nothing else ties the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitMatch {
    /// The launch records do not contradict it.
    Fits,
    /// Nobody saw how the former owner exited, so this process may have resumed the session since, or not.
    InDoubt,
    Excluded,
}

impl KernelView {
    /// A process that was launched for another session owns that one. A session whose launched process has exited has no new
    /// owner until there is a newer record, because a process that resumes a session writes one.
    pub fn fit(&self, process: &Process, session: &Found) -> ExitMatch {
        match self.launched_for(process) {
            Some(id) if id == session.id => return ExitMatch::Fits,
            Some(_) => return ExitMatch::Excluded,
            None => {}
        }
        let Some(ended) = self.ended.iter().find(|ended| ended.id == session.id) else {
            return ExitMatch::Fits;
        };
        match &ended.exit {
            LaunchExit::Unseen | LaunchExit::Unwritten => ExitMatch::InDoubt,
            LaunchExit::Seen(exit) if exit.is_the_end(session.facts.updated_at) => ExitMatch::Excluded,
            LaunchExit::Seen(_) => ExitMatch::Fits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: Option<i32>, signal: Option<i32>) -> SeenExit {
        SeenExit { at: Timestamp::from_second(100).unwrap(), code, signal, by: None }
    }

    #[test]
    fn clean_signals_and_our_own_stop_are_clean_and_nothing_else() {
        for (code, signal) in [
            (Some(143), None),
            (Some(130), None),
            (Some(129), None),
            (None, Some(15)),
            (None, Some(2)),
            (None, Some(1)),
        ] {
            assert!(exit(code, signal).was_clean(), "{code:?} {signal:?}");
        }
        for (code, signal) in [
            (Some(0), None),
            (Some(1), None),
            (Some(2), None),
            (Some(15), None),
            (Some(137), None),
            (None, Some(9)),
            (None, Some(11)),
            (None, None),
        ] {
            assert!(!exit(code, signal).was_clean(), "{code:?} {signal:?}");
            assert!(SeenExit { by: Some(EndedBy::stop()), ..exit(code, signal) }.was_clean());
        }
    }

    #[test]
    fn what_is_newer_or_of_unknown_age_is_not_what_it_left() {
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        let seen = exit(None, Some(9));
        assert!(seen.is_the_end(at(99)) && seen.is_the_end(at(100)));
        assert!(!seen.is_the_end(at(101)) && !seen.is_the_end(None));
    }
}
