//! Locks that the kernel keeps: they end with the process that holds them, whatever ended it.
//!
//! The lock file means nothing by existing; only holding the lock counts. So nothing ever has to be cleaned up.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use agentctl_files::own;

/// How soon a released lock is noticed. A blocking call would return at once, but it would never return while the owner
/// of the lock is stopped, so we poll.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A lock that is held until it is dropped, by exactly one process at a time.
#[derive(Debug)]
pub struct KernelLock(Option<File>);

impl KernelLock {
    /// Returns the lock as a descriptor that can be passed to a child. The lock is held until the last copy of the
    /// descriptor is closed.
    pub fn into_file(mut self) -> Option<File> {
        self.0.take()
    }

    /// Wraps a lock that the parent process has taken.
    pub fn inherited(file: File) -> Self {
        Self(Some(file))
    }

    /// Takes the lock of a file that exists only to be locked. `None` means that another process held it all the time.
    pub fn on_file(path: &Path, timeout: Duration) -> io::Result<Option<Self>> {
        Self::take(own::open_or_create(path)?, timeout)
    }

    /// Takes the lock of a directory itself, so that nothing is written. `None` means that another process held it all
    /// the time.
    pub fn on_folder(path: &Path, timeout: Duration) -> io::Result<Option<Self>> {
        Self::take(agentctl_files::open_folder(path)?, timeout)
    }

    /// Whether a process holds a directory now. Asking blocks neither those who take the lock nor others who ask.
    pub fn is_held(path: &Path) -> io::Result<bool> {
        let folder = agentctl_files::open_folder(path)?;
        match folder.try_lock_shared() {
            Ok(()) => folder.unlock().map(|()| false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Takes the lock of a file that exists for another purpose. `None` means that another process held it all the
    /// time.
    pub fn on_existing(path: &Path, timeout: Duration) -> io::Result<Option<Self>> {
        Self::take(own::open(path)?, timeout)
    }

    /// Takes the lock of a file that only its creator has open.
    pub fn on_opened(file: File) -> io::Result<Self> {
        Self::take(file, Duration::ZERO)?.ok_or_else(|| io::Error::other("another process holds a new file"))
    }

    fn take(file: File, timeout: Duration) -> io::Result<Option<Self>> {
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self(Some(file)))),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if began.elapsed() >= timeout => return Ok(None),
                Err(TryLockError::WouldBlock) => std::thread::sleep(POLL_INTERVAL),
            }
        }
    }
}

impl Drop for KernelLock {
    /// Closing would be enough, but a child that is just being started may still have a copy of the descriptor.
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            let _ = file.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_and_a_dropped_lock_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.lock");
        let held = KernelLock::on_file(&file, Duration::ZERO).unwrap();
        assert!(held.is_some());
        assert!(KernelLock::on_file(&file, Duration::from_millis(20)).unwrap().is_none());
        drop(held);
        assert!(KernelLock::on_file(&file, Duration::ZERO).unwrap().is_some());
    }

    #[test]
    fn a_folder_can_be_held_and_nothing_is_written_into_it() {
        let folder = tempfile::tempdir().unwrap();
        let held = KernelLock::on_folder(folder.path(), Duration::ZERO).unwrap();
        assert!(held.is_some());
        assert!(KernelLock::on_folder(folder.path(), Duration::ZERO).unwrap().is_none());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(KernelLock::is_held(folder.path()).unwrap());
        drop(held);
        assert!(!KernelLock::is_held(folder.path()).unwrap());
        assert!(KernelLock::on_folder(&folder.path().join("none"), Duration::ZERO).is_err());
    }
}
