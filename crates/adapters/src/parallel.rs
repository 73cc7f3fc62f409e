//! Many small reads on all cores, in order.

use std::sync::atomic::{AtomicUsize, Ordering};

const BATCH: usize = 16;

/// Maps every item on as many threads as there are cores; the answers keep the order of the items.
/// Each thread has a `state` of its own (read buffers).
pub fn map<T: Sync, S: Default, R: Send>(items: &[T], work: impl Fn(&T, &mut S) -> R + Sync) -> Vec<R> {
    let threads =
        std::thread::available_parallelism().map_or(1, usize::from).min(items.len().div_ceil(BATCH));
    if threads <= 1 {
        let mut state = S::default();
        return items.iter().map(|item| work(item, &mut state)).collect();
    }
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut state = S::default();
        let mut done: Vec<(usize, Vec<R>)> = Vec::new();
        loop {
            let from = next.fetch_add(BATCH, Ordering::Relaxed);
            if from >= items.len() {
                return done;
            }
            let batch = &items[from..items.len().min(from + BATCH)];
            done.push((from, batch.iter().map(|item| work(item, &mut state)).collect()));
        }
    };
    let mut batches = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        let mut batches = worker();
        for other in others {
            match other.join() {
                Ok(done) => batches.extend(done),
                // A panic is this source's failure; the guard around the survey reports it.
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        batches
    });
    batches.sort_unstable_by_key(|(from, _)| *from);
    let mut answers = Vec::with_capacity(items.len());
    answers.extend(batches.into_iter().flat_map(|(_, batch)| batch));
    answers
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
