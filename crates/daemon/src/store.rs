//! The only way this crate writes files that must survive: whole or not at all, on disk before it counts.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::fault;

/// Replaces `path` with `bytes`: a temporary file beside it, synced, renamed, and the folder synced. Mode 0600.
pub(crate) fn replace(path: &Path, bytes: &[u8], what: &str) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fault::reach(&format!("{what}.begin"));
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    fault::reach(&format!("{what}.written"));
    file.as_file().sync_all()?;
    fault::reach(&format!("{what}.synced"));
    file.persist(path)?;
    fault::reach(&format!("{what}.renamed"));
    sync_folder(folder)?;
    fault::reach(&format!("{what}.done"));
    Ok(())
}

/// Takes the file away for good.
pub(crate) fn remove(path: &Path, what: &str) -> io::Result<()> {
    fault::reach(&format!("{what}.keep"));
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fault::reach(&format!("{what}.removed"));
    path.parent().map_or(Ok(()), sync_folder)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// What a daemon that died in the middle of a write left behind.
pub(crate) fn sweep(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(".new-") {
            // Somebody else's business if it cannot be removed: it is never read.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
