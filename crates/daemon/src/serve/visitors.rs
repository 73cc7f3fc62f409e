//! Who is connected to one door. Whoever has not shown who he is may be anybody: there are few places for such, and the
//! one who has been there longest makes way for the next. Somebody with a token shows it at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::run::descriptors::Share;

pub(crate) struct Visitors {
    places: Arc<Semaphore>,
    strangers: Arc<Mutex<Strangers>>,
}

struct Strangers {
    most: usize,
    /// The number of the next one: who came first has the smallest.
    next: u64,
    /// How each is asked to leave.
    here: BTreeMap<u64, oneshot::Sender<()>>,
}

/// A connection that was let in.
pub(crate) struct Visitor {
    pub(crate) pass: Pass,
    /// Comes true when it must make way; fails when it never will.
    pub(crate) asked_to_leave: oneshot::Receiver<()>,
    /// Given back when the connection ends.
    pub(crate) _place: Place,
}

/// A place for one connection; nobody takes it back.
pub(crate) type Place = Option<OwnedSemaphorePermit>;

/// With this a connection becomes known, and is a stranger until then. Every request of it carries a copy.
#[derive(Clone)]
pub(crate) struct Pass(Arc<Entry>);

struct Entry {
    number: u64,
    strangers: Arc<Mutex<Strangers>>,
}

impl Pass {
    /// One of its requests was let in.
    pub(crate) fn is_known(&self) {
        lock(&self.0.strangers).here.remove(&self.0.number);
    }
}

impl Drop for Entry {
    /// It has gone.
    fn drop(&mut self) {
        lock(&self.strangers).here.remove(&self.number);
    }
}

impl Visitors {
    pub(crate) fn new(share: Share) -> Self {
        let strangers = Strangers { most: share.strangers.max(1), next: 0, here: BTreeMap::new() };
        Self {
            places: Arc::new(Semaphore::new(share.connections)),
            strangers: Arc::new(Mutex::new(strangers)),
        }
    }

    /// Waits until there is room for one more.
    pub(crate) async fn place(&self) -> Place {
        // It fails only when the places are closed, which nobody does.
        self.places.clone().acquire_owned().await.ok()
    }

    pub(crate) fn enter(&self, place: Place) -> Visitor {
        let (leave, asked_to_leave) = oneshot::channel();
        let mut strangers = lock(&self.strangers);
        while strangers.here.len() >= strangers.most
            && let Some((_, longest)) = strangers.here.pop_first()
        {
            let _ = longest.send(());
        }
        let number = strangers.next;
        strangers.next += 1;
        strangers.here.insert(number, leave);
        drop(strangers);
        let pass = Pass(Arc::new(Entry { number, strangers: self.strangers.clone() }));
        Visitor { pass, asked_to_leave, _place: place }
    }
}

fn lock(strangers: &Mutex<Strangers>) -> MutexGuard<'_, Strangers> {
    strangers.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn strangers_make_way_for_each_other_and_never_the_known() {
        let visitors = Visitors::new(Share { connections: 4, strangers: 2 });
        let enter = async || visitors.enter(visitors.place().await);
        let (mut known, mut first, mut second) = (enter().await, enter().await, enter().await);
        // The first of three strangers had to go; it is shown the door and the others are not.
        assert_eq!(known.asked_to_leave.try_recv(), Ok(()));
        drop(known);
        first.pass.is_known();
        let mut third = enter().await;
        let waiting = oneshot::error::TryRecvError::Empty;
        assert_eq!(first.asked_to_leave.try_recv(), Err(oneshot::error::TryRecvError::Closed), "never asked");
        assert_eq!(second.asked_to_leave.try_recv(), Err(waiting.clone()));
        known = enter().await;
        assert_eq!(second.asked_to_leave.try_recv(), Ok(()));
        assert_eq!(third.asked_to_leave.try_recv(), Err(waiting));
        assert_eq!(visitors.places.available_permits(), 0, "whoever has no place waits outside");
        drop((known, first, second, third));
        assert_eq!(visitors.places.available_permits(), 4);
        assert!(lock(&visitors.strangers).here.is_empty());
    }
}
