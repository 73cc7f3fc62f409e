//! Who may have how many of the descriptors that this process is granted. Connections and watched processes must not use
//! up what a look at the fleet needs: a daemon without descriptors can neither see nor answer.

use agentctl_process::open_files;

/// What one look at the fleet was seen to have open at once, with room to spare.
const LOOK: usize = 24;

/// How many connections one door may have at once, and how many of them without having shown who they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) connections: usize,
    pub(crate) strangers: usize,
}

fn limit() -> usize {
    usize::try_from(open_files::limit()).unwrap_or(usize::MAX)
}

/// Processes that are watched for their end; the others are looked at now and then.
pub(crate) fn for_processes() -> usize {
    limit() / 4
}

/// The door of this user alone. Nobody there is a stranger who must make way: whoever finds no place waits for one.
pub(crate) fn for_socket() -> Share {
    let connections = (limit() / 8).clamp(4, 4096);
    Share { connections, strangers: connections }
}

/// The door at which anybody on this machine can knock, and any page in a browser.
pub(crate) fn for_tcp() -> Share {
    let connections = (limit() / 8).clamp(4, 256);
    Share { connections, strangers: (connections / 2).min(64) }
}

/// Whether a look would find descriptors enough. Where that cannot be seen, the look will say what it misses.
pub(crate) fn suffice_for_a_look() -> bool {
    let open = agentctl_files::kernel::own_descriptors();
    match open {
        Ok(open) => limit().saturating_sub(open) >= LOOK,
        // Counting takes one, which is not there; elsewhere there is no such folder.
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
