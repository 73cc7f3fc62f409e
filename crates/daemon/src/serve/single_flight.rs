//! Callers with the same question share one survey. A caller that arrives while a survey is running waits for
//! the next one, because an answer is never older than its question.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Semaphore, oneshot};

type Work<T> = Box<dyn FnOnce() -> T + Send>;

/// How many different surveys may run at once.
const AT_ONCE: usize = 4;

struct Next<T> {
    waiting: Vec<oneshot::Sender<T>>,
    work: Option<Work<T>>,
}

pub(crate) struct SingleFlight<T> {
    /// A key in this map has a survey running; the value describes the one that follows it.
    flights: Mutex<HashMap<String, Next<T>>>,
    room: Arc<Semaphore>,
}

impl<T: Clone + Send + 'static> SingleFlight<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { flights: Mutex::new(HashMap::new()), room: Arc::new(Semaphore::new(AT_ONCE)) })
    }

    /// Returns the answer of a survey that begins after this call. All work under one key must answer the
    /// same question. Returns `None` when the work panicked.
    pub(crate) async fn ask(self: &Arc<Self>, key: String, work: Work<T>) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        let begin = {
            let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(next) = flights.get_mut(&key) {
                next.waiting.push(sender);
                next.work = Some(work);
                None
            } else {
                flights.insert(key.clone(), Next { waiting: Vec::new(), work: None });
                Some((vec![sender], work))
            }
        };
        if let Some((waiting, work)) = begin {
            tokio::spawn(Arc::clone(self).run(key, waiting, work));
        }
        answer.await.ok()
    }

    async fn run(self: Arc<Self>, key: String, mut waiting: Vec<oneshot::Sender<T>>, mut work: Work<T>) {
        loop {
            let permit = self.room.acquire().await;
            let answer = tokio::task::spawn_blocking(work).await;
            drop(permit);
            if let Ok(answer) = answer {
                for one in waiting {
                    // A caller that has gone needs no answer.
                    let _ = one.send(answer.clone());
                }
            }
            let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
            let next = flights
                .get_mut(&key)
                .and_then(|next| next.work.take().map(|work| (std::mem::take(&mut next.waiting), work)));
            let Some(next) = next else {
                flights.remove(&key);
                return;
            };
            (waiting, work) = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn those_who_ask_during_a_look_share_the_next_one() {
        let flight = SingleFlight::<u32>::new();
        let looks = Arc::new(AtomicU32::new(0));
        let (release, gate) = std::sync::mpsc::channel::<()>();
        let first = {
            let (flight, looks) = (flight.clone(), looks.clone());
            tokio::spawn(async move {
                let work = Box::new(move || {
                    let number = looks.fetch_add(1, Ordering::SeqCst) + 1;
                    let _ = gate.recv();
                    number
                });
                flight.ask("key".into(), work).await
            })
        };
        while looks.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let late: Vec<_> = (0..5)
            .map(|_| {
                let (flight, looks) = (flight.clone(), looks.clone());
                tokio::spawn(async move {
                    let work = Box::new(move || looks.fetch_add(1, Ordering::SeqCst) + 1);
                    flight.ask("key".into(), work).await
                })
            })
            .collect();
        let waiting = |flight: &SingleFlight<u32>| flight.flights.lock().unwrap()["key"].waiting.len();
        while waiting(&flight) < 5 {
            tokio::task::yield_now().await;
        }
        release.send(()).unwrap();
        assert_eq!(first.await.unwrap(), Some(1));
        for one in late {
            assert_eq!(one.await.unwrap(), Some(2));
        }
        assert_eq!(looks.load(Ordering::SeqCst), 2);
        let panicking = flight.ask("other".into(), Box::new(|| panic!("no"))).await;
        assert_eq!(panicking, None);
        assert_eq!(flight.ask("other".into(), Box::new(|| 7)).await, Some(7));
    }
}
