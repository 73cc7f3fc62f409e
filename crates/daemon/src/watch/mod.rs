//! Notifications by the kernel that something happened: changed files and ended processes. A notification is
//! only a reason to survey; the survey determines what is true.

mod directory_holders;
pub(crate) mod feeds;
pub(crate) mod launches;
#[cfg(target_os = "linux")]
mod linux;
pub(crate) mod live;
pub(crate) mod own_files;
#[cfg(target_os = "linux")]
mod polled;
mod remote_schedule;
#[cfg(not(target_os = "linux"))]
mod unwatched;

#[cfg(target_os = "linux")]
pub(crate) use linux::{Waker, Watcher};
#[cfg(not(target_os = "linux"))]
pub(crate) use unwatched::{Waker, Watcher};

/// What is watched and what cannot be, for `daemon status`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watching {
    pub(crate) folders: usize,
    pub(crate) processes: usize,
    /// `None` where they are not counted.
    pub(crate) unwatched_folders: Option<usize>,
    pub(crate) unwatched_processes: Option<usize>,
    /// Why not everything is watched.
    pub(crate) incomplete: Vec<String>,
}

/// Why the waiting ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WakeReasons {
    /// Files under the agents' roots changed.
    pub(crate) files: bool,
    /// Processes of live sessions that ended.
    pub(crate) ended: Vec<u32>,
    /// Another thread woke the watcher.
    pub(crate) waker: bool,
}

impl WakeReasons {
    pub(crate) fn by_nothing(&self) -> bool {
        *self == Self::default()
    }
}
