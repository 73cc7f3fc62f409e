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
struct WorkerPermit;

impl WorkerPermit {
    fn take() -> Option<Self> {
        let one_more = |helpers| (helpers < *MOST).then_some(helpers + 1);
        HELPERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok().map(|_| Self)
    }
}

impl Drop for WorkerPermit {
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
    let help = |_: WorkerPermit| {
        cancel::with_cancellation(errand.as_ref(), || {
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
                && let Some(permit) = WorkerPermit::take()
            {
                helpers.push(scope.spawn(|| help(permit)));
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    /// Counted where the work is done, and not where the right to help is kept: every core helps, and never more of them.
    #[test]
    fn all_maps_together_have_exactly_as_many_helpers_as_there_are_further_cores() {
        const MAPS: usize = 4;
        let (inside, most_inside) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let items: Vec<usize> = (0..2000).collect();
        let work = |_: &usize, (): &mut ()| {
            most_inside.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // Work that lasts a while, so that whoever may help is there before it is done.
            (0..20).for_each(|_| std::thread::yield_now());
            inside.fetch_sub(1, Ordering::SeqCst);
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        // Other tests of this process may have the helpers for a while.
        while most_inside.load(Ordering::SeqCst) < MAPS + *super::MOST {
            assert!(Instant::now() < deadline, "at most {most_inside:?} worked at once");
            std::thread::scope(|scope| {
                for _ in 0..MAPS {
                    scope.spawn(|| super::map(&items, work));
                }
            });
        }
        assert_eq!(most_inside.into_inner(), MAPS + *super::MOST);
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
