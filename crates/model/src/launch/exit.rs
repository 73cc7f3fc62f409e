//! How the process that agentctl started for a session ended, as its runner saw it. Recorded facts only: what they mean
//! for the session is said by the law and by the joins.

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

/// An exit that somebody saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenExit {
    pub at: Timestamp,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// agentctl itself ended it, and why.
    pub by: Option<EndedBy>,
}

impl SeenExit {
    /// A person or a clean signal ended it. Agents that catch a signal say so with their exit code.
    pub fn was_clean(&self) -> bool {
        let signal = self.signal.or_else(|| self.code.map(|code| code - 128));
        self.by.is_some() || matches!(signal, Some(HANG_UP | INTERRUPT | TERMINATE))
    }

    /// Nothing was written after it: what the records leave is what this process left.
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

/// A session that agentctl launched, and whose process is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedLaunch {
    pub id: String,
    pub exit: LaunchExit,
}

/// What is known of the exit of a launched process that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchExit {
    Seen(SeenExit),
    /// The runner was gone before: nobody saw it.
    Unseen,
    /// The runner lives and has not written it down yet: how the process ended will be known, and is not known now.
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

/// What is written down about a process and a session that nothing ties to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitMatch {
    /// Nothing speaks against it that the process carries the session.
    Fits,
    /// The process that carried it went unseen: this one may have taken it up since, or not.
    InDoubt,
    Excluded,
}

impl KernelView {
    /// A process that was launched for another session carries that one. And a session is left as its launched process
    /// left it until there is a newer record: whoever took it up writes one.
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
