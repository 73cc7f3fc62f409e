//! Totals of whole conversations, remembered for as long as their files stay unchanged.
//!
//! The memory can be dropped at any moment: without it the files are read again, with the same result. It only holds
//! what the bytes of one file say, never anything about a session's state.

use std::collections::HashMap;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use agentctl_model::{Call, Tokens};
use jiff::{SignedDuration, Timestamp};

use crate::transcript::jsonl::open::Opened;

/// Longer than any tick of the file clock: a file that changed this recently could change again and look the same.
const CLOCK_LAG: SignedDuration = SignedDuration::from_secs(2);
/// In a home with more conversations, some are counted again now and then.
const MOST: usize = 100_000;
/// The same for their calls, which take most of the memory.
const MOST_CALLS: usize = 1_000_000;

/// The result of reading a whole conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counted {
    pub tokens: Option<Tokens>,
    /// In dollars, if the agent records the cost with every reply.
    pub cost: Option<f64>,
    /// The last title, for formats in which it may stand anywhere; empty if the title was removed.
    pub title: Option<Box<str>>,
    /// Every call that the totals consist of, and those of sub-agents that are recorded in the same file.
    pub calls: Arc<[Call]>,
    /// A damaged record made some tokens uncountable.
    pub damaged: bool,
    /// The number of lines that were too long to read.
    pub too_long: u32,
}

/// One state of one file. The kernel changes the last field with every write, and no program can set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

pub struct Memory {
    now: fn() -> Timestamp,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    files: HashMap<PathBuf, (FileState, Counted)>,
    calls: usize,
}

impl fmt::Debug for Memory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Memory")
    }
}

impl Memory {
    pub fn new(now: fn() -> Timestamp) -> Self {
        Self { now, known: Mutex::default() }
    }

    /// The totals of the last read of this file, if the file has not changed since.
    pub fn recall(&self, path: &Path, opened: &Opened) -> Option<Counted> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.files.get(path).filter(|(then, _)| *then == opened.state).map(|(_, counted)| counted.clone())
    }

    /// Remembers the totals, if the file has not changed since it was opened.
    pub fn keep(&self, path: &Path, opened: &Opened, counted: Counted) {
        let state = opened.state;
        let changed = Timestamp::from_second(state.changed.0).ok();
        let settled = changed.is_some_and(|changed| (self.now)().duration_since(changed) > CLOCK_LAG);
        let now = opened.file.metadata().ok().map(|found| FileState::of(&found));
        if settled && now == Some(state) {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.calls += counted.calls.len();
            if known.files.len() >= MOST || known.calls > MOST_CALLS {
                *known = Known { calls: counted.calls.len(), ..Known::default() };
            }
            let replaced = known.files.insert(path.to_owned(), (state, counted));
            known.calls -= replaced.map_or(0, |(_, counted)| counted.calls.len());
        }
    }
}

impl FileState {
    pub fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;
    use crate::transcript::jsonl::open::open_regular;

    fn later() -> Timestamp {
        Timestamp::MAX
    }

    fn earlier() -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    #[test]
    fn what_stayed_the_same_is_remembered_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        fs::write(&path, b"one").unwrap();
        let open = || open_regular(&path).unwrap();
        let counted = Counted { too_long: 7, ..Counted::default() };
        let memory = Memory::new(later);
        assert_eq!(memory.recall(&path, &open()), None);
        memory.keep(&path, &open(), counted.clone());
        assert_eq!(memory.recall(&path, &open()), Some(counted.clone()));
        assert_eq!(memory.recall(Path::new("/elsewhere"), &open()), None);
        // The file is written, then made to look unchanged by size and modification time, which any program can set.
        let (then, modified) = (open().state, fs::metadata(&path).unwrap().modified().unwrap());
        while open().state.changed == then.changed {
            fs::write(&path, b"two").unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        }
        assert_eq!((open().state.size, open().state.modified), (then.size, then.modified));
        assert_eq!(memory.recall(&path, &open()), None);
        // The file is written while it is being counted.
        let early = open();
        fs::write(&path, b"three").unwrap();
        memory.keep(&path, &early, counted.clone());
        assert_eq!((memory.recall(&path, &early), memory.recall(&path, &open())), (None, None));
        // The file is so young that it may change once more and look the same.
        let hasty = Memory::new(earlier);
        hasty.keep(&path, &open(), counted);
        assert_eq!(hasty.recall(&path, &open()), None);
    }
}
