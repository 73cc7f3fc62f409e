//! agentctl's own directory: ensures that it belongs to this user alone, and deals with what an earlier program left in
//! it.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use agentctl_files::own::{self, FolderFault};
use jiff::Timestamp;
use serde_json::Value;

use super::{LARGEST, LOCK_TIMEOUT, StoreError, version};
use crate::keep::kernel_lock::KernelLock;

const OURS_ALONE: u32 = 0o700;

/// Whether the directory exists. One that another user could have prepared is refused.
pub(super) fn check(folder: &Path) -> Result<bool, StoreError> {
    let refuse = |why: String| Err(StoreError::Refused { path: folder.to_owned(), why });
    own::folder(folder).or_else(|fault| match fault {
        FolderFault::Io(error) => Err(StoreError::io(folder, error)),
        fault => refuse(format!("agentctl's folder {fault}")),
    })
}

/// Creates the directory if necessary and closes it to others.
pub(super) fn make(folder: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::io(folder, error);
    if !check(folder)? {
        DirBuilder::new().recursive(true).mode(OURS_ALONE).create(folder).map_err(failed)?;
        // Another process may have created something else there in the meantime.
        check(folder)?;
    }
    let mode = fs::metadata(folder).map_err(failed)?.mode() & 0o777;
    if mode != OURS_ALONE {
        fs::set_permissions(folder, Permissions::from_mode(OURS_ALONE)).map_err(failed)?;
    }
    Ok(())
}

/// Files of the TypeScript agentctl that are not JSON. Nothing of ours has these names.
const THEIR_NAMES: [&str; 2] = ["agentctl.pid", "daemon.pid"];

/// Moves what the TypeScript agentctl left (JSON files without a version, pid files) into `old-<date>/` and returns
/// that path. These files are neither used nor deleted. A file that does not parse is not touched, because it may be a
/// damaged one of ours.
pub(super) fn set_aside_the_predecessors(folder: &Path) -> Result<Option<PathBuf>, StoreError> {
    if the_predecessors(folder)?.is_empty() {
        return Ok(None);
    }
    // The files are listed again under the lock, because a file that another agentctl has written meanwhile is not old.
    let held = KernelLock::on_folder(folder, LOCK_TIMEOUT).map_err(|error| StoreError::io(folder, error))?;
    let Some(_held) = held else { return Err(StoreError::Busy { path: folder.to_owned() }) };
    let old = the_predecessors(folder)?;
    if old.is_empty() {
        return Ok(None);
    }
    let aside = place_aside(folder)?;
    for path in old {
        let place = path.file_name().map(|name| aside.join(name)).unwrap_or_default();
        fs::rename(&path, place).map_err(|error| StoreError::io(&path, error))?;
    }
    Ok(Some(aside))
}

pub(super) fn the_predecessors(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |error| StoreError::io(folder, error);
    let mut old = Vec::new();
    for entry in own::entries(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let named = path.file_name().is_some_and(|name| THEIR_NAMES.iter().any(|theirs| name == *theirs));
        let json = path.extension().is_some_and(|extension| extension == "json");
        if named || (json && is_unversioned(&path)) {
            old.push(path);
        }
    }
    Ok(old)
}

fn is_unversioned(path: &Path) -> bool {
    let regular = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let value = || serde_json::from_slice::<Value>(&own::read(path, LARGEST).ok()?).ok();
    regular && value().is_some_and(|value| version(&value).is_none())
}

/// Returns a directory of this day that nothing was moved into before: a second move must not replace what the first
/// one saved.
fn place_aside(folder: &Path) -> Result<PathBuf, StoreError> {
    #[expect(clippy::disallowed_methods, reason = "only a name for people")]
    let day = Timestamp::now().strftime("%Y-%m-%d").to_string();
    for number in 1..1000 {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("old-{day}{suffix}"));
        match DirBuilder::new().mode(OURS_ALONE).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(StoreError::io(&path, error)),
        }
    }
    Err(StoreError::Refused { path: folder.to_owned(), why: format!("too many folders old-{day}-*") })
}
