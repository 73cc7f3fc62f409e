//! What proves that a database still has the content that it had before.
//!
//! Every write moves the change time of the database, as [`FileState`] explains. That of its `-wal` says less: SQLite that runs
//! as root moves it by opening the file, even to read. So its size, the time of its last write and its head count, which is
//! another one whenever the log begins anew; nobody but SQLite writes there.
//!
//! A transaction counts only from the moment at which its writer says so in the head of `-shm`. That is mapped memory, whose
//! change moves no time, and a writer may stand still for long between the two. So that head is compared too: it says how many
//! records of the `-wal` count and has their checksum. Once nobody uses that memory, all complete records count, whatever
//! the head says; so it belongs to the proof whether somebody does.
//!
//! A rollback journal beside a database changes what is read of it, and is not looked at here: nothing proves such a database.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{beside, is_wal_mode, locks};
use crate::transcript::jsonl::open::open_regular;
use crate::transcript::readings::FileState;

/// The head of `-shm` is written twice, so that a reader notices one that is being written.
const HEAD: usize = 48;
/// The head of `-wal`.
const LOG_HEAD: usize = 32;
/// Longer than any tick of the file clock, as for [`FileState`].
const CLOCK_LAG: SignedDuration = SignedDuration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    pub(crate) main: FileState,
    wal: Option<Log>,
    index: Option<Index>,
    is_held: bool,
}

/// Which file `-wal` is, how long, when it was written, and its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Log {
    place: (u64, u64),
    size: u64,
    modified: (i64, i64),
    head: [u8; LOG_HEAD],
}

/// Which file `-shm` is, and its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Index {
    place: (u64, u64),
    head: [u8; HEAD],
}

impl Proof {
    /// The present state of a database; `None` if it proves nothing.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let file = locks::held_file(path).ok()?;
        let main = FileState::of(&fs::metadata(path).ok()?);
        let (wal, index) = (beside(path, "-wal"), beside(path, "-shm"));
        let wal = match found(&wal).ok()? {
            Some(found) => Some(Log::of(&wal, &found)?),
            None => None,
        };
        let index = match found(&index).ok()? {
            Some(found) => Some(Index::of(&index, &found)?),
            None => None,
        };
        let is_held = match &index {
            Some(_) => locks::is_index_used(&*held(&beside(path, "-shm"))?).ok()?,
            None => locks::is_locked(&file).ok()?,
        };
        is_wal_mode(&file).then_some(Self { main, wal, index, is_held })
    }

    /// Whether the database has the same content now.
    pub fn holds(&self, path: &Path) -> bool {
        Self::of(path).as_ref() == Some(self)
    }

    /// Whether a write after `moment` leaves another state than this one.
    pub(crate) fn is_settled_at(&self, moment: Timestamp) -> bool {
        self.main.is_settled_at(moment) && self.wal.is_none_or(|wal| wal.is_settled_at(moment))
    }

    #[cfg(test)]
    pub(crate) fn forget_the_log(&mut self) {
        (self.wal, self.index) = (None, None);
    }
}

impl Log {
    fn of(path: &Path, found: &Metadata) -> Option<Self> {
        let mut head = [0; LOG_HEAD];
        // A log that was emptied has no head. Nobody locks a log, and one that is removed must not be kept on the disk, so it is
        // not held open.
        open_regular(path).ok()?.file.read_at(&mut head, 0).ok()?;
        Some(Self {
            place: (found.dev(), found.ino()),
            size: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            head,
        })
    }

    fn is_settled_at(&self, moment: Timestamp) -> bool {
        let written = Timestamp::from_second(self.modified.0);
        written.is_ok_and(|written| moment.duration_since(written) > CLOCK_LAG)
    }
}

impl Index {
    fn of(path: &Path, found: &Metadata) -> Option<Self> {
        let mut heads = [0; 2 * HEAD];
        // Closing a file of its own would drop the locks of connections that read now.
        held(path)?.read_exact_at(&mut heads, 0).ok()?;
        let (first, second) = heads.split_at(HEAD);
        let head = first.try_into().ok()?;
        (first == second).then_some(Self { place: (found.dev(), found.ino()), head })
    }
}

/// The file, which stays open for as long as this process lives.
pub(crate) fn held(path: &Path) -> Option<Arc<File>> {
    locks::held_file(path).ok()
}

fn found(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "proof_tests.rs"]
mod tests;
