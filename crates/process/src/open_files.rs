//! The limit on open files of this process. The daemon holds a descriptor for each connection and each process that it
//! watches, so it raises its own limit; the processes that it starts get the original limit back.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The daemon never needs more than this, and some systems allow a thousand million.
const ENOUGH: u64 = 65_536;

/// The soft limit before it was raised. It is static because the limit belongs to the whole process.
static BEFORE: OnceLock<u64> = OnceLock::new();

/// The current soft limit.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(ENOUGH)
}

/// Raises the soft limit as far as the hard limit allows. If the system refuses, the limit stays as it was.
pub fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (Some(before), wanted) = (current, maximum.unwrap_or(ENOUGH).min(ENOUGH)) else { return };
    if wanted > before && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).is_ok() {
        let _ = BEFORE.set(before);
    }
}

/// The original soft limit, for the children of this process; `None` unless [`raise`] changed it. Programs that use
/// `select` fail with descriptors above the usual limit.
pub fn usual() -> Option<u64> {
    BEFORE.get().copied()
}

/// Lowers the soft limit to this value, because the process that started us had raised it for itself.
pub fn lower(soft: u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current > soft) {
        // Lowering the soft limit is always permitted.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum });
    }
}
