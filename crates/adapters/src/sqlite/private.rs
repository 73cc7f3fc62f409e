//! A private copy of a database and its WAL, for the one case where it cannot be read in place.
//!
//! The copy is unlinked as soon as SQLite has it open, so that nothing is left behind however this process ends. It
//! is kept while the originals do not change: a copy costs the size of the database.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};

use super::{Error, Files, beside, locks};

struct Copy {
    of: Files,
    connection: Connection,
}

/// Reads a copy; `Busy` when somebody took the database or changed it while it was copied.
pub(super) fn read<T>(
    path: &Path,
    files: &Files,
    work: &mut dyn FnMut(&Connection) -> rusqlite::Result<T>,
) -> Result<T, Error> {
    static COPIES: Mutex<Option<HashMap<PathBuf, Copy>>> = Mutex::new(None);
    let mut copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    let copies = copies.get_or_insert_default();
    if copies.get(path).is_none_or(|copy| copy.of != *files) {
        copies.remove(path);
        let connection = copy(path)?;
        let held = locks::held_file(path)?;
        let is_held = locks::is_locked(&held).map_err(|error| Error::io(path, error))?;
        if is_held || Files::look(path)? != *files {
            return Err(Error::Busy(path.to_owned()));
        }
        copies.insert(path.to_owned(), Copy { of: *files, connection });
    }
    match copies.get(path) {
        Some(copy) => work(&copy.connection).map_err(|error| Error::sqlite(path, error)),
        None => Err(Error::Busy(path.to_owned())),
    }
}

#[expect(clippy::disallowed_methods, reason = "the copy is made in a folder that only this process knows")]
fn copy(path: &Path) -> Result<Connection, Error> {
    let failed = |error| Error::io(path, error);
    // Private to this user, under a name that nobody can foresee.
    let folder = tempfile::Builder::new().prefix("agentctl-").tempdir().map_err(failed)?;
    let target = folder.path().join("copy.db");
    let mut database = &*locks::held_file(path)?;
    rewind(database).map_err(failed)?;
    std::io::copy(&mut database, &mut File::create(&target).map_err(failed)?).map_err(failed)?;
    fs::copy(beside(path, "-wal"), beside(&target, "-wal")).map_err(failed)?;
    open(&target).map_err(|error| Error::sqlite(path, error))
}

fn rewind(mut file: &File) -> std::io::Result<()> {
    use std::io::Seek;
    file.rewind()
}

fn open(target: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(target, flags)?;
    // Exclusive: the index of the WAL stays in memory. The first read opens all files, so that they can be unlinked.
    connection.execute_batch(
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA trusted_schema=OFF; PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint=0;",
    )?;
    connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get::<_, i64>(0))?;
    connection.execute_batch("PRAGMA query_only=ON;")?;
    super::keep_plans(&connection)?;
    Ok(connection)
}
