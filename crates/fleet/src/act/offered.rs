//! Distinguishes a refusal of something that an agent never offers from a refusal of something that it offers at
//! other times.

use agentctl_adapters::Card;
use agentctl_model::{Capability, Error, ErrorKind};

/// Returns the same error, but a refusal where this is never offered becomes `Unsupported`.
pub(crate) fn unless_offered(error: Error, offered: &[Capability], wanted: Capability) -> Error {
    let is_offered = offered.contains(&wanted);
    if error.kind == ErrorKind::Refused && !is_offered {
        error.of_kind(ErrorKind::Unsupported)
    } else {
        error
    }
}

/// Returns what an agent offers for a session that does not exist yet.
pub(crate) fn capabilities_of(adapter: &str) -> Vec<Capability> {
    let mut cards = agentctl_adapters::registry().into_iter().map(agentctl_adapters::Adapter::card);
    cards.find(|card| card.name == adapter).map(Card::capabilities_of_sessions).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_of_what_the_agent_never_offers_is_unsupported() {
        let kind = |error, adapter, wanted| unless_offered(error, &capabilities_of(adapter), wanted).kind;
        assert_eq!(kind(Error::refused("x"), "codex", Capability::Stop), ErrorKind::Refused);
        assert_eq!(kind(Error::refused("x"), "gemini", Capability::Send), ErrorKind::Unsupported);
        assert_eq!(kind(Error::refused("x"), "nobody", Capability::Stop), ErrorKind::Unsupported);
        assert_eq!(kind(Error::no_answer("x"), "gemini", Capability::Send), ErrorKind::NoAnswer);
    }
}
