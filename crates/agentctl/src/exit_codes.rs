//! The exit codes of agentctl. Scripts rely on these numbers; only this file and `main` end the process.

use std::process::ExitCode;

use agentctl_model::ErrorKind;

/// Every way a command can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Ambiguous = 4,
    NoDaemon = 5,
    Incomplete = 6,
    Refused = 7,
    Timeout = 124,
    Interrupted = 130,
}

impl Exit {
    const ALL: [Self; 10] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::NotFound,
        Self::Ambiguous,
        Self::NoDaemon,
        Self::Incomplete,
        Self::Refused,
        Self::Timeout,
        Self::Interrupted,
    ];

    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// Combines the results of several requests into one exit code, which is the worst. A failed attempt is
    /// worse than none, and not knowing is worse than knowing that there is nothing.
    pub(crate) fn or_worse(self, other: Self) -> Self {
        let weight = |exit: Self| match exit {
            Self::Done => 0,
            Self::NotFound => 1,
            Self::Ambiguous => 2,
            Self::Usage => 3,
            Self::Incomplete => 4,
            Self::Refused => 5,
            Self::NoDaemon => 6,
            Self::Timeout => 7,
            Self::Failed => 8,
            Self::Interrupted => 9,
        };
        if weight(other) > weight(self) { other } else { self }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Done => "done (a closed pipe too)",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not found",
            Self::Ambiguous => "ambiguous",
            Self::NoDaemon => "the daemon is needed and cannot be had",
            Self::Incomplete => "the answer is incomplete",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Interrupted => "interrupted",
        }
    }

    /// The whole list, for help and the man page.
    pub(crate) fn table() -> String {
        let lines = Self::ALL.map(|exit| format!("  {:>3}  {}", exit.code(), exit.words()));
        format!("Exit codes:\n{}", lines.join("\n"))
    }
}

/// The exit code of a command that failed with an error of this kind.
impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Usage => Self::Usage,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Ambiguous => Self::Ambiguous,
            ErrorKind::Incomplete => Self::Incomplete,
            ErrorKind::Refused | ErrorKind::Unsupported => Self::Refused,
            ErrorKind::Failed | ErrorKind::AgentFailed | ErrorKind::NoAnswer | ErrorKind::Busy => {
                Self::Failed
            }
            ErrorKind::TimedOut => Self::Timeout,
            ErrorKind::NoDaemon => Self::NoDaemon,
            ErrorKind::Interrupted => Self::Interrupted,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_contract() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 124, 130]);
        assert!(Exit::table().contains("130  interrupted"));
    }

    #[test]
    fn every_kind_of_error_has_an_exit_code_that_is_no_success() {
        let codes = ErrorKind::ALL.map(|kind| Exit::from(kind).code());
        assert_eq!(codes, [2, 3, 4, 6, 7, 7, 1, 1, 1, 124, 5, 1, 130]);
    }
}
