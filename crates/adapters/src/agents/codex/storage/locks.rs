//! The agent's own locks: the process that owns a thread holds `thread-writer-locks/<id>.lock` from before
//! its first turn until it releases the thread. The file alone means nothing, because a killed owner leaves
//! it behind.
//!
//! A process that takes its first lock removes such leftovers: it holds `.coordination.lock`, takes each lock
//! that nobody holds, releases it and deletes the file. For that moment it holds the locks of threads that it
//! does not own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use agentctl_files::trace::{Touched, touched};
use agentctl_model::{Facts, Found, Harvest, OwnerIdentity, Process, Registration, Stamp, Turn, TurnState};
use jiff::Timestamp;

use super::is_uuid;
use crate::Scope;

const FOLDER: &str = "thread-writer-locks";

/// The id under which the coordination lock is registered, which a process holds while it takes and removes
/// other locks. No thread has such an id.
pub(crate) const COORDINATION: &str = ".coordination";

/// The thread that a lock file belongs to, from the file's path.
pub(crate) fn thread_of(path: &Path) -> Option<&str> {
    let id = path.file_name()?.to_str()?.strip_suffix(".lock")?;
    (is_uuid(id) && path.parent()?.file_name()? == FOLDER).then_some(id)
}

/// Whether a process has the coordination lock open.
pub(crate) fn is_coordinating(process: &Process) -> bool {
    let is_it = |path: &Path| {
        path.file_stem().is_some_and(|stem| stem == COORDINATION)
            && path.parent().and_then(Path::file_name).is_some_and(|folder| folder == FOLDER)
    };
    process.open_files.seen().is_some_and(|files| files.iter().any(|file| is_it(&file.path)))
}

/// Registers every lock file, held or not; the kernel shows which are held.
pub(crate) fn read(home: &Path, scope: &Scope<'_>, harvest: &mut Harvest) {
    let folder = home.join(FOLDER);
    let entries = match agentctl_files::entries(&folder) {
        Ok(entries) => entries,
        // Older versions have no locks.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            harvest.left_out(format!("{}: {error}", folder.display()));
            return;
        }
    };
    let noted = harvest.registrations.len();
    for path in entries.flatten().map(|entry| entry.path()) {
        scope.progress.tick();
        if let Some(id) = thread_of(&path)
            && let Ok(metadata) = fs::symlink_metadata(&path)
        {
            touched(&path, Touched::File);
            harvest.registrations.push(note(id, &path, &metadata));
        }
    }
    // Without any other lock file there is nothing to remove.
    let path = folder.join(format!("{COORDINATION}.lock"));
    if harvest.registrations.len() > noted
        && let Ok(metadata) = fs::symlink_metadata(&path)
    {
        touched(&path, Touched::File);
        harvest.registrations.push(Registration { found: None, ..note(COORDINATION, &path, &metadata) });
    }
}

fn note(id: &str, path: &Path, metadata: &fs::Metadata) -> Registration {
    // The owner creates the file when it takes the thread, so the file's time is when the ownership began.
    // Only a server that was already running takes over the file that a killed owner left: then the time is
    // too early, which does no harm.
    let taken_at = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
    let found = Found {
        id: id.to_owned(),
        variant: None,
        place: path.to_owned(),
        stamp: Some(Stamp { size: metadata.len(), modified: taken_at }),
        facts: Facts { turn: Some(Turn::new(TurnState::NotBegun, None)), ..Facts::default() },
        evidence: Vec::new(),
    };
    Registration {
        id: id.to_owned(),
        variant: None,
        holder: OwnerIdentity::Lock { device: metadata.dev(), inode: metadata.ino() },
        place: path.to_owned(),
        headless: false,
        live_report: None,
        found: Some(found),
    }
}
