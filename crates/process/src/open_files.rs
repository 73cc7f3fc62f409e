//! How many files this process may have open. A daemon holds a descriptor for each connection and each process that it
//! watches, so it takes all that the system grants; what it starts gets back what was usual.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than this helps nobody, and some systems grant a thousand million.
const ENOUGH: u64 = 65_536;

/// The soft limit before it was raised. The limit belongs to the whole process, and so does this.
static BEFORE: OnceLock<u64> = OnceLock::new();

/// How many may be open at once.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(ENOUGH)
}

/// Raises the soft limit as far as the hard one allows. Where that is refused everything stays as it was.
pub fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (Some(before), wanted) = (current, maximum.unwrap_or(ENOUGH).min(ENOUGH)) else { return };
    if wanted > before && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).is_ok() {
        let _ = BEFORE.set(before);
    }
}

/// The soft limit that whatever this process starts should have, if it was raised here. Programs that wait with
/// `select` cannot cope with higher numbers than usual.
pub fn usual() -> Option<u64> {
    BEFORE.get().copied()
}

/// Takes a soft limit again that whoever started us had raised for itself.
pub fn lower(soft: u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current > soft) {
        // Lowering the soft limit is always permitted.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum });
    }
}
