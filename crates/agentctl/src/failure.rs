//! Why a command failed: a message for a person, a next step, and an exit code.

use std::io;

use crate::exit_codes::Exit;

/// The error of every command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A message for the user.
    Said { message: String, hint: Option<String>, exit: Exit },
    /// The reader of our output has gone, which is not an error.
    ReaderGone,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self::Said { message: message.into(), hint: None, exit }
    }

    /// The same failure, with a further sentence about the current state.
    pub(crate) fn and(self, words: &str) -> Self {
        match self {
            Self::Said { message, hint, exit } => {
                Self::Said { message: format!("{message}\n{words}"), hint, exit }
            }
            Self::ReaderGone => Self::ReaderGone,
        }
    }

    pub(crate) fn hint(self, words: impl Into<String>) -> Self {
        match self {
            Self::Said { message, exit, .. } => Self::Said { message, hint: Some(words.into()), exit },
            Self::ReaderGone => Self::ReaderGone,
        }
    }
}

/// Only writing our own output yields a bare I/O error; code that reads files names the path instead.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::ReaderGone;
        }
        Self::new(Exit::Failed, format!("cannot write the output: {error}"))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}
