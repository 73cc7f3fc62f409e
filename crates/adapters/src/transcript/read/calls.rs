//! Token totals of agents that may write the usage of one model call several times. Pure.

use std::collections::HashMap;

use agentctl_model::Tokens;

use super::plus;

/// The usage of every model call by its name; a call that is written again replaces itself.
#[derive(Debug, Default)]
pub(crate) struct Calls(HashMap<Box<str>, Tokens>);

impl Calls {
    /// A call without a name is not written again.
    pub(crate) fn add(&mut self, name: Option<&str>, tokens: Tokens) {
        let name = name.map_or_else(|| format!("nameless {}", self.0.len()).into(), Into::into);
        self.0.insert(name, tokens);
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// `None` when no usage was ever recorded.
    pub(crate) fn total(self) -> Option<Tokens> {
        self.0.into_values().reduce(plus)
    }
}
