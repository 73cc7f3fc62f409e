//! Private temporary directories, for example for a copy of a database or the hooks that a checkout runs.
//!
//! They are in agentctl's own directory, or in the system's temporary directory where that does not exist, and no other
//! user can read them. Each is locked (`flock`) for as long as it is used, so a directory without a lock was left by a
//! killed process, and the next process removes it.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::outside::{entries, open_folder};

const PREFIX: &str = "agentctl-copy-";

/// How often a directory is made that another process removes at once.
const ATTEMPTS: usize = 100;

/// Their parent within agentctl's own directory.
pub const FOLDER: &str = "copies";

/// A temporary directory that is removed when this value is dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    _lock: File,
}

impl Scratch {
    /// Makes a directory for this user alone, with an unpredictable name.
    pub fn new_in(below: &Path) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let private = Permissions::from_mode(0o700);
            let folder = tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir_in(below)?;
            // Another process may take it for a leftover before it is locked.
            if let Some(lock) = lock(folder.path()) {
                return Ok(Self { folder, _lock: lock });
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "others remove every directory that is made there"))
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// The parent for scratch directories: below agentctl's own directory if that exists and nobody else can write to it,
/// otherwise the system's temporary directory.
pub fn place(home: Option<&Path>) -> PathBuf {
    let ours = |folder: &Path| {
        let seen = fs::symlink_metadata(folder);
        let own_uid = rustix::process::geteuid().as_raw();
        seen.is_ok_and(|seen| seen.is_dir() && seen.uid() == own_uid && seen.mode() & 0o022 == 0)
    };
    if let Some(home) = home.filter(|home| ours(home)) {
        let folder = home.join(FOLDER);
        // It may exist already; the next line checks that it is ours.
        let _ = DirBuilder::new().mode(0o700).create(&folder);
        if ours(&folder) {
            return folder;
        }
    }
    std::env::temp_dir()
}

/// Locks a directory until the file is closed. `None` when another process holds the lock, or the directory is gone.
fn lock(folder: &Path) -> Option<File> {
    let file = open_folder(folder).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    // The previous holder may have removed the directory, and a link to a directory is not accepted.
    folder.symlink_metadata().is_ok_and(|seen| Some(seen.ino()) == ino(&file)).then_some(file)
}

fn ino(file: &File) -> Option<u64> {
    file.metadata().ok().map(|seen| seen.ino())
}

/// Removes the directories that no process has locked.
pub fn sweep(below: &Path) {
    let Ok(entries) = entries(below) else { return };
    let own_uid = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours
            && entry.metadata().is_ok_and(|seen| seen.is_dir() && seen.uid() == own_uid)
            && let Some(_lock) = lock(&entry.path())
        {
            // If this fails, the next process tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn what_a_killed_process_left_is_swept_and_what_somebody_holds_is_not() {
        let below = tempfile::tempdir().unwrap();
        let left = below.path().join(format!("{PREFIX}left"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("copy.db"), "half").unwrap();
        let Scratch { folder, _lock: lock } = Scratch::new_in(below.path()).unwrap();
        assert_eq!(folder.path().metadata().unwrap().mode() & 0o777, 0o700);
        fs::create_dir(below.path().join("another's")).unwrap();
        sweep(below.path());
        assert!(!left.exists() && folder.path().exists() && below.path().join("another's").exists());
        drop(lock);
        sweep(below.path());
        assert!(!folder.path().exists());
    }

    /// Others look for leftovers at the same time, and find a directory that is made but not locked so far.
    #[test]
    fn one_is_had_while_others_sweep() {
        let below = tempfile::tempdir().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sweeping = || {
                while !is_over.load(Ordering::Relaxed) {
                    sweep(below.path());
                }
            };
            scope.spawn(sweeping);
            scope.spawn(sweeping);
            for _ in 0..500 {
                let scratch = Scratch::new_in(below.path());
                if !scratch.is_ok_and(|scratch| scratch.path().is_dir()) {
                    is_over.store(true, Ordering::Relaxed);
                    panic!("none was had, or it was removed");
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn they_lie_in_the_own_folder_where_nobody_else_can_write_it() {
        let home = tempfile::tempdir().unwrap().keep();
        let set = |mode| fs::set_permissions(&home, Permissions::from_mode(mode)).unwrap();
        set(0o700);
        assert_eq!(place(Some(&home)), home.join(FOLDER));
        assert_eq!(home.join(FOLDER).metadata().unwrap().mode() & 0o777, 0o700);
        set(0o777);
        assert_eq!(place(Some(&home)), std::env::temp_dir());
        assert_eq!(place(Some(&home.join("gone"))), std::env::temp_dir());
        assert_eq!(place(None), std::env::temp_dir());
        fs::remove_dir_all(home).unwrap();
    }
}
