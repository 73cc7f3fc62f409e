//! Waits until sessions reach a state. Waiting is level-triggered: what counts is what a survey shows, not what
//! happened between two surveys. Pure; the caller runs [`Wait::query`] repeatedly and passes each survey to
//! [`Wait::update`].

use agentctl_model::{Outcome, Rule, Session, SessionKey, Status, Survey, Surveyed};

use crate::read::query::{Query, Wanted};

/// A state that can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    Running,
    Waiting,
    /// No turn is open. A stopped session has no open turn either, so it ends this wait too.
    Idle,
    Stopped,
}

impl Until {
    /// What a wait ends at by default.
    pub const DEFAULT: [Self; 2] = [Self::Idle, Self::Stopped];

    fn is_met_by(self, status: Status) -> bool {
        match self {
            Self::Running => status == Status::Running,
            Self::Waiting => status == Status::Waiting,
            Self::Idle => matches!(status, Status::Idle | Status::Stopped),
            Self::Stopped => status == Status::Stopped,
        }
    }
}

/// One wait for one or several sessions. A session that was once seen in the wanted state is done, whatever happens to
/// it later.
#[derive(Debug)]
pub struct Wait {
    until: Vec<Until>,
    any: bool,
    open: Vec<Surveyed>,
    reached: Vec<Surveyed>,
    gone: Vec<SessionKey>,
}

impl Wait {
    /// Begins with these sessions as they were just found. With `any`, the first session that is done ends the wait.
    pub fn new(sessions: Vec<Surveyed>, until: Vec<Until>, any: bool) -> Self {
        let seen = Survey { sessions: sessions.clone(), ..Survey::default() };
        let mut wait = Self { until, any, open: sessions, reached: Vec::new(), gone: Vec::new() };
        wait.update(&seen);
        wait
    }

    /// The query to run next.
    pub fn query(&self) -> Query {
        let mut adapters: Vec<String> = self.open.iter().map(|open| open.key.adapter.clone()).collect();
        adapters.sort_unstable();
        adapters.dedup();
        let ids = self.open.iter().map(|open| open.key.id.clone()).collect();
        Query { subagents: true, adapters, ..Query::new(Wanted::Ids(ids)) }
    }

    /// Records what a survey shows of the sessions that are still awaited. A source that was not read changes nothing.
    pub fn update(&mut self, survey: &Survey) {
        for known in std::mem::take(&mut self.open) {
            match survey.sessions.iter().find(|seen| seen.key == known.key) {
                // How it ended will be known soon, and the caller waits for that.
                Some(seen) if seen.rule == Rule::ExitNotWrittenYet => self.open.push(seen.clone()),
                Some(seen) if self.until.iter().any(|until| until.is_met_by(seen.session.status)) => {
                    self.reached.push(seen.clone());
                }
                Some(seen) => self.open.push(seen.clone()),
                // Its records were deleted and no process runs it, so it counts as stopped.
                None if self.ends_with(survey, &known.key) => self.gone.push(known.key),
                None => self.open.push(known),
            }
        }
    }

    fn ends_with(&self, survey: &Survey, key: &SessionKey) -> bool {
        let stopped = self.until.iter().any(|until| until.is_met_by(Status::Stopped));
        stopped && survey.prove_ended(key).is_some()
    }

    pub fn is_over(&self) -> bool {
        let one = !self.reached.is_empty() || !self.gone.is_empty();
        self.open.is_empty() || (self.any && one)
    }

    /// The sessions that reached the wanted state, as they were at that moment.
    pub fn reached(&self) -> &[Surveyed] {
        &self.reached
    }

    /// The sessions that have not reached it yet, as last seen.
    pub fn open(&self) -> &[Surveyed] {
        &self.open
    }

    /// The sessions that ended and whose records are gone.
    pub fn gone(&self) -> &[SessionKey] {
        &self.gone
    }

    /// Whether no awaited turn ended badly.
    pub fn went_well(&self) -> bool {
        !self.reached.iter().any(|reached| ended_badly(&reached.session))
    }
}

/// How an earlier turn ended says nothing about a turn that is open.
fn ended_badly(session: &Session) -> bool {
    matches!(session.status, Status::Idle | Status::Stopped)
        && matches!(session.outcome, Some(Outcome::Failed | Outcome::Died | Outcome::Interrupted))
}

#[cfg(test)]
mod tests {
    use agentctl_model::{CoverageKind, Session, SourceReport};
    use agentctl_testkit::sessions;

    use super::*;

