//! What the cheap look costs. It prints, and judges nothing: a busy machine is no mistake in the code.

use std::time::Instant;

use crate::backend::Backend;
use crate::child::Kept;

fn measure(name: &str, backend: &Backend) {
    const ROUNDS: usize = 50;
    let _children: Vec<Kept> = (0..200).map(|_| Kept::sleeper()).collect();
    let processes = u32::try_from(backend.heads().len()).expect("a small number");
    let round = || {
        let begin = Instant::now();
        assert!(backend.heads().len() > 200);
        begin.elapsed()
    };
    let mut rounds: Vec<_> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort_unstable();
    let (best, median) = (rounds[0], rounds[ROUNDS / 2]);
    println!(
        "{name}: {processes} processes in {median:?}, {:?} each, {:?} at best",
        median / processes,
        best / processes
    );
}

#[test]
#[ignore = "a measurement"]
fn cost_of_heads() {
    #[cfg(target_os = "linux")]
    measure("linux", &Backend::native());
    measure("portable", &Backend::portable());
}
