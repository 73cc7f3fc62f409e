//! What is still to be searched: the newest first.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::conversations::Item;

/// How new a conversation can be at most: no record in it is newer. `None` is older than everything.
pub(super) type Newest = Option<Timestamp>;

/// An item, with how new it can be.
pub(super) struct Queued {
    pub(super) newest: Newest,
    pub(super) item: Item,
}

/// Who has it searches one item.
pub(super) struct Ticket {
    number: u64,
    pub(super) newest: Newest,
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Oldest first.
    items: Vec<Queued>,
    /// What is being searched now.
    taken: BTreeMap<u64, Newest>,
    next: u64,
    /// How many conversations were searched in vain since somebody asked.
    in_vain: usize,
    is_paused: bool,
    is_closed: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, items: impl IntoIterator<Item = Queued>) {
        let mut state = self.state();
        state.items.extend(items);
        state.items.sort_by_key(|queued| queued.newest);
        self.changed.notify_all();
    }

    /// Nobody begins with anything new as long as this is so.
    pub(super) fn pause(&self, is_paused: bool) {
        let mut state = self.state();
        if std::mem::replace(&mut state.is_paused, is_paused) != is_paused {
            self.changed.notify_all();
        }
    }

    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// The next item, once there is one; `None` when the search is over. `in_vain` is what the caller has just searched without
    /// finding anything, with the number of its conversations: nobody waits for it from here on, however long the next item
    /// takes. `before_waiting` is called when there is no next item now.
    pub(super) fn take(
        &self,
        in_vain: Option<(Ticket, usize)>,
        mut before_waiting: impl FnMut(),
    ) -> Option<(Ticket, Item)> {
        let mut state = self.state();
        if let Some((ticket, conversations)) = in_vain {
            state.taken.remove(&ticket.number);
            state.in_vain += conversations;
        }
        loop {
            if state.is_closed {
                return None;
            }
            if !state.is_paused
                && let Some(Queued { newest, item }) = state.items.pop()
            {
                let number = state.next;
                state.next += 1;
                state.taken.insert(number, newest);
                return Some((Ticket { number, newest }, item));
            }
            before_waiting();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn done(&self, ticket: &Ticket) {
        self.state().taken.remove(&ticket.number);
    }

    /// How new at most is what is not searched so far, `None` when everything is; and how many conversations were searched in
    /// vain since the last call.
    pub(super) fn newest_left(&self) -> (Option<Newest>, usize) {
        let mut state = self.state();
        let waiting = state.items.last().map(|queued| queued.newest);
        let left = waiting.max(state.taken.values().copied().max());
        (left, std::mem::take(&mut state.in_vain))
    }

    /// How many items are not searched so far.
    pub(super) fn left(&self) -> usize {
        let state = self.state();
        state.items.len() + state.taken.len()
    }
}
