//! A private copy of a database and its WAL, for the one case in which it cannot be read in place.
//!
//! The copy lies in a private directory (`agentctl_files::scratch`). It is unlinked as soon as SQLite has it open,
//! and it is removed when the caller stops waiting for it. A copy is kept while the originals do not change, because
//! a new one costs the size of the database.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use agentctl_files::own;
use agentctl_files::scratch::{self, Scratch};
use rusqlite::{Connection, OpenFlags};
use rustix::fs::statvfs;

use super::{Error, Files, beside, locks};
use crate::cancel;
use crate::transcript::jsonl::open::open_regular;

/// A larger database is not copied: a list must not cost gigabytes of the user's disk.
const LARGEST: u64 = 1 << 30;
/// This much of the disk stays free for others.
const KEPT_FREE: u64 = 256 << 20;

static HOME: OnceLock<PathBuf> = OnceLock::new();

struct Copy {
    of: Files,
    connection: Connection,
}

/// From now on copies are made in a subdirectory of agentctl's own directory. The copies that killed processes left
/// there are removed.
pub(super) fn keep_below(home: &Path) {
    // The first call counts; there is one home per process.
    let home = HOME.get_or_init(|| home.to_owned());
    scratch::sweep(&home.join(scratch::FOLDER));
}

/// Reads a copy; `Busy` when another process locked or changed the database while it was copied.
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
        let connection = copy(path, files.stamp().size, &scratch::place(HOME.get().map(PathBuf::as_path)))?;
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

fn copy(path: &Path, size: u64, below: &Path) -> Result<Connection, Error> {
    let failed = |error| Error::io(path, error);
    if size > LARGEST {
        return Err(Error::TooLarge { path: path.to_owned(), size });
    }
    scratch::sweep(below);
    if statvfs(below).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < size + KEPT_FREE) {
        return Err(Error::NoRoom { path: path.to_owned(), below: below.to_owned() });
    }
    let folder = Scratch::new_in(below).map_err(failed)?;
    let target = folder.path().join("copy.db");
    let mut database = &*locks::held_file(path)?;
    database.rewind().map_err(failed)?;
    let left = copy_at_most(database, &target, LARGEST).map_err(failed)?;
    let wal = open_regular(&beside(path, "-wal")).map_err(failed)?.file;
    copy_at_most(&wal, &beside(&target, "-wal"), left).map_err(failed)?;
    open(&target).map_err(|error| Error::sqlite(path, error))
}

/// Copies the content of `from` into a new file that only this user can read, and returns how much of `most` is left.
fn copy_at_most(mut from: &File, to: &Path, most: u64) -> io::Result<u64> {
    let mut target = own::create_new(to)?;
    let mut chunk = vec![0; 1 << 20];
    let mut left = most;
    loop {
        cancel::step()?;
        let got = match from.read(&mut chunk) {
            Ok(0) => return Ok(left),
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        left = left.checked_sub(got as u64).ok_or_else(|| io::Error::other("grows while it is copied"))?;
        target.write_all(&chunk[..got])?;
    }
}

fn open(target: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(target, flags)?;
    // Exclusive mode keeps the index of the WAL in memory. The first read opens all files, so that they can be
    // unlinked.
    connection.execute_batch(
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA trusted_schema=OFF; PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint=0;",
    )?;
    connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get::<_, i64>(0))?;
    connection.execute_batch("PRAGMA query_only=ON;")?;
    super::keep_plans(&connection)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::Progress;

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    /// A database with a WAL, and the size of both together.
    fn database(folder: &Path) -> (PathBuf, u64) {
        let (live, path) = (folder.join("live.db"), folder.join("t.db"));
        let connection = Connection::open(&live).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode=WAL; CREATE TABLE t(n); INSERT INTO t VALUES(zeroblob(3000000))",
            )
            .unwrap();
        for suffix in ["", "-wal"] {
            fs::copy(beside(&live, suffix), beside(&path, suffix)).unwrap();
        }
        let size = Files::look(&path).unwrap().stamp().size;
        (path, size)
    }

    #[test]
    fn a_copy_is_for_this_user_alone_and_nothing_of_it_stays() {
        let (place, below) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (path, size) = database(place.path());
        let folder = Scratch::new_in(below.path()).unwrap();
        copy_at_most(&File::open(&path).unwrap(), &folder.path().join("copy.db"), LARGEST).unwrap();
        assert_eq!(folder.path().join("copy.db").metadata().unwrap().mode() & 0o777, 0o600);
        drop(folder);
        let connection = copy(&path, size, below.path()).unwrap();
        assert_eq!(names(below.path()), 0);
        let count: i64 = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 1);
    }

    #[test]
    fn whoever_is_not_waited_for_leaves_nothing_and_what_is_too_large_is_not_begun() {
        let (place, below) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (path, size) = database(place.path());
        let progress = Progress::default();
        progress.give_up();
        assert!(cancel::with_cancellation(Some(&progress), || copy(&path, size, below.path())).is_err());
        assert_eq!(names(below.path()), 0);
        let error = copy(&path, LARGEST + 1, below.path()).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        // A sparse file of a terabyte whose announced size is small is not copied to its end either.
        File::options().write(true).open(beside(&path, "-wal")).unwrap().set_len(1 << 40).unwrap();
        assert!(
            copy_at_most(&File::open(beside(&path, "-wal")).unwrap(), &below.path().join("x"), 5 << 20)
                .is_err()
        );
    }
}
