//! Runs many small reads on all cores and keeps their order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::cancel;

/// Small enough that no thread still has several huge files to read when the others are done.
const BATCH: usize = 4;

/// The number of worker threads beside the one thread that every source has. One worker per further core is enough
/// for all sources together: more would not be faster, and each needs its own buffers.
static WORKERS: AtomicUsize = AtomicUsize::new(0);
/// Determined once, because the system reads several files for it.
static MOST_WORKERS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1));

/// Permission to run one worker thread, until it is dropped.
struct WorkerPermit;

impl WorkerPermit {
    fn take() -> Option<Self> {
        let one_more = |workers| (workers < *MOST_WORKERS).then_some(workers + 1);
        WORKERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok().map(|_| Self)
    }
}

impl Drop for WorkerPermit {
    fn drop(&mut self) {
        WORKERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Maps every item on all free cores; the results keep the order of the items. Each thread has its own `state` (a
/// connection).
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
    let cancellation = cancel::current();
    let run_worker = |_: WorkerPermit| {
        cancel::with_cancellation(cancellation.as_ref(), || {
            let mut state = S::default();
            while let Some(batch) = next() {
                answer(batch, &mut state);
            }
        });
    };
    std::thread::scope(|scope| {
        let (mut state, mut workers, mut left) = (S::default(), Vec::new(), items.len());
        while let Some(batch) = next() {
            left = left.saturating_sub(BATCH);
            // Takes a core that another source has released meanwhile.
            if left > 0
                && let Some(permit) = WorkerPermit::take()
            {
                workers.push(scope.spawn(|| run_worker(permit)));
            }
            answer(batch, &mut state);
        }
        for worker in workers {
            // A panic is a failure of this source; the guard around the survey reports it.
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    answers.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    /// Counts inside the work, not through the permits: every core is used, and never more than one worker per core.
    #[test]
    fn all_maps_together_have_exactly_as_many_helpers_as_there_are_further_cores() {
        const MAPS: usize = 4;
        let (inside, most_inside) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let items: Vec<usize> = (0..2000).collect();
        let work = |_: &usize, (): &mut ()| {
            most_inside.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // The work takes a while, so that every permitted worker starts before it is done.
            (0..20).for_each(|_| std::thread::yield_now());
            inside.fetch_sub(1, Ordering::SeqCst);
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        // Other tests of this process may hold the permits for a while.
        while most_inside.load(Ordering::SeqCst) < MAPS + *super::MOST_WORKERS {
            assert!(Instant::now() < deadline, "at most {most_inside:?} worked at once");
            std::thread::scope(|scope| {
                for _ in 0..MAPS {
                    scope.spawn(|| super::map(&items, work));
                }
            });
        }
        assert_eq!(most_inside.into_inner(), MAPS + *super::MOST_WORKERS);
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
