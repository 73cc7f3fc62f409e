//! Fault points: places between two steps of a write where a test lets the daemon die as by `kill -9`. Only debug builds
//! have them.

use std::sync::OnceLock;

static POINT: OnceLock<String> = OnceLock::new();

/// The point at which this process is to die; the first call counts.
pub(crate) fn arm(point: Option<String>) {
    if let Some(point) = point {
        let _ = POINT.set(point);
    }
}

pub(crate) fn reach(point: &str) {
    if cfg!(debug_assertions) && POINT.get().is_some_and(|armed| armed == point) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
