//! Fault points: places between two steps at which a test makes this process die as by `kill -9`, or wait while the
//! test does something. Only debug builds have them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Armed {
    point: String,
    /// How many more times the point is passed without effect.
    passes: AtomicUsize,
    /// A FIFO through which the process reports that it has reached the point, and through which the test lets it
    /// continue.
    waits_at: Option<PathBuf>,
}

static ARMED: OnceLock<Armed> = OnceLock::new();

/// Sets the point at which this process dies, such as `fuses.renamed`, or `fuses.renamed#2` for the second time that it
/// is reached. With `@PATH` appended, this process waits there for the test instead. Only the first call has an effect.
pub fn arm(point: &str) {
    let (point, waits_at) = match point.split_once('@') {
        Some((point, fifo)) => (point, Some(PathBuf::from(fifo))),
        None => (point, None),
    };
    let (name, time) = point.split_once('#').unwrap_or((point, "1"));
    let passes = time.parse::<usize>().unwrap_or(1).saturating_sub(1);
    let _ = ARMED.set(Armed { point: name.to_owned(), passes: AtomicUsize::new(passes), waits_at });
}

/// Whether a test wants something else to go wrong here than the death of this process.
pub fn is_armed(point: &str) -> bool {
    cfg!(debug_assertions) && ARMED.get().is_some_and(|armed| armed.point == point)
}

/// Marks a fault point with this name.
pub fn reach(point: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Some(armed) = ARMED.get().filter(|armed| armed.point == point) else { return };
    let left = armed.passes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |passes| passes.checked_sub(1));
    if let Some(fifo) = armed.waits_at.as_deref().filter(|_| left.is_err()) {
        wait_at(fifo);
    } else if left.is_err() {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[expect(clippy::disallowed_methods, reason = "it is there to be waited for")]
fn wait_at(fifo: &Path) {
    let _ = std::fs::write(fifo, "here");
    let _ = std::fs::read(fifo);
}
