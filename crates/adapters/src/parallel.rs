//! Many small reads on all cores, in order.

use std::sync::{Mutex, PoisonError};

/// Few enough that no thread is left with a row of giants when the others are done.
const BATCH: usize = 4;

/// Maps every item on as many threads as there are cores; the answers keep the order of the items.
/// Each thread has a `state` of its own (a connection).
pub fn map<T: Sync, S: Default, R: Send>(items: &[T], work: impl Fn(&T, &mut S) -> R + Sync) -> Vec<R> {
    let threads =
        std::thread::available_parallelism().map_or(1, usize::from).min(items.len().div_ceil(BATCH));
    if threads <= 1 {
        let mut state = S::default();
        return items.iter().map(|item| work(item, &mut state)).collect();
    }
    let mut answers: Vec<Option<R>> = Vec::new();
    answers.resize_with(items.len(), || None);
    let batches = Mutex::new(items.chunks(BATCH).zip(answers.chunks_mut(BATCH)));
    let next = || batches.lock().unwrap_or_else(PoisonError::into_inner).next();
    let worker = || {
        let mut state = S::default();
        while let Some((items, answers)) = next() {
            for (item, answer) in items.iter().zip(answers) {
                *answer = Some(work(item, &mut state));
            }
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        worker();
        for other in others {
            // A panic is this source's failure; the guard around the survey reports it.
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    answers.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn keeps_the_order() {
        let items: Vec<usize> = (0..1000).collect();
        assert_eq!(
            super::map(&items, |n, (): &mut ()| n * 2),
            items.iter().map(|n| n * 2).collect::<Vec<_>>()
        );
    }
}
