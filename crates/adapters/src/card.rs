//! How a card is written: it starts with the values that hold for most agents, and an adapter names only the others.

use agentctl_model::Capability;

use crate::{Card, Looks, Trace};

impl Looks {
    pub const NONE: Self = Self { locks: false, open_files: false, offspring: false, listening: false };
}

impl Card {
    /// An agent that was observed, ties nothing to its process and cannot be asked.
    pub const fn new(name: &'static str, title: &'static str) -> Self {
        Self {
            name,
            title,
            programs: &[],
            known_good: "",
            capabilities: &[],
            looks: Looks::NONE,
            trace: Trace::Nothing,
            can_be_asked: false,
            verified: true,
        }
    }

    #[must_use]
    pub const fn programs(self, programs: &'static [&'static str]) -> Self {
        Self { programs, ..self }
    }

    #[must_use]
    pub const fn known_good(self, known_good: &'static str) -> Self {
        Self { known_good, ..self }
    }

    #[must_use]
    pub const fn capabilities(self, capabilities: &'static [Capability]) -> Self {
        Self { capabilities, ..self }
    }

    #[must_use]
    pub const fn looks(self, looks: Looks) -> Self {
        Self { looks, ..self }
    }

    #[must_use]
    pub const fn trace(self, trace: Trace) -> Self {
        Self { trace, ..self }
    }

    #[must_use]
    pub const fn can_be_asked(self) -> Self {
        Self { can_be_asked: true, ..self }
    }

    #[must_use]
    pub const fn unverified(self) -> Self {
        Self { verified: false, ..self }
    }
}
