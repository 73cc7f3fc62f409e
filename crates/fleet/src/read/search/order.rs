//! The order in which hits are told: newest session first, and none before it is certain that nothing newer will be found.

use std::cmp::Reverse;

use agentctl_adapters::search::Place;
use agentctl_model::Surveyed;
use jiff::Timestamp;

use super::queue::Newest;

/// A session in which something was found.
pub(super) struct Held {
    pub(super) session: Surveyed,
    /// Newest first.
    pub(super) places: Vec<Place>,
}

type Key<'h> = (Reverse<Option<Timestamp>>, &'h str, &'h str, &'h str);

impl Held {
    /// The order of a list that is sorted by the last activity.
    fn key(&self) -> Key<'_> {
        let session = &self.session.session;
        (Reverse(session.updated_at), &session.adapter, &session.config_root, &session.id)
    }
}

/// The sessions that wait for their turn.
#[derive(Default)]
pub(super) struct Order {
    /// In the order in which they are told.
    held: Vec<Held>,
}

impl Order {
    /// Keeps a session until it is its turn. Of what can never be told because `wanted` hits come before it, nothing is kept;
    /// returns whether that was so.
    pub(super) fn hold(&mut self, one: Held, wanted: usize) -> bool {
        let at = self.held.partition_point(|held| held.key() <= one.key());
        self.held.insert(at, one);
        let mut hits: usize = self.held.iter().map(|held| held.places.len()).sum();
        let mut is_cut = false;
        while let Some(last) = self.held.last() {
            hits -= last.places.len();
            if hits < wanted {
                break;
            }
            self.held.pop();
            is_cut = true;
        }
        is_cut
    }

    /// The next session, if nothing that is not searched so far can be as new.
    pub(super) fn next(&mut self, left: Option<Newest>) -> Option<Held> {
        let is_first = |held: &Held| left.is_none_or(|left| held.session.session.updated_at > left);
        let is_turn = self.held.first().is_some_and(is_first);
        is_turn.then(|| self.held.remove(0))
    }
}

#[cfg(test)]
mod tests {
    use agentctl_adapters::search::Shown;
    use agentctl_model::{Role, Status};
    use agentctl_testkit::sessions::{session, surveyed};

    use super::*;

    fn at(second: i64) -> Newest {
        Timestamp::from_second(second).ok()
    }

    fn held(id: &str, updated_at: Newest, hits: usize) -> Held {
        let mut one = session(id, Status::Stopped, None);
        one.updated_at = updated_at;
        let place =
            Place { position: "0.0".into(), at: None, role: Role::User, tool: None, shown: Shown::default() };
        Held { session: surveyed(one), places: vec![place; hits] }
    }

    fn told(order: &mut Order, left: Option<Newest>) -> Vec<String> {
        std::iter::from_fn(|| order.next(left)).map(|held| held.session.key.id).collect()
    }

    #[test]
    fn nothing_is_told_before_everything_that_may_be_newer_was_searched() {
        let mut order = Order::default();
        for (id, second) in [("b", 20), ("a", 20), ("old", 5), ("new", 30)] {
            assert!(!order.hold(held(id, at(second), 1), 50));
        }
        assert!(!order.hold(held("timeless", None, 1), 50));
        assert_eq!(told(&mut order, Some(at(40))), Vec::<String>::new());
        assert_eq!(told(&mut order, Some(at(20))), ["new"], "one as new may still come before it by its id");
        assert_eq!(told(&mut order, Some(at(10))), ["a", "b"]);
        assert_eq!(told(&mut order, Some(None)), ["old"], "what has no time is the last");
        assert_eq!(told(&mut order, None), ["timeless"]);
    }

    #[test]
    fn what_can_never_be_told_is_not_kept() {
        let mut order = Order::default();
        assert!(!order.hold(held("old", at(1), 3), 4));
        assert!(!order.hold(held("new", at(9), 3), 4), "one of the older ones is still wanted");
        assert!(order.hold(held("newer", at(10), 1), 4));
        assert_eq!(told(&mut order, None), ["newer", "new"]);
    }
}
