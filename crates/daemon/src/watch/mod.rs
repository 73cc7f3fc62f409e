//! Notifications by the kernel that something happened: changed files and ended processes. A notification is
//! only a reason to survey; the survey determines what is true.

pub(crate) mod feeds;
mod holders;
pub(crate) mod launches;
#[cfg(target_os = "linux")]
mod linux;
pub(crate) mod live;
pub(crate) mod own_files;
mod remote_schedule;
#[cfg(not(target_os = "linux"))]
mod unwatched;

#[cfg(target_os = "linux")]
pub(crate) use linux::{Waker, Watcher};
#[cfg(not(target_os = "linux"))]
pub(crate) use unwatched::{Waker, Watcher};

/// Why a wait ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Woken {
    /// Files under the agents' roots changed.
    pub(crate) files: bool,
    /// Processes of live sessions that ended.
    pub(crate) ended: Vec<u32>,
    /// Another thread woke the watcher.
    pub(crate) waker: bool,
}

impl Woken {
    pub(crate) fn by_nothing(&self) -> bool {
        *self == Self::default()
    }
}
