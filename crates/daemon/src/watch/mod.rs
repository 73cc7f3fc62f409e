//! Being told by the kernel that something happened: files that changed, processes that ended. What it tells is only a
//! hint to look; what is true is for the survey to say.

pub(crate) mod feeds;
mod holders;
pub(crate) mod launches;
#[cfg(target_os = "linux")]
mod linux;
pub(crate) mod live;
pub(crate) mod own_files;
mod pace;
#[cfg(target_os = "linux")]
mod polled;
#[cfg(not(target_os = "linux"))]
mod unwatched;

#[cfg(target_os = "linux")]
pub(crate) use linux::{Bell, Watcher};
#[cfg(not(target_os = "linux"))]
pub(crate) use unwatched::{Bell, Watcher};

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
pub(crate) struct Woken {
    /// Files under the agents' roots changed.
    pub(crate) files: bool,
    /// Processes of live sessions that ended.
    pub(crate) ended: Vec<u32>,
    /// Somebody rang the bell.
    pub(crate) bell: bool,
}

impl Woken {
    pub(crate) fn by_nothing(&self) -> bool {
        *self == Self::default()
    }
}
