//! The model calls of one transcript: each counts once, however often it is written. Pure.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use agentctl_model::usage::ByHash;
use agentctl_model::{Call, Tokens};
use jiff::Timestamp;

use crate::transcript::memory::Counted;

/// The calls in the order of their first records. A call that is written again replaces its figures and keeps its time.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    in_order: Vec<Call>,
    /// By the hash of the name.
    by_name: HashMap<u64, usize, ByHash>,
    models: Vec<Arc<str>>,
}

/// What a record says about one call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Recorded<'r> {
    pub(crate) at: Option<Timestamp>,
    pub(crate) model: Option<&'r str>,
    pub(crate) tokens: Tokens,
    pub(crate) cost: Option<f64>,
    pub(crate) agent: Option<&'r str>,
}

impl Calls {
    /// Adds a call. `name` is what the agent calls it; a call without one is not written again.
    pub(crate) fn add(&mut self, name: Option<&str>, recorded: Recorded<'_>) {
        let Recorded { at, model, tokens, cost, agent } = recorded;
        let hash = name.map(|name| hash_of(&name));
        if let Some(known) = hash.and_then(|hash| self.by_name.get(&hash)) {
            let known = &mut self.in_order[*known];
            known.tokens = tokens;
            known.cost = cost;
            return;
        }
        // A copy in another file, or on another machine, has the same name and time. A name alone may be one that a small
        // server gives again. Other machines hash the text, so its hash is not hashed here in its place.
        let shared = name.zip(at).map(|of| hash_of(&of));
        let model = model.filter(|model| !model.is_empty()).map(|model| self.model(model));
        if let Some(hash) = hash {
            self.by_name.insert(hash, self.in_order.len());
        }
        self.in_order.push(Call { at, model, tokens, cost, name: shared, agent: agent.map(Into::into) });
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(&hash_of(&name))
    }

    /// What was counted so far belongs to another session.
    pub(crate) fn clear(&mut self) {
        self.in_order.clear();
        self.by_name.clear();
    }

    /// One text for all calls of a model.
    fn model(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.models.iter().find(|known| known.as_ref() == name) {
            return known.clone();
        }
        let model: Arc<str> = agentctl_model::text::clean_cut(name, Some(200)).into();
        self.models.push(model.clone());
        model
    }

    /// The session's own totals and all calls; the totals are `None` when no usage was ever recorded.
    pub(crate) fn counted(self) -> Counted {
        let own = || self.in_order.iter().filter(|call| call.agent.is_none());
        let dollars: f64 = own().filter_map(|call| call.cost).sum();
        Counted {
            tokens: own().map(|call| call.tokens).reduce(Tokens::plus),
            // An agent that knows no price writes 0.
            cost: (dollars > 0.0).then_some(dollars),
            calls: self.in_order.into(),
            ..Counted::default()
        }
    }
}

/// The same for the same value in every run of this program, which is as long as it is needed.
pub(crate) fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_named_by_the_hash_of_the_text_and_its_time_as_other_machines_name_it() {
        let at = Timestamp::from_second(1).unwrap();
        let mut calls = Calls::default();
        for cost in [1.0, 2.0] {
            calls.add(Some("req_1"), Recorded { at: Some(at), cost: Some(cost), ..Recorded::default() });
        }
        assert!(calls.has("req_1") && !calls.has("req_2"));
        let counted = calls.counted();
        assert_eq!(counted.cost, Some(2.0), "what is written again counts once");
        assert_eq!(counted.calls[0].name, Some(hash_of(&("req_1", at))));
    }
}
