//! Filters the surveyed sessions for a list. Pure, except that it resolves symbolic links in their directories.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use agentctl_model::{Outcome, Session, Status, Surveyed};

use super::sort::Sort;

/// A value of `--status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusFilter {
    Status(Status),
    Outcome(Outcome),
}

impl StatusFilter {
    pub fn parse(word: &str) -> Result<Self, String> {
        let status = Status::ALL.into_iter().find(|status| status.as_str() == word).map(Self::Status);
        let outcome = Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == word).map(Self::Outcome);
        // Tables print "done" for completed, so `--status` accepts it too.
        let done = (word == "done").then_some(Self::Outcome(Outcome::Completed));
        status.or(outcome).or(done).ok_or_else(|| {
            let known: Vec<&str> = Self::words().collect();
            format!("expected one of {}", known.join(", "))
        })
    }

    /// Every accepted value.
    pub fn words() -> impl Iterator<Item = &'static str> {
        let statuses = Status::ALL.into_iter().map(Status::as_str);
        statuses.chain(Outcome::ALL.into_iter().map(Outcome::as_str))
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Status(status) => status.as_str(),
            Self::Outcome(outcome) => outcome.as_str(),
        }
    }

    /// Such sessions may be stopped ones, which a plain list does not read.
    pub fn reaches_stopped(self) -> bool {
        matches!(self, Self::Outcome(_) | Self::Status(Status::Stopped))
    }

    fn fits(self, session: &Session) -> bool {
        match self {
            Self::Status(status) => session.status == status,
            Self::Outcome(outcome) => session.outcome == Some(outcome),
        }
    }
}

/// Which of the surveyed sessions a list shows, and in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilter {
    pub statuses: Vec<StatusFilter>,
    pub group: Option<String>,
    /// Only sessions in these directories or below. It holds one directory, as it was typed and as its real path.
    pub folders: Vec<PathBuf>,
    pub sort: Sort,
    pub limit: Option<usize>,
}

impl ListFilter {
    pub(crate) fn of(&self, sessions: Vec<Surveyed>) -> Vec<Surveyed> {
        let which = self.which(&sessions);
        sessions.into_iter().zip(which).filter(|(_, fits)| *fits).map(|(surveyed, _)| surveyed).collect()
    }

    /// Which of these sessions fit, in their order.
    pub(crate) fn which(&self, sessions: &[Surveyed]) -> Vec<bool> {
        // Many sessions share few directories, and resolving one costs system calls.
        let mut covered: HashMap<String, bool> = HashMap::new();
        let mut covers = |session: &Surveyed| {
            let Some(cwd) = session.session.cwd.as_deref() else { return false };
            *covered.entry(cwd.to_owned()).or_insert_with(|| self.covers(Path::new(cwd)))
        };
        let mut fits = |one: &Surveyed| self.fits(&one.session) && (self.folders.is_empty() || covers(one));
        sessions.iter().map(&mut fits).collect()
    }

    fn fits(&self, session: &Session) -> bool {
        let status = self.statuses.is_empty() || self.statuses.iter().any(|word| word.fits(session));
        let group = self.group.is_none() || self.group == session.group;
        status && group
    }

    /// Some agents record a directory as it was typed, others record its real path.
    fn covers(&self, cwd: &Path) -> bool {
        let within = |cwd: &Path| self.folders.iter().any(|folder| cwd.starts_with(folder));
        // If the real path cannot be determined, only the recorded path counts.
        within(cwd) || agentctl_files::real_path_within(cwd).is_some_and(|real| within(&real))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentctl_testkit::sessions::{session, surveyed};

    #[test]
    fn status_words_are_those_of_the_contract_and_done() {
        assert_eq!(StatusFilter::parse("waiting"), Ok(StatusFilter::Status(Status::Waiting)));
        assert_eq!(StatusFilter::parse("done"), StatusFilter::parse("completed"));
        assert!(StatusFilter::parse("working").unwrap_err().contains("interrupted"));
        assert!(!StatusFilter::parse("idle").unwrap().reaches_stopped());
        assert!(StatusFilter::parse("stopped").unwrap().reaches_stopped());
        assert!(StatusFilter::parse("failed").unwrap().reaches_stopped());
    }

    #[test]
    fn an_outcome_word_also_finds_live_sessions() {
        let failed = session("a", Status::Idle, Some(Outcome::Failed));
        let filter =
            ListFilter { statuses: vec![StatusFilter::Outcome(Outcome::Failed)], ..ListFilter::default() };
        assert!(filter.fits(&failed));
        assert!(!filter.fits(&session("a", Status::Idle, None)));
    }

    #[test]
    fn a_folder_is_itself_and_what_is_below() {
        let within = |folder: &str| {
            let filter = ListFilter { folders: vec![folder.into()], ..ListFilter::default() };
            !filter.of(vec![surveyed(session("a", Status::Running, None))]).is_empty()
        };
        assert!(within("/home/dev/work") && within("/home/dev/work/mono/services/auth") && within("/"));
        assert!(!within("/home/dev/wor") && !within("/srv"));
    }
}
