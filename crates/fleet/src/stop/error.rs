//! Why a session was not stopped. A refusal is a no, said here or by the agent; everything else was tried.

use agentctl_adapters::host::HostError;
use agentctl_model::Refusal;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopError {
    pub kind: NotStopped,
    pub reason: String,
    pub hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStopped {
    /// It must not be, cannot be, or its server said no.
    Refused,
    /// Its server was not heard: whether it stopped is not known.
    Unheard,
    /// Its server took the stop, and says that it works on.
    AtWork,
}

impl StopError {
    pub(crate) fn tried(kind: NotStopped, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), hint: None }
    }

    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl From<Refusal> for StopError {
    fn from(Refusal { reason, hint }: Refusal) -> Self {
        Self { kind: NotStopped::Refused, reason, hint }
    }
}

impl From<HostError> for StopError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Refused(refusal) => refusal.into(),
            HostError::Unheard(why) => Self::tried(NotStopped::Unheard, why),
        }
    }
}
