//! Divides the descriptors that this process may open. Connections and watched processes must not use up
//! those that a survey needs: a daemon without descriptors can neither survey nor answer.

use agentctl_process::open_files;

/// The most descriptors that one survey was seen to have open at once, with a reserve.
const LOOK: usize = 24;

/// How many connections one listener may have at once, and how many of them may be unauthenticated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) connections: usize,
    pub(crate) unauthenticated: usize,
}

fn limit() -> usize {
    usize::try_from(open_files::limit()).unwrap_or(usize::MAX)
}

/// Processes that are watched for their end; the others are only surveyed now and then.
pub(crate) fn for_processes() -> usize {
    limit() / 4
}

/// The unix socket of this user alone. Connections there are never evicted; one above the limit waits.
pub(crate) fn for_socket() -> Share {
    let connections = (limit() / 8).clamp(4, 4096);
    Share { connections, unauthenticated: connections }
}

/// The TCP listener, which any process on this machine and any page in a browser can reach.
pub(crate) fn for_tcp() -> Share {
    let connections = (limit() / 8).clamp(4, 256);
    Share { connections, unauthenticated: (connections / 2).min(64) }
}

/// Whether a survey would find enough descriptors. If that cannot be determined, the survey runs and reports
/// what it could not read.
pub(crate) fn suffice_for_a_look() -> bool {
    let open = agentctl_files::kernel::own_descriptors();
    match open {
        Ok(open) => limit().saturating_sub(open) >= LOOK,
        // Counting needs a descriptor itself, so any other error means that none is left; other systems have
        // no such folder.
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
