//! Reads an agent's SQLite database without leaving a trace, whether its writers live or not.
//!
//! SQLite itself would create `-wal` and `-shm` beside a database in WAL mode, even for a reader, and leave them. So
//! the files beside the database decide how it is read:
//!
//! | beside the database | way |
//! |---|---|
//! | `-wal` and `-shm` | in place, with `readonly_shm`: beside live writers by their locks; when all of them are gone SQLite keeps its index of the WAL in memory and writes nothing |
//! | `-wal` only | a private copy of both, if nobody holds a lock before and after; an exclusive writer leaves exactly these files, and copying despite its lock would read half a transaction |
//! | neither | in place as `immutable`, if nothing was written meanwhile: in WAL mode nobody has such a database open |
//!
//! The database is never written to and never checkpointed. If it cannot be read in a short time it is busy, which is
//! an error and not an empty answer.

pub mod excerpt;
mod locks;
mod private;
pub(crate) mod proof;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use agentctl_model::Stamp;
use jiff::Timestamp;

use self::proof::Proof;

/// How long to wait for a writer's lock.
const BUSY_TIMEOUT: Duration = Duration::from_millis(250);
/// How often a database that changes during a read without locks is read again before it counts as busy.
const ATTEMPTS: u32 = 4;

/// Why a database could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: no such database", .0.display())]
    Missing(PathBuf),
    #[error("{}: {source}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The database can only be read through a copy, and the copy would be too large.
    #[error(
        "{}: it must be copied to be read, and is too large for that ({} MiB); once its agent was started and ended, it need not be",
        path.display(), size >> 20
    )]
    TooLarge { path: PathBuf, size: u64 },
    #[error("{}: it must be copied to be read, and there is too little room in {}", path.display(), below.display())]
    NoRoom { path: PathBuf, below: PathBuf },
    /// A writer holds it, or it kept changing.
    #[error("{}: the database is busy", .0.display())]
    Busy(PathBuf),
    #[error("{}: {source}", path.display())]
    Sqlite {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
}

impl Error {
    fn io(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::Missing(path.to_owned()),
            _ => Self::Io { path: path.to_owned(), source },
        }
    }

    fn sqlite(path: &Path, source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy(path.to_owned()),
            _ => Self::Sqlite { path: path.to_owned(), source },
        }
    }
}

/// What is read, and whether another process may be writing at the same time.
pub struct Database<'c> {
    pub connection: &'c Connection,
    /// The state of its files before it was read: writers change the `-wal` and leave the file itself as it is.
    pub stamp: Stamp,
    /// The same, if it proves that the content is the same as long as it holds. A connection reads this content if it holds
    /// after the first read.
    pub proof: Option<Proof>,
    /// How other threads open it; a private copy cannot be opened again.
    pub opener: Option<Opener<'c>>,
}

/// Opens a database once more, for another thread.
#[derive(Clone, Copy)]
pub struct Opener<'c> {
    path: &'c Path,
    query: &'static str,
}

impl Opener<'_> {
    /// A connection in a transaction of its own.
    pub fn open(&self) -> rusqlite::Result<Connection> {
        let connection = open(self.path, self.query)?;
        connection.execute_batch("BEGIN")?;
        Ok(connection)
    }
}

/// From now on private copies are made in agentctl's own directory, where no other user can read them; the copies
/// that killed processes left there are removed.
pub fn keep_copies_below(home: &Path) {
    private::keep_below(home);
}

