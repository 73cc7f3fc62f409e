//! Which of the surveyed sessions a list shows. Pure, but for links among their folders.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use agentctl_model::{Outcome, Session, Status, Surveyed};
use jiff::Timestamp;

/// A word of `--status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWord {
    Status(Status),
    Outcome(Outcome),
}

impl StatusWord {
    pub fn parse(word: &str) -> Result<Self, String> {
        let status = Status::ALL.into_iter().find(|status| status.as_str() == word).map(Self::Status);
        let outcome = Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == word).map(Self::Outcome);
        // Tables say "done", so a person may too.
        let done = (word == "done").then_some(Self::Outcome(Outcome::Completed));
        status.or(outcome).or(done).ok_or_else(|| {
            let known: Vec<&str> = Self::words().collect();
            format!("expected one of {}", known.join(", "))
        })
    }

    /// Every word that there is.
    pub fn words() -> impl Iterator<Item = &'static str> {
        let statuses = Status::ALL.into_iter().map(Status::as_str);
        statuses.chain(Outcome::ALL.into_iter().map(Outcome::as_str))
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Status(status) => status.as_str(),
            Self::Outcome(outcome) => outcome.as_str(),
        }
    }

    /// Such sessions may be stopped ones, which a plain list does not look at.
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

/// What a list is narrowed to.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// Only live sessions.
    pub(super) live: bool,
    /// Sessions that are not live must have been active since then.
    pub(super) since: Option<Timestamp>,
    pub(super) statuses: Vec<StatusWord>,
    pub(super) group: Option<String>,
    /// This folder or below; as typed and as it really is.
    pub(super) folders: Vec<PathBuf>,
}

impl Selection {
    pub(super) fn of(&self, sessions: Vec<Surveyed>) -> Vec<Surveyed> {
        // Many sessions share few folders, and looking one up costs calls of the system.
        let mut covered: HashMap<String, bool> = HashMap::new();
        let mut covers = |session: &Session| {
            let Some(cwd) = &session.cwd else { return false };
            if let Some(known) = covered.get(cwd) {
                return *known;
            }
            let covers = self.covers(Path::new(cwd));
            covered.insert(cwd.clone(), covers);
            covers
        };
        let mut fits = |session: &Session| self.fits(session) && (self.folders.is_empty() || covers(session));
        sessions.into_iter().filter(|surveyed| fits(&surveyed.session)).collect()
    }

    fn fits(&self, session: &Session) -> bool {
        // A session that does not say when it was active cannot be shown to be too old.
        let recent = match (self.since, session.updated_at) {
            (Some(since), Some(updated)) => updated >= since,
            _ => true,
        };
        let present = session.is_live() || (!self.live && recent);
        let status = self.statuses.is_empty() || self.statuses.iter().any(|word| word.fits(session));
        let group = self.group.is_none() || self.group == session.group;
        present && status && group
    }

    /// Some agents record a folder as it was typed, others as it really is.
    fn covers(&self, cwd: &Path) -> bool {
        let within = |cwd: &Path| self.folders.iter().any(|folder| cwd.starts_with(folder));
        // Where it really is may not be to be had; then only what is written down counts.
        within(cwd) || agentctl_files::real_path_within(cwd).is_some_and(|real| within(&real))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::list::made::{session, surveyed};

    #[test]
    fn status_words_are_those_of_the_contract_and_done() {
        assert_eq!(StatusWord::parse("waiting"), Ok(StatusWord::Status(Status::Waiting)));
        assert_eq!(StatusWord::parse("done"), StatusWord::parse("completed"));
        assert!(StatusWord::parse("working").unwrap_err().contains("interrupted"));
        assert!(!StatusWord::parse("idle").unwrap().reaches_stopped());
        assert!(StatusWord::parse("stopped").unwrap().reaches_stopped());
        assert!(StatusWord::parse("failed").unwrap().reaches_stopped());
    }

    #[test]
    fn an_outcome_word_also_finds_live_sessions() {
        let failed = session("a", Status::Idle, Some(Outcome::Failed));
        let selection =
            Selection { statuses: vec![StatusWord::Outcome(Outcome::Failed)], ..Selection::default() };
        assert!(selection.fits(&failed));
        assert!(!selection.fits(&session("a", Status::Idle, None)));
    }

    #[test]
    fn a_window_never_hides_a_live_session() {
        let since = Some("2030-01-01T00:00:00Z".parse().unwrap());
        let selection = Selection { since, ..Selection::default() };
        assert!(selection.fits(&session("a", Status::Running, None)));
        assert!(!selection.fits(&session("a", Status::Stopped, None)));
        let timeless = Session { updated_at: None, ..session("a", Status::Stopped, None) };
        assert!(selection.fits(&timeless));
    }

    #[test]
    fn a_folder_is_itself_and_what_is_below() {
        let within = |folder: &str| {
            let selection = Selection { folders: vec![folder.into()], ..Selection::default() };
            !selection.of(vec![surveyed(session("a", Status::Running, None))]).is_empty()
        };
        assert!(within("/home/dev/work") && within("/home/dev/work/mono/services/auth") && within("/"));
        assert!(!within("/home/dev/wor") && !within("/srv"));
    }
}
