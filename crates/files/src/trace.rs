//! Which paths were read, for whoever wants to keep what an answer rests on. Only one such list is made at a time in a
//! process; nothing is kept while nobody wants it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What was read at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touched {
    File,
    Folder,
}

static WANTED: AtomicBool = AtomicBool::new(false);
static SEEN: Mutex<BTreeMap<PathBuf, Touched>> = Mutex::new(BTreeMap::new());

/// Notes that a path was read without a door of this crate, such as a database or the identity of a lock file.
pub fn touched(path: &Path, what: Touched) {
    if WANTED.load(Ordering::Relaxed) {
        SEEN.lock().unwrap_or_else(PoisonError::into_inner).entry(path.to_owned()).or_insert(what);
    }
}

/// Returns what `work` returns, and every path that this process read meanwhile.
pub fn traced<T>(work: impl FnOnce() -> T) -> (T, BTreeMap<PathBuf, Touched>) {
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
        assert_eq!((seen.get(&file), seen.get(place.path())), (Some(&Touched::File), Some(&Touched::Folder)));
    }
}
