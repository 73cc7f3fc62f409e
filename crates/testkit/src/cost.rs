//! How the cost of some work grows with its size.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// So much more work the second measurement has, and so often each is done.
const LARGER: usize = 8;
const ATTEMPTS: usize = 5;
/// Between what linear work then costs, eight times as much, and what quadratic work costs, sixty-four times.
const MOST: u32 = 24;

/// Panics if work on eight times as much costs far more than eight times as much.
///
/// Costs are processor time of this thread, so others on the machine hardly count, and the least of some attempts is taken. Both
/// sizes take turns, so that a busy moment meets both. Choose a size at which quadratic work would cost much more than what is
/// linear in it.
#[track_caller]
pub fn costs_what_its_size_says<I, O>(size: usize, make: impl Fn(usize) -> I, work: impl Fn(&I) -> O) {
    let inputs = [make(size), make(size * LARGER)];
    let costs = (0..ATTEMPTS).map(|_| {
        inputs.each_ref().map(|input| {
            let before = spent();
            black_box(work(input));
            spent().saturating_sub(before)
        })
    });
    let [small, large] =
        costs.fold([Duration::MAX; 2], |least, one| [least[0].min(one[0]), least[1].min(one[1])]);
    assert!(large < small * MOST, "{small:?} for {size}, and {large:?} for {LARGER} times as much");
}

/// The processor time that this thread has taken.
fn spent() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("processor time is never negative")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(size: usize) -> Vec<usize> {
        (0..size).collect()
    }

    #[test]
    fn what_looks_at_everything_once_may() {
        costs_what_its_size_says(20_000, numbers, |all| all.iter().map(|one| one ^ 7).max());
    }

    #[test]
    #[should_panic(expected = "for 8 times as much")]
    fn what_looks_at_all_the_others_for_each_may_not() {
        let others =
            |all: &Vec<usize>| all.iter().map(|one| all.iter().filter(|other| *other < one).count()).max();
        costs_what_its_size_says(1000, numbers, others);
    }
}
