//! Why a host could not be asked: the step at which the road ended, the words of whoever refused, and the remedy.

use std::fmt;

/// The steps of a road, in the order in which they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The name of the machine becomes an address.
    Resolve,
    Connect,
    /// Both sides show who they are.
    Authenticate,
    /// agentctl is found there and starts.
    Program,
    /// Both speak the same version of the road.
    Version,
    /// The API answers.
    Answer,
}

impl Step {
    pub const ALL: [Self; 6] =
        [Self::Resolve, Self::Connect, Self::Authenticate, Self::Program, Self::Version, Self::Answer];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Authenticate => "authenticate",
            Self::Program => "program",
            Self::Version => "version",
            Self::Answer => "answer",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoadFailure {
    pub step: Step,
    /// One line, without control characters.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl RoadFailure {
    pub fn new(step: Step, message: impl AsRef<str>) -> Self {
        Self { step, message: agentctl_model::text::one_line(message.as_ref()), hint: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for RoadFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for RoadFailure {}
