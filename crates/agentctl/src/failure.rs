//! Why a command failed: an error for the user, or a reader of our output that has gone.

use std::io;

use agentctl_daemon::Problem;
use agentctl_fleet::StoreError;
use agentctl_fleet::worktree::WorktreeError;
use agentctl_model::{Error, ErrorKind, text};

/// The error of every command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error for the user; its kind decides the exit code.
    Said(Error),
    /// The reader of our output has gone, which is not an error.
    ReaderGone,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Said(Error::new(kind, message))
    }

    /// The same failure, with a further sentence about the current state.
    pub(crate) fn and(self, words: &str) -> Self {
        match self {
            Self::Said(error) => {
                Self::Said(Error { message: format!("{}\n{words}", error.message), ..error })
            }
            Self::ReaderGone => Self::ReaderGone,
        }
    }

    /// The error for a program that is told of it on another way than the standard streams of a command.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Said(error) => error,
            Self::ReaderGone => Error::failed("nobody reads the answer"),
        }
    }

    pub(crate) fn hint(self, words: impl Into<String>) -> Self {
        match self {
            Self::Said(error) => Self::Said(error.hint(words)),
            Self::ReaderGone => Self::ReaderGone,
        }
    }
}

/// A message may quote other programs, so it is cleaned of what could control the terminal.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Said(Error { message: text::clean(&error.message), ..error })
    }
}

/// A refusal of the API, as if this process had refused itself: the kind is that of one total map.
impl From<&Problem> for Failure {
    fn from(problem: &Problem) -> Self {
        let failure = Self::from(Error::new(problem.kind(), problem.detail.clone()));
        // A hint that names a route is meant for programs and is no next step at a command line.
        match &problem.hint {
            Some(hint) if !hint.starts_with("GET /") => failure.hint(text::clean(hint)),
            _ => failure,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Error::from(error).into()
    }
}

impl From<WorktreeError> for Failure {
    fn from(error: WorktreeError) -> Self {
        let hint = match &error {
            WorktreeError::NotARepository(_) => {
                Some("go to one, or name it: `agentctl worktree list REPO`, `worktree clean --repo REPO`")
            }
            WorktreeError::BranchInUse { .. } => {
                Some("give another --branch; one can be checked out only once")
            }
            WorktreeError::BranchExists(_) => {
                Some("leave out --base-branch to use it as it is, or give another --branch")
            }
            WorktreeError::MainTree(_) => Some("only trees that were added to a repository can be cleaned"),
            WorktreeError::NoGit(_) => Some("working trees need git on the PATH"),
            WorktreeError::BadBranch(_)
            | WorktreeError::BadBase(_)
            | WorktreeError::SeveralRemotes(_)
            | WorktreeError::Untrusted { .. }
            | WorktreeError::Store(_)
            | WorktreeError::Busy(_)
            | WorktreeError::Git { .. }
            | WorktreeError::Silent { .. }
            | WorktreeError::TooMuch { .. }
            | WorktreeError::Io { .. } => None,
        };
        let failure = Self::from(Error::from(error));
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// Only writing our own output yields a bare I/O error; code that reads files names the path instead.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::ReaderGone;
        }
        Self::new(ErrorKind::Failed, format!("cannot write the output: {error}"))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}
