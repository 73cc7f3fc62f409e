//! Why a session that a server was told to interrupt does not count as stopped.

use agentctl_model::{Error, Status};

/// The error for a session that a server was told to interrupt and that is not seen at rest. Either the server says that
/// the session still works, or it was not heard, and then it is not known whether the session stopped.
pub(crate) fn not_broken_off(took: &str, id: &str, now: Option<Status>) -> Error {
    match now {
        Some(status @ (Status::Running | Status::Waiting)) => {
            Error::agent_failed(format!("{took}, but still says that session {id} is {}", status.as_str()))
        }
        _ => Error::no_answer(format!("{took}, but has not been heard of session {id} since")),
    }
}

#[cfg(test)]
mod tests {
    use agentctl_model::ErrorKind;

    use super::*;

    #[test]
    fn silence_is_neither_a_refusal_nor_an_end() {
        let kind = |now| not_broken_off("its server took the stop", "s-1", now).kind;
        assert_eq!(kind(Some(Status::Running)), ErrorKind::AgentFailed);
        assert_eq!(kind(Some(Status::Unknown)), ErrorKind::NoAnswer);
        assert_eq!(kind(None), ErrorKind::NoAnswer, "not in the survey");
    }
}
