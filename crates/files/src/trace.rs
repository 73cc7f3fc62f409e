//! Which paths were read, for whoever wants to keep what an answer rests on. Only one such list is made at a time in a
//! process; nothing is kept while nobody wants it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What was read at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touched {
    File,
    Folder,
}

/// Everything that was read.
#[derive(Debug, Default)]
pub struct Seen {
    pub paths: BTreeMap<PathBuf, Touched>,
    /// The sessions whose rows were read, by their database.
    pub rows: BTreeMap<PathBuf, BTreeSet<String>>,
}

static WANTED: AtomicBool = AtomicBool::new(false);
static SEEN: Mutex<Seen> = Mutex::new(Seen { paths: BTreeMap::new(), rows: BTreeMap::new() });

/// Notes that a path was read without a door of this crate, such as a database or the identity of a lock file.
pub fn touched(path: &Path, what: Touched) {
    if WANTED.load(Ordering::Relaxed) {
        SEEN.lock().unwrap_or_else(PoisonError::into_inner).paths.entry(path.to_owned()).or_insert(what);
    }
}

/// Notes that the rows of a session were read in a database.
pub fn touched_rows(database: &Path, session: &str) {
    if WANTED.load(Ordering::Relaxed) {
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        seen.rows.entry(database.to_owned()).or_default().insert(session.to_owned());
    }
}

/// Returns what `work` returns, and everything that this process read meanwhile.
pub fn traced<T>(work: impl FnOnce() -> T) -> (T, Seen) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let take = || std::mem::take(&mut *SEEN.lock().unwrap_or_else(PoisonError::into_inner));
    take();
    WANTED.store(true, Ordering::Relaxed);
    let answer = work();
    WANTED.store(false, Ordering::Relaxed);
    (answer, take())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_through_the_doors_is_listed_while_somebody_wants_it() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a");
        std::fs::write(&file, "x").unwrap();
        crate::read_small(&file, 10).unwrap();
        let (read, seen) = traced(|| {
            crate::entries(place.path()).unwrap();
            crate::read_small(&file, 10).unwrap()
        });
        assert_eq!(read, b"x");
        let paths = seen.paths;
        assert_eq!(
            (paths.get(&file), paths.get(place.path())),
            (Some(&Touched::File), Some(&Touched::Folder))
        );
    }
}
