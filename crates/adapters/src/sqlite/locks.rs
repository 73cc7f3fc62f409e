//! Whether another process holds SQLite's locks on a database file.
//!
//! `F_GETLK` names any conflicting lock of another process (open-file-description locks too) and takes none itself.
//! It does not name this process's own connections, which does not matter: they only read.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Flock, FlockOffsetType, FlockType, fcntl_getlk};

use super::Error;
use crate::transcript::jsonl::open::open_regular;

/// SQLite locks bytes of a page that it never uses: one pending, one reserved, 510 shared.
const FIRST_BYTE: i64 = 0x4000_0000;
const BYTES: i64 = 512;
/// The byte of a `-shm` that its users lock, behind the eight bytes of the locks that order reading and writing.
const USED_BYTE: i64 = 128;

/// The database file, open for reading it directly.
///
/// Closing any descriptor of a file drops all locks that this process holds on it, including those of SQLite's own
/// connections in other threads. So these descriptors are kept open: one per database that was ever read.
pub(super) fn held_file(path: &Path) -> Result<Arc<File>, Error> {
    static HELD: Mutex<Option<HashMap<PathBuf, Arc<File>>>> = Mutex::new(None);
    let failed = |error| Error::io(path, error);
    let now = std::fs::metadata(path).map_err(failed)?;
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let held = held.get_or_insert_default();
    if let Some(file) = held.get(path) {
        let known = file.metadata().map_err(failed)?;
        if (known.dev(), known.ino()) == (now.dev(), now.ino()) {
            return Ok(Arc::clone(file));
        }
    }
    let file = Arc::new(open_regular(path).map_err(failed)?.file);
    held.insert(path.to_owned(), Arc::clone(&file));
    Ok(file)
}

/// Whether another process has the database open: readers and writers in WAL mode hold a lock for as long as they
/// live.
pub(super) fn is_locked(file: &File) -> io::Result<bool> {
    is_any_locked(file, FIRST_BYTE, BYTES)
}

/// Whether another process uses this `-shm`: whoever maps it holds a lock on one byte for as long. Without such a lock SQLite
/// does not believe what stands there.
pub(super) fn is_index_used(index: &File) -> io::Result<bool> {
    is_any_locked(index, USED_BYTE, 1)
}

fn is_any_locked(file: &File, first: i64, bytes: i64) -> io::Result<bool> {
    let wish = Flock {
        start: first.cast_unsigned(),
        length: bytes.cast_unsigned(),
        pid: None,
        typ: FlockType::WriteLock,
        offset_type: FlockOffsetType::Set,
    };
    Ok(fcntl_getlk(file, &wish)?.is_some())
}
