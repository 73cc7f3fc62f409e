//! Distinguishes a refusal of something that an agent never offers from a refusal of something that it offers at
//! other times.

use agentctl_model::{Capability, Error, ErrorKind};

/// Returns the same error, but a refusal by an agent without this capability becomes `Unsupported`.
pub(crate) fn unless_offered(error: Error, adapter: &str, wanted: Capability) -> Error {
    let card = agentctl_adapters::registry().into_iter().map(agentctl_adapters::Adapter::card);
    let offers = card.filter(|card| card.name == adapter).any(|card| card.capabilities.contains(&wanted));
    if error.kind == ErrorKind::Refused && !offers { error.of_kind(ErrorKind::Unsupported) } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_of_what_the_agent_never_offers_is_unsupported() {
        let kind = |error, adapter, wanted| unless_offered(error, adapter, wanted).kind;
        assert_eq!(kind(Error::refused("x"), "codex", Capability::Stop), ErrorKind::Refused);
        assert_eq!(kind(Error::refused("x"), "gemini", Capability::Send), ErrorKind::Unsupported);
        assert_eq!(kind(Error::refused("x"), "nobody", Capability::Stop), ErrorKind::Unsupported);
        assert_eq!(kind(Error::no_answer("x"), "gemini", Capability::Send), ErrorKind::NoAnswer);
    }
}
