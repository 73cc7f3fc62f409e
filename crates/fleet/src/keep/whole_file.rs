//! The only way in which agentctl writes files that must survive: completely or not at all, and on disk before the
//! write counts.
//!
//! A process that replaces a file must be the only one to do so (it holds a kernel lock, or has a directory of its
//! own). The half-written file beside it always has the same name, so a crash leaves at most one, and the next write
//! takes it over.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use agentctl_files::own;

use crate::keep::fault::reach;

/// The suffix of a half-written file.
const HALF: &str = ".new";

/// Replaces `path` with `bytes`, mode 0600. `what` is the prefix of the fault points of this write.
pub fn replace(path: &Path, bytes: &[u8], what: &str) -> io::Result<()> {
    let half = half(path);
    reach(&format!("{what}.begin"));
    let written = (|| {
        let mut file = own::create_anew(&half)?;
        file.write_all(bytes)?;
        reach(&format!("{what}.written"));
        file.sync_all()?;
        reach(&format!("{what}.synced"));
        fs::rename(&half, path)
    })();
    if written.is_err() {
        // If the disk is full, this frees the space of the half-written file.
        let _ = fs::remove_file(&half);
    }
    written?;
    reach(&format!("{what}.renamed"));
    sync_folder_of(path)?;
    reach(&format!("{what}.done"));
    Ok(())
}

/// Removes the file for good. It is no error if the file is already gone.
pub fn remove(path: &Path, what: &str) -> io::Result<()> {
    reach(&format!("{what}.begin"));
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    reach(&format!("{what}.removed"));
    sync_folder_of(path)
}

/// Removes what a crash left of a write to `path`. Only a process that may write the file may call this.
pub fn forget_half(path: &Path) {
    // This file is never read, so it does no harm if it stays.
    let _ = fs::remove_file(half(path));
}

/// Whether a file of this name was never finished.
pub fn is_half(name: &str) -> bool {
    name.ends_with(HALF)
}

fn half(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(HALF);
    name.into()
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| agentctl_files::open_folder(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_replaced_whole_and_a_failure_leaves_no_half() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("x.json");
        replace(&path, b"one", "x").unwrap();
        fs::write(place.path().join("x.json.new"), "half of tw").unwrap();
        replace(&path, b"two", "x").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let names = || fs::read_dir(place.path()).unwrap().count();
        assert_eq!(names(), 1);
        let folder = place.path().join("folder");
        fs::create_dir_all(folder.join("inside")).unwrap();
        assert!(replace(&folder, b"three", "x").is_err(), "a folder is in the way");
        assert_eq!(names(), 2, "no half stays");
        remove(&path, "x").unwrap();
        remove(&path, "x").unwrap();
        assert_eq!(names(), 1);
    }
}
