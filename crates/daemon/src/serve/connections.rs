//! The connections of one listener. A connection that has not authenticated may come from anybody, so only a
//! few of those are allowed at once, and the oldest is evicted for the next. A client with a token
//! authenticates with its first request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::run::descriptors::Share;

pub(crate) struct Connections {
    permits: Arc<Semaphore>,
    unauthenticated: Arc<Mutex<Unauthenticated>>,
}

struct Unauthenticated {
    most: usize,
    /// The number of the next one; the oldest has the smallest.
    next: u64,
    /// The channels by which each can be evicted.
    open: BTreeMap<u64, oneshot::Sender<()>>,
}

/// A connection that was accepted.
pub(crate) struct Connection {
    pub(crate) pass: Pass,
    /// Resolves when the connection must be closed; fails when it never will be.
    pub(crate) evicted: oneshot::Receiver<()>,
    /// Released when the connection ends.
    pub(crate) _permit: Permit,
}

/// A permit for one connection. It is never revoked.
pub(crate) type Permit = Option<OwnedSemaphorePermit>;

/// Marks a connection as authenticated. Every request of the connection carries a copy.
#[derive(Clone)]
pub(crate) struct Pass(Arc<Entry>);

struct Entry {
    number: u64,
    unauthenticated: Arc<Mutex<Unauthenticated>>,
}

impl Pass {
    /// Called when a request of this connection passed the access control.
    pub(crate) fn authenticated(&self) {
        lock(&self.0.unauthenticated).open.remove(&self.0.number);
    }
}

impl Drop for Entry {
    /// The connection has ended.
    fn drop(&mut self) {
        lock(&self.unauthenticated).open.remove(&self.number);
    }
}

impl Connections {
    pub(crate) fn new(share: Share) -> Self {
        let unauthenticated =
            Unauthenticated { most: share.unauthenticated.max(1), next: 0, open: BTreeMap::new() };
        Self {
            permits: Arc::new(Semaphore::new(share.connections)),
            unauthenticated: Arc::new(Mutex::new(unauthenticated)),
        }
    }

    /// Waits until one more connection is allowed.
    pub(crate) async fn permit(&self) -> Permit {
        // This fails only when the semaphore is closed, which never happens.
        self.permits.clone().acquire_owned().await.ok()
    }

    pub(crate) fn admit(&self, permit: Permit) -> Connection {
        let (evict, evicted) = oneshot::channel();
        let mut unauthenticated = lock(&self.unauthenticated);
        while unauthenticated.open.len() >= unauthenticated.most
            && let Some((_, longest)) = unauthenticated.open.pop_first()
        {
            let _ = longest.send(());
        }
        let number = unauthenticated.next;
        unauthenticated.next += 1;
        unauthenticated.open.insert(number, evict);
        drop(unauthenticated);
        let pass = Pass(Arc::new(Entry { number, unauthenticated: self.unauthenticated.clone() }));
        Connection { pass, evicted, _permit: permit }
    }
}

fn lock(unauthenticated: &Mutex<Unauthenticated>) -> MutexGuard<'_, Unauthenticated> {
    unauthenticated.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn strangers_make_way_for_each_other_and_never_the_known() {
        let connections = Connections::new(Share { connections: 4, unauthenticated: 2 });
        let enter = async || connections.admit(connections.permit().await);
        let (mut known, mut first, mut second) = (enter().await, enter().await, enter().await);
        // Of three unauthenticated connections, only the first is evicted.
        assert_eq!(known.evicted.try_recv(), Ok(()));
        drop(known);
        first.pass.authenticated();
        let mut third = enter().await;
        let waiting = oneshot::error::TryRecvError::Empty;
        assert_eq!(first.evicted.try_recv(), Err(oneshot::error::TryRecvError::Closed), "never asked");
        assert_eq!(second.evicted.try_recv(), Err(waiting.clone()));
        known = enter().await;
        assert_eq!(second.evicted.try_recv(), Ok(()));
        assert_eq!(third.evicted.try_recv(), Err(waiting));
        assert_eq!(connections.permits.available_permits(), 0, "whoever has no permit waits outside");
        drop((known, first, second, third));
        assert_eq!(connections.permits.available_permits(), 4);
        assert!(lock(&connections.unauthenticated).open.is_empty());
    }
}