/// Gives `work` a consistent view of the database. `work` may be called again when the files changed during it, and
/// only the last result counts.
pub fn read<T>(path: &Path, mut work: impl FnMut(&Database<'_>) -> rusqlite::Result<T>) -> Result<T, Error> {
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(BUSY_TIMEOUT / ATTEMPTS);
        }
        let before = Files::look(path)?;
        let way = before.way(path)?;
        agentctl_files::trace::touched(path, agentctl_files::trace::Touched::File);
        let (stamp, proof) = (before.stamp(), Proof::of(path));
        let answer = match way {
            Way::Wait => continue,
            Way::Copy => {
                let opener = None;
                match private::read(path, &before, &mut |connection| {
                    work(&Database { connection, stamp, proof, opener })
                }) {
                    Err(Error::Busy(_)) => continue,
                    answer => answer,
                }
            }
            Way::InPlace(query) | Way::Alone(query) => {
                let opener = Some(Opener { path, query });
                in_place(path, query, &mut |connection| work(&Database { connection, stamp, proof, opener }))
            }
        };
        if matches!(way, Way::InPlace(_)) {
            return answer;
        }
        // What was read without locks counts only if nobody wrote meanwhile; that includes errors.
        if Files::look(path)? == before {
            return answer;
        }
    }
    Err(Error::Busy(path.to_owned()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Under SQLite's own locks.
    InPlace(&'static str),
    /// Without locks, because no process has it open.
    Alone(&'static str),
    Copy,
    /// An intermediate state: a process is just opening or closing it.
    Wait,
}

const BESIDE_WRITERS: Way = Way::InPlace("mode=ro&readonly_shm=1");
/// A database with a rollback journal: a reader's locks are enough, and leave nothing.
const WITH_JOURNAL: Way = Way::InPlace("mode=ro");
const IMMUTABLE: Way = Way::Alone("immutable=1");

/// The state of one file at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileState {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl FileState {
    fn of(path: &Path) -> Result<Option<Self>, Error> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(Self {
                inode: metadata.ino(),
                size: metadata.size(),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(path, error)),
        }
    }

    fn modified(&self) -> Option<Timestamp> {
        Timestamp::new(self.modified.0, i32::try_from(self.modified.1).ok()?).ok()
    }
}

/// The current state of a database: equal stamps mean that nothing was written in between. `None` when it cannot be
/// read.
pub fn stamp(path: &Path) -> Option<Stamp> {
    Files::look(path).ok().map(|files| files.stamp())
}

/// The files that exist: the database and those that SQLite keeps beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Files {
    main: FileState,
    wal: Option<FileState>,
    shm: bool,
}

impl Files {
    fn look(path: &Path) -> Result<Self, Error> {
        let main = FileState::of(path)?.ok_or_else(|| Error::Missing(path.to_owned()))?;
        let wal = FileState::of(&beside(path, "-wal"))?;
        let shm = FileState::of(&beside(path, "-shm"))?.is_some();
        Ok(Self { main, wal, shm })
    }

    /// One stamp for both files: every write changes one of them.
    fn stamp(&self) -> Stamp {
        let wal = self.wal.as_ref();
        let size = self.main.size + wal.map_or(0, |wal| wal.size);
        Stamp { size, modified: self.main.modified().max(wal.and_then(FileState::modified)) }
    }

    fn way(&self, path: &Path) -> Result<Way, Error> {
        let held = locks::held_file(path)?;
        let is_held = locks::is_locked(&held).map_err(|error| Error::io(path, error))?;
        Ok(match (self.wal, self.shm) {
            (Some(_), true) => BESIDE_WRITERS,
            (Some(_), false) if is_held => Way::Wait,
            (Some(_), false) => Way::Copy,
            (None, _) if !is_wal_mode(&held) => WITH_JOURNAL,
            (None, _) if is_held => Way::Wait,
            (None, _) => IMMUTABLE,
        })
    }
}

/// Bytes 18 and 19 of the file: 2 means a write-ahead log, 1 a rollback journal.
fn is_wal_mode(file: &fs::File) -> bool {
    let mut versions = [0; 2];
    file.read_exact_at(&mut versions, 18).is_ok() && versions.contains(&2)
}

fn in_place<T>(
    path: &Path,
    query: &str,
    work: &mut dyn FnMut(&Connection) -> rusqlite::Result<T>,
) -> Result<T, Error> {
    let mut read = || {
        let connection = open(path, query)?;
        let snapshot = connection.unchecked_transaction()?;
        work(&snapshot)
    };
    read().map_err(|error| Error::sqlite(path, error))
}

fn open(path: &Path, query: &str) -> rusqlite::Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri(path, query), flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // The schema is not ours: it must not run anything, and sorting must not write files either.
    connection.execute_batch("PRAGMA trusted_schema=OFF; PRAGMA temp_store=MEMORY;")?;
    keep_plans(&connection)?;
    Ok(connection)
}

/// For statements that are prepared once and run thousands of times: without the guarantee SQLite plans the query
/// again for each new parameter.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(32);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn uri(path: &Path, query: &str) -> String {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');
    format!("file:{}?{query}", percent_encode(path.as_os_str().as_bytes(), ESCAPED))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
