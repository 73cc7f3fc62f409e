//! The agent's own locks: `thread-writer-locks/<id>.lock` is held by the process that owns the thread, from before
//! its first turn until it lets go. The file alone means nothing: a killed owner leaves it behind.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use agentctl_model::{Facts, Found, Harvest, OwnerIdentity, Registration, Stamp, Turn, TurnState};
use jiff::Timestamp;

use super::places::is_uuid;
use crate::Scope;

const FOLDER: &str = "thread-writer-locks";

/// The thread that a lock file belongs to, by its path.
pub(super) fn thread_of(path: &Path) -> Option<&str> {
    let id = path.file_name()?.to_str()?.strip_suffix(".lock")?;
    (is_uuid(id) && path.parent()?.file_name()? == FOLDER).then_some(id)
}

/// Notes every lock file there is, held or not: the kernel tells.
pub(super) fn read(home: &Path, scope: &Scope<'_>, harvest: &mut Harvest) {
    let folder = home.join(FOLDER);
    let entries = match agentctl_files::entries(&folder) {
        Ok(entries) => entries,
        // Versions before the locks have none.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            harvest.left_out(format!("{}: {error}", folder.display()));
            return;
        }
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        scope.progress.tick();
        if let Some(id) = thread_of(&path)
            && let Ok(metadata) = fs::symlink_metadata(&path)
        {
            harvest.registrations.push(note(id, &path, &metadata));
        }
    }
}

fn note(id: &str, path: &Path, metadata: &fs::Metadata) -> Registration {
    // The owner makes the file when it takes the thread, so its time is when the ownership began. Only a server that
    // was already running takes over the file that a killed owner left: then the time is too early, and harmless.
    let taken_at = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
    let found = Found {
        id: id.to_owned(),
        slot: None,
        place: path.to_owned(),
        stamp: Some(Stamp { size: metadata.len(), modified: taken_at }),
        facts: Facts { turn: Some(Turn::new(TurnState::NotBegun, None)), ..Facts::default() },
        evidence: Vec::new(),
    };
    Registration {
        id: id.to_owned(),
        slot: None,
        holder: OwnerIdentity::Lock { device: metadata.dev(), inode: metadata.ino() },
        place: path.to_owned(),
        headless: false,
        testimony: None,
        found: Some(found),
    }
}
