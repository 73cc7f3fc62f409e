//! Fault points: places between two steps of a write where a test lets this process die as by `kill -9`. Only debug
//! builds have them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Armed {
    point: String,
    /// How often the point is still passed unharmed.
    passes: AtomicUsize,
}

static ARMED: OnceLock<Armed> = OnceLock::new();

/// The point at which this process is to die, such as `fuses.renamed`, or `fuses.renamed#2` for the second time that it is
/// reached. The first call counts.
pub fn arm(point: &str) {
    let (name, time) = point.split_once('#').unwrap_or((point, "1"));
    let passes = time.parse::<usize>().unwrap_or(1).saturating_sub(1);
    let _ = ARMED.set(Armed { point: name.to_owned(), passes: AtomicUsize::new(passes) });
}

/// Called where a test may want the end.
pub fn reach(point: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Some(armed) = ARMED.get().filter(|armed| armed.point == point) else { return };
    let left = armed.passes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |passes| passes.checked_sub(1));
    if left.is_err() {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
