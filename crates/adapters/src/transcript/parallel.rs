//! Many small reads on all cores, in order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::cancel;

/// Few enough that no thread is left with a row of giants when the others are done.
const BATCH: usize = 4;

/// Every source has a thread of its own; these are the others. One for each further core is enough for all sources
/// together: more would not be faster, and each takes buffers of its own.
static HELPERS: AtomicUsize = AtomicUsize::new(0);
/// Asked once: the answer is read out of several files.
static MOST: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1));

/// The right to be a helper, until it is dropped.
struct Place;

impl Place {
    fn take() -> Option<Self> {
        let one_more = |helpers| (helpers < *MOST).then_some(helpers + 1);
        HELPERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok().map(|_| Self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        HELPERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Maps every item, with the help of whatever cores are free; the answers keep the order of the items.
/// Each thread has a `state` of its own (a connection).
pub fn map<T: Sync, S: Default, R: Send>(items: &[T], work: impl Fn(&T, &mut S) -> R + Sync) -> Vec<R> {
    let mut answers: Vec<Option<R>> = Vec::new();
    answers.resize_with(items.len(), || None);
    let batches = Mutex::new(items.chunks(BATCH).zip(answers.chunks_mut(BATCH)));
    let next = || batches.lock().unwrap_or_else(PoisonError::into_inner).next();
    let answer = |(items, answers): (&[T], &mut [Option<R>]), state: &mut S| {
        for (item, answer) in items.iter().zip(answers) {
            *answer = Some(work(item, state));
        }
    };
    let errand = cancel::current();
    let help = |_: Place| {
        cancel::on_behalf_of(errand.as_ref(), || {
            let mut state = S::default();
            while let Some(batch) = next() {
                answer(batch, &mut state);
            }
        });
    };
    std::thread::scope(|scope| {
        let (mut state, mut helpers, mut left) = (S::default(), Vec::new(), items.len());
        while let Some(batch) = next() {
            left = left.saturating_sub(BATCH);
            // A core that another source has done with is taken on the way.
            if left > 0
                && let Some(place) = Place::take()
            {
                helpers.push(scope.spawn(|| help(place)));
            }
            answer(batch, &mut state);
        }
        for helper in helpers {
            // A panic is this source's failure; the guard around the survey reports it.
            helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    answers.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Mutex, atomic::Ordering};

    #[test]
    fn all_maps_together_have_no_more_helpers_than_further_cores() {
        let threads = Mutex::new(HashSet::new());
        let items: Vec<usize> = (0..2000).collect();
        let note = |_: &usize, (): &mut ()| {
            assert!(super::HELPERS.load(Ordering::Relaxed) <= *super::MOST);
            threads.lock().unwrap().insert(std::thread::current().id());
            std::thread::yield_now();
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| super::map(&items, note));
            }
        });
        let helpers = threads.lock().unwrap().len().saturating_sub(4);
        assert!(helpers <= 4 * *super::MOST, "a map keeps its helpers: {helpers}");
    }

    #[test]
    fn keeps_the_order() {
        let items: Vec<usize> = (0..1000).collect();
        assert_eq!(
            super::map(&items, |n, (): &mut ()| n * 2),
            items.iter().map(|n| n * 2).collect::<Vec<_>>()
        );
    }
}