    fn seen(id: &str, status: Status, outcome: Option<Outcome>) -> Surveyed {
        let session = sessions::session(id, status, outcome);
        sessions::surveyed(Session { adapter: "pi".into(), config_root: "/r".into(), ..session })
    }

    fn survey(sessions: Vec<Surveyed>, coverage: CoverageKind) -> Survey {
        let source = SourceReport {
            adapter: "pi".into(),
            host: String::new(),
            root: "/r".into(),
            coverage,
            error: None,
            warnings: vec![],
            sessions: None,
            took_ms: 1,
        };
        Survey { sessions, sources: vec![source], ..Survey::default() }
    }

    fn wait(status: Status, until: &[Until]) -> Wait {
        Wait::new(vec![seen("a", status, None)], until.to_vec(), false)
    }

    #[test]
    fn what_is_there_already_needs_no_waiting_and_unknown_never_ends_it() {
        for (status, over) in [
            (Status::Idle, true),
            (Status::Stopped, true),
            (Status::Running, false),
            (Status::Waiting, false),
            (Status::Unknown, false),
        ] {
            assert_eq!(wait(status, &Until::DEFAULT).is_over(), over, "{status:?}");
        }
        assert!(wait(Status::Waiting, &[Until::Waiting]).is_over());
        assert!(wait(Status::Stopped, &[Until::Idle]).is_over(), "a headless run is never idle");
        assert!(!wait(Status::Idle, &[Until::Stopped]).is_over());
        assert!(!wait(Status::Stopped, &[Until::Running]).is_over(), "it may be resumed");
    }

    #[test]
    fn an_exit_that_is_not_written_yet_is_waited_for() {
        let ending = Surveyed { rule: Rule::ExitNotWrittenYet, ..seen("a", Status::Stopped, None) };
        let mut waits = Wait::new(vec![ending.clone()], Until::DEFAULT.to_vec(), false);
        assert!(!waits.is_over());
        waits.update(&survey(vec![ending], CoverageKind::Complete));
        assert!(!waits.is_over());
        waits.update(&survey(
            vec![seen("a", Status::Stopped, Some(Outcome::Interrupted))],
            CoverageKind::Complete,
        ));
        assert!(waits.is_over() && !waits.went_well());
    }

    #[test]
    fn silence_goes_on_and_absence_is_an_end() {
        let mut waits = wait(Status::Running, &Until::DEFAULT);
        for coverage in [CoverageKind::TimedOut, CoverageKind::Failed, CoverageKind::Partial] {
            waits.update(&survey(vec![], coverage));
            assert!(!waits.is_over(), "{coverage}");
        }
        waits.update(&survey(vec![], CoverageKind::Complete));
        assert!(waits.is_over() && waits.went_well());
        assert_eq!(waits.gone().len(), 1);
        let mut running = wait(Status::Idle, &[Until::Running]);
        running.update(&survey(vec![], CoverageKind::Complete));
        assert!(!running.is_over());
    }

    #[test]
    fn several_are_all_waited_for_and_the_worst_decides() {
        let both = |first: Surveyed, second: Surveyed, any: bool| {
            let begin = vec![seen("a", Status::Running, None), seen("b", Status::Running, None)];
            let mut waits = Wait::new(begin, Until::DEFAULT.to_vec(), any);
            waits.update(&survey(vec![first, seen("b", Status::Running, None)], CoverageKind::Complete));
            let early = waits.is_over();
            // The first session begins another turn: it was already seen done, and nothing more was awaited.
            waits.update(&survey(vec![seen("a", Status::Running, None), second], CoverageKind::Complete));
            (early, waits.is_over(), waits.went_well())
        };
        let done = |id: &str| seen(id, Status::Idle, Some(Outcome::Completed));
        let failed = |id: &str| seen(id, Status::Stopped, Some(Outcome::Failed));
        assert_eq!(both(done("a"), done("b"), false), (false, true, true));
        assert_eq!(both(done("a"), failed("b"), false), (false, true, false));
        assert_eq!(both(failed("a"), done("b"), false), (false, true, false));
        assert!(both(done("a"), done("b"), true).0);
    }

    #[test]
    fn an_earlier_failure_says_nothing_about_an_open_turn() {
        let again = vec![seen("a", Status::Running, Some(Outcome::Failed))];
        assert!(Wait::new(again, vec![Until::Running], false).went_well());
        let died = vec![seen("a", Status::Idle, Some(Outcome::Died))];
        assert!(!Wait::new(died, Until::DEFAULT.to_vec(), false).went_well());
    }
}
