//! How a card is written: it starts with the values that hold for most agents, and an adapter names only the others.

use std::path::{Path, PathBuf};

use agentctl_model::{Capability, Environ, Way};

use crate::{Card, Home, Looks, Trace};

impl Looks {
    pub const NONE: Self = Self { locks: false, open_files: false, offspring: false, listening: false };
}

impl Home {
    /// The root that these variables lead to.
    pub(crate) fn root(&self, environ: &Environ) -> Option<PathBuf> {
        let moved = environ.path(self.variable);
        let folder = moved.or_else(|| environ.path("HOME").map(|home| home.join(self.usual)))?;
        Some(match self.inside {
            Some(inside) => folder.join(inside),
            None => folder,
        })
    }

    /// The variable with the value that leads to this root.
    pub(crate) fn variable_for(&self, root: &Path) -> (&'static str, PathBuf) {
        let folder = self.inside.and_then(|_| root.parent()).unwrap_or(root);
        (self.variable, folder.to_owned())
    }
}

impl Card {
    /// An agent that was observed, ties nothing to its process and cannot be asked.
    pub const fn new(name: &'static str, title: &'static str) -> Self {
        Self {
            name,
            title,
            programs: &[],
            home: None,
            opened_by: &[],
            marks: &[],
            id_marks: &[],
            known_good: "",
            capabilities: &[],
            ways: &[],
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
    pub const fn home(self, variable: &'static str, usual: &'static str) -> Self {
        Self { home: Some(Home { variable, usual, inside: None }), ..self }
    }

    #[must_use]
    pub const fn home_inside(
        self,
        variable: &'static str,
        usual: &'static str,
        inside: &'static str,
    ) -> Self {
        Self { home: Some(Home { variable, usual, inside: Some(inside) }), ..self }
    }

    #[must_use]
    pub const fn opened_by(self, opened_by: &'static [&'static str]) -> Self {
        Self { opened_by, ..self }
    }

    #[must_use]
    pub const fn marks(self, marks: &'static [&'static str]) -> Self {
        Self { marks, ..self }
    }

    #[must_use]
    pub const fn id_marks(self, id_marks: &'static [&'static str]) -> Self {
        Self { id_marks, ..self }
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
    pub const fn ways(self, ways: &'static [Way]) -> Self {
        Self { ways, ..self }
    }

    /// What can be done with a session that nobody holds. Where the agent can have a server, whether this session has
    /// one shows only when it is asked.
    pub fn capabilities_of_sessions(&self) -> Vec<Capability> {
        self.capabilities_by(|way| !way.place.is_held())
    }

    /// What can be done with its sessions at all.
    pub fn all_capabilities(&self) -> Vec<Capability> {
        self.capabilities_by(|_| true)
    }

    /// What can be done with every session and by the ways that count, in the usual order.
    fn capabilities_by(&self, counts: impl Fn(&Way) -> bool) -> Vec<Capability> {
        let is_there = |one: &Capability| {
            self.capabilities.contains(one) || self.ways.iter().any(|way| counts(way) && way.gives(*one))
        };
        Capability::ALL.into_iter().filter(is_there).collect()
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

#[cfg(test)]
mod tests {
    use crate::registry;

    /// A mark that is not in the list of all marks would be inherited by what agentctl starts, and name the wrong
    /// session there.
    #[test]
    fn every_mark_with_an_id_is_a_mark() {
        for adapter in registry() {
            let card = adapter.card();
            assert!(card.id_marks.iter().all(|mark| card.marks.contains(mark)), "{}", card.name);
        }
    }
}
