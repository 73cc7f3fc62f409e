//! How the process that agentctl started for a session ended, as its runner saw it. Recorded facts only: what they mean
//! for the session is said by the law and by the joins.

use jiff::Timestamp;

use crate::process::{KernelView, Process};
use crate::session::Found;

const HANG_UP: i32 = 1;
const INTERRUPT: i32 = 2;
const TERMINATE: i32 = 15;

/// An exit that somebody saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenExit {
    pub at: Timestamp,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// agentctl itself ended it: it was stopped, or its time was up.
    pub asked: bool,
}

impl SeenExit {
    /// A person or a clean signal ended it. Agents that catch a signal say so with their exit code.
    pub fn was_clean(&self) -> bool {
        let signal = self.signal.or_else(|| self.code.map(|code| code - 128));
        self.asked || matches!(signal, Some(HANG_UP | INTERRUPT | TERMINATE))
    }

    /// Nothing was written after it: what the records leave is what this process left.
    pub fn is_the_end(&self, updated_at: Option<Timestamp>) -> bool {
        updated_at.is_some_and(|at| at <= self.at)
    }

    pub fn words(&self) -> String {
        let asked = if self.asked { " when agentctl stopped it" } else { "" };
        let how = match (self.code, self.signal) {
            (_, Some(signal)) => format!("signal {signal}"),
            (Some(code), None) => format!("exit code {code}"),
            (None, None) => "no exit code".to_owned(),
        };
        format!("the process that agentctl started ended with {how}{asked}")
    }
}

/// A session that agentctl launched, and whose process is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedLaunch {
    pub id: String,
    /// `None` where nobody saw it: the runner was gone before.
    pub exit: Option<SeenExit>,
}

/// What is written down about a process and a session that nothing ties to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Nothing speaks against it that the process carries the session.
    Fits,
    /// The process that carried it went unseen: this one may have taken it up since, or not.
    InDoubt,
    Excluded,
}

impl KernelView {
    /// A process that was launched for another session carries that one. And a session is left as its launched process
    /// left it until there is a newer record: whoever took it up writes one.
    pub fn fit(&self, process: &Process, session: &Found) -> Fit {
        match self.launched_for(process) {
            Some(id) if id == session.id => return Fit::Fits,
            Some(_) => return Fit::Excluded,
            None => {}
        }
        let Some(ended) = self.ended.iter().find(|ended| ended.id == session.id) else { return Fit::Fits };
        match &ended.exit {
            None => Fit::InDoubt,
            Some(exit) if exit.is_the_end(session.facts.updated_at) => Fit::Excluded,
            Some(_) => Fit::Fits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: Option<i32>, signal: Option<i32>) -> SeenExit {
        SeenExit { at: Timestamp::from_second(100).unwrap(), code, signal, asked: false }
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
            assert!(SeenExit { asked: true, ..exit(code, signal) }.was_clean());
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
