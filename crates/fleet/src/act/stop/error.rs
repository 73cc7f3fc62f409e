//! Why a session was not stopped. A refusal comes from agentctl or from the agent; everything else was tried and
//! failed.

use agentctl_adapters::gateway::ServerError;
use agentctl_model::{Refusal, Status};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopError {
    pub kind: NotStopped,
    pub reason: String,
    pub hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStopped {
    /// It must not or cannot be stopped, or its server refused.
    Refused,
    /// Its server did not answer: whether it stopped is not known.
    Unheard,
    /// Its server accepted the stop, and reports that the session still works.
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

impl From<ServerError> for StopError {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Refused(refusal) => refusal.into(),
            ServerError::Unheard(why) => Self::tried(NotStopped::Unheard, why),
        }
    }
}

/// What is to be said of a session that a server was told to break off, and that is not seen at rest.
pub(crate) fn not_broken_off(took: &str, id: &str, now: Option<Status>) -> StopError {
    let (kind, then) = match now {
        Some(status @ (Status::Running | Status::Waiting)) => {
            (NotStopped::AtWork, format!("still says that session {id} is {}", status.as_str()))
        }
        _ => (NotStopped::Unheard, format!("has not been heard of session {id} since")),
    };
    StopError::tried(kind, format!("{took}, but {then}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_neither_a_refusal_nor_an_end() {
        let kind = |now| not_broken_off("its server took the stop", "s-1", now).kind;
        assert_eq!(kind(Some(Status::Running)), NotStopped::AtWork);
        assert_eq!(kind(Some(Status::Unknown)), NotStopped::Unheard);
        assert_eq!(kind(None), NotStopped::Unheard, "not in the survey");
        let away = StopError::from(ServerError::Unheard("connection refused".into()));
        assert_eq!(away.kind, NotStopped::Unheard);
    }
}
