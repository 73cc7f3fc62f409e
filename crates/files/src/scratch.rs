//! Private folders for what is needed for a moment: a copy of a database, the hooks that a checkout runs.
//!
//! They lie in agentctl's own folder (among the temporary ones, where there is none), open to nobody else. Each is held by
//! the kernel's lock for as long as it is used, so what a killed process left is known to be nobody's: the next one takes it
//! away.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::outside::{entries, open_folder};

const PREFIX: &str = "agentctl-copy-";

/// Where they lie in agentctl's own folder.
pub const FOLDER: &str = "copies";

/// A folder that is gone with this value.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    _held: File,
}

impl Scratch {
    /// Private to this user, under a name that nobody can foresee. `None` when somebody took it for a leftover before it was
    /// held.
    pub fn new_in(below: &Path) -> io::Result<Option<Self>> {
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir_in(below)?;
        Ok(hold(folder.path()).map(|held| Self { folder, _held: held }))
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Agentctl's own folder, if it is there and nobody else can write it; the temporary one otherwise.
pub fn place(home: Option<&Path>) -> PathBuf {
    let ours = |folder: &Path| {
        let seen = fs::symlink_metadata(folder);
        let me = rustix::process::geteuid().as_raw();
        seen.is_ok_and(|seen| seen.is_dir() && seen.uid() == me && seen.mode() & 0o022 == 0)
    };
    if let Some(home) = home.filter(|home| ours(home)) {
        let folder = home.join(FOLDER);
        // It may be there already; whether it is ours is seen then.
        let _ = DirBuilder::new().mode(0o700).create(&folder);
        if ours(&folder) {
            return folder;
        }
    }
    std::env::temp_dir()
}

/// The kernel's lock on a folder, until the file is closed. `None` while another process has it, or the folder is gone.
fn hold(folder: &Path) -> Option<File> {
    let file = open_folder(folder).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    // Whoever had it before may have removed it, and a link is not what it leads to.
    folder.symlink_metadata().is_ok_and(|seen| Some(seen.ino()) == ino(&file)).then_some(file)
}

fn ino(file: &File) -> Option<u64> {
    file.metadata().ok().map(|seen| seen.ino())
}

/// Takes away those that nobody holds any more.
pub fn sweep(below: &Path) {
    let Ok(entries) = entries(below) else { return };
    let me = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours
            && entry.metadata().is_ok_and(|seen| seen.is_dir() && seen.uid() == me)
            && let Some(_held) = hold(&entry.path())
        {
            // What cannot be removed now is tried again by the next one.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_swept_and_what_somebody_holds_is_not() {
        let below = tempfile::tempdir().unwrap();
        let left = below.path().join(format!("{PREFIX}left"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("copy.db"), "half").unwrap();
        let Scratch { folder, _held: held } = Scratch::new_in(below.path()).unwrap().unwrap();
        assert_eq!(folder.path().metadata().unwrap().mode() & 0o777, 0o700);
        fs::create_dir(below.path().join("another's")).unwrap();
        sweep(below.path());
        assert!(!left.exists() && folder.path().exists() && below.path().join("another's").exists());
        drop(held);
        sweep(below.path());
        assert!(!folder.path().exists());
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
