//! When to survey the sessions that live in servers again if no change is announced. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use agentctl_model::SourceReport;

/// The interval while any server answers.
const SWEEP: Duration = Duration::from_secs(15);
/// A server that answered a moment ago may only have failed briefly.
const SECOND_TRY: Duration = Duration::from_secs(1);
/// A server that is unreachable or denies access is not asked continually; its feed announces when it is
/// back.
const LONGEST: Duration = Duration::from_mins(2);

pub(crate) struct RemoteSchedule {
    answered: BTreeSet<String>,
    rest: Duration,
}

impl Default for RemoteSchedule {
    fn default() -> Self {
        Self { answered: BTreeSet::new(), rest: SWEEP }
    }
}

impl RemoteSchedule {
    /// How long to wait after a survey that found the servers in this state.
    pub(crate) fn after<'s>(&mut self, servers: impl Iterator<Item = &'s SourceReport>) -> Duration {
        let (mut answered, mut stumbled, mut silent) = (BTreeSet::new(), false, false);
        for server in servers {
            if server.failed() {
                silent = true;
                stumbled |= self.answered.contains(&server.root);
            } else if server.sessions.is_some() {
                answered.insert(server.root.clone());
            }
        }
        self.rest = if stumbled {
            SECOND_TRY
        } else if !silent || !answered.is_empty() {
            SWEEP
        } else {
            (self.rest * 2).min(LONGEST)
        };
        self.answered = answered;
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use agentctl_model::CoverageKind;

    use super::*;

    fn server(root: &str, coverage: CoverageKind) -> SourceReport {
        let (adapter, error) = ("a".to_owned(), None);
        let sessions = (coverage == CoverageKind::Complete).then_some(1);
        let root = root.to_owned();
        SourceReport {
            adapter,
            root,
            host: String::new(),
            coverage,
            error,
            warnings: vec![],
            sessions,
            took_ms: 0,
        }
    }

    #[test]
    fn who_stumbles_is_asked_soon_and_who_is_away_ever_more_seldom() {
        let mut schedule = RemoteSchedule::default();
        let mut after = |here: CoverageKind, far: CoverageKind| {
            let servers = [server("here", here), server("far", far)];
            schedule.after(servers.iter()).as_secs()
        };
        assert_eq!(after(CoverageKind::NotInstalled, CoverageKind::Failed), 30, "it never answered");
        assert_eq!(after(CoverageKind::NotInstalled, CoverageKind::Failed), 60);
        assert_eq!(
            after(CoverageKind::Complete, CoverageKind::Failed),
            15,
            "one that is away slows nobody down"
        );
        assert_eq!(after(CoverageKind::Failed, CoverageKind::Failed), 1);
        assert_eq!(
            [
                after(CoverageKind::Failed, CoverageKind::Failed),
                after(CoverageKind::Failed, CoverageKind::Failed)
            ],
            [2, 4]
        );
        assert_eq!(after(CoverageKind::Failed, CoverageKind::Complete), 15);
        assert_eq!(after(CoverageKind::Complete, CoverageKind::TimedOut), 1);
        assert_eq!(after(CoverageKind::NotInstalled, CoverageKind::NotInstalled), 15);
    }
}
