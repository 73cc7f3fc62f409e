//! Totals of whole conversations, remembered for as long as their files stay unchanged.
//!
//! The memory can be dropped at any moment: without it the files are read again, with the same result. It only holds
//! what the bytes of one file say, never anything about a session's state.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use agentctl_model::{Call, Tokens};
use jiff::Timestamp;

use crate::transcript::jsonl::open::Opened;
use crate::transcript::readings::{FileState, Readings};

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

pub struct Memory {
    now: fn() -> Timestamp,
    known: Mutex<Known>,
    /// What was read of both ends of files.
    pub(crate) readings: Readings,
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
        Self { now, known: Mutex::default(), readings: Readings::default() }
    }

    /// The totals of the last read of this file, if the file was in this state then.
    pub fn recall(&self, path: &Path, state: FileState) -> Option<Counted> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.files.get(path).filter(|(then, _)| *then == state).map(|(_, counted)| counted.clone())
    }

    /// The present moment, to be taken before a file is read that may be remembered.
    pub(crate) fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// Drops readings that nobody has asked for in a while.
    pub fn tidy(&self) {
        self.readings.tidy(self.now());
    }

    /// Remembers the totals, if the file was the same from before the read began until now.
    pub fn keep(&self, path: &Path, opened: &Opened, began: Timestamp, counted: Counted) {
        let state = opened.state;
        if state.is_settled_at(began) && state.is_of(&opened.file) {
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
        assert_eq!(memory.recall(&path, open().state), None);
        memory.keep(&path, &open(), memory.now(), counted.clone());
        assert_eq!(memory.recall(&path, open().state), Some(counted.clone()));
        assert_eq!(memory.recall(Path::new("/elsewhere"), open().state), None);
        // The file is written, then made to look unchanged by size and modification time, which any program can set.
        let (then, modified) = (open().state, fs::metadata(&path).unwrap().modified().unwrap());
        while open().state.changed == then.changed {
            fs::write(&path, b"two").unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        }
        assert_eq!((open().state.size, open().state.modified), (then.size, then.modified));
        assert_eq!(memory.recall(&path, open().state), None);
        // The file is written while it is being counted.
        let early = open();
        fs::write(&path, b"three").unwrap();
        memory.keep(&path, &early, memory.now(), counted.clone());
        assert_eq!((memory.recall(&path, early.state), memory.recall(&path, open().state)), (None, None));
        // The file is so young that it may change once more and look the same.
        let hasty = Memory::new(earlier);
        hasty.keep(&path, &open(), hasty.now(), counted);
        assert_eq!(hasty.recall(&path, open().state), None);
    }
}
