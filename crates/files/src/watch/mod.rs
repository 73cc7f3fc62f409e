//! Being told by the kernel that files changed. What it tells is only a hint to look: nothing is read here, and nothing is
//! concluded.

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(not(target_os = "linux"))]
mod unwatched;

use std::path::PathBuf;

#[cfg(target_os = "linux")]
pub use inotify::Folders;
#[cfg(not(target_os = "linux"))]
pub use unwatched::Folders;

/// A folder in which something is expected to change, with so many levels of folders below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchTarget {
    pub path: PathBuf,
    pub depth: usize,
}

impl WatchTarget {
    pub fn new(path: impl Into<PathBuf>, depth: usize) -> Self {
        Self { path: path.into(), depth }
    }
}
