//! Why something was not done: the kind of error, a message for a person, and what to do next.
//!
//! The kind is for programs. It is mapped in two places only, by one total function each: to an exit code
//! (`agentctl/exit_codes.rs`) and to a status and code of the API (`daemon/serve/problem.rs`).

use std::fmt;

/// What kind of error it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request makes no sense.
    Usage,
    /// There is no such thing, and everything that could contain it was read.
    NotFound,
    /// Several things match.
    Ambiguous,
    /// Not everything could be read, so nothing can be claimed.
    Incomplete,
    /// It must not be done at present, or the agent refused.
    Refused,
    /// This agent never offers this.
    Unsupported,
    /// It failed here.
    Failed,
    /// The agent could not be started, or failed.
    AgentFailed,
    /// The agent did not answer. Unless the message says otherwise, it is not known whether it accepted the request.
    NoAnswer,
    /// The time that the caller gave was up, and nothing was done.
    TimedOut,
    /// The daemon is needed and not available.
    NoDaemon,
    /// There is too much to do at once.
    Busy,
    /// The user interrupted it.
    Interrupted,
}

impl ErrorKind {
    pub const ALL: [Self; 13] = [
        Self::Usage,
        Self::NotFound,
        Self::Ambiguous,
        Self::Incomplete,
        Self::Refused,
        Self::Unsupported,
        Self::Failed,
        Self::AgentFailed,
        Self::NoAnswer,
        Self::TimedOut,
        Self::NoDaemon,
        Self::Busy,
        Self::Interrupted,
    ];
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    /// What happened, for a person.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    pub fn agent_failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::AgentFailed, message)
    }

    pub fn no_answer(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NoAnswer, message)
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Returns the same message and hint as another kind of error.
    #[must_use]
    pub fn of_kind(self, kind: ErrorKind) -> Self {
        Self { kind, ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_message_and_hint_when_its_kind_changes() {
        let refused = Error::refused("no").hint("ask again");
        assert_eq!(refused.to_string(), "no");
        let failed = refused.of_kind(ErrorKind::AgentFailed);
        assert_eq!(failed, Error::agent_failed("no").hint("ask again"));
    }
}
