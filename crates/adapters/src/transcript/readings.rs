//! What both ends of conversations say, remembered for as long as the kernel says that nobody touched their files.
//!
//! A reading is a pure function of the bytes of one file and of what was asked, and nothing else is kept here: no
//! status, no process, no other file. Dropping any of it at any moment costs a read and changes no answer.
//!
//! **The proof.** A reading counts for a file that has the device, inode, size, modification time and change time that
//! it had before it was read. The kernel moves the change time with every write, truncation, rename over the path
//! and `utimensat`, and no program can set it. Two writes within one tick of the file clock leave the same time, so a
//! reading is kept only if its file had not changed for `CLOCK_LAG` before it was opened (what git calls racily
//! clean), and if it is the same after the read. Only file systems that this kernel alone serves are believed: a
//! server's files change without this kernel, and a `stat` may answer from a cache.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt::{self, Debug, Write};
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// Longer than any tick of the file clock: a file that changed this recently could change again and look the same.
const CLOCK_LAG: SignedDuration = SignedDuration::from_secs(2);
/// How much is kept. In a larger home the rest is read each time. Less in tests, which fill it.
const MOST_BYTES: usize = if cfg!(test) { 64 << 10 } else { 48 << 20 };
/// What nobody asked for in this time is dropped, so that a daemon at rest is small.
const UNUSED: SignedDuration = SignedDuration::from_secs(30);

/// One state of one file. The kernel changes the last field with every write, and no program can set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    device: u64,
    inode: u64,
    pub(super) size: u64,
    pub(super) modified: (i64, i64),
    pub(super) changed: (i64, i64),
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

    /// Whether a write after `moment` leaves another state than this one.
    pub(crate) fn is_settled_at(&self, moment: Timestamp) -> bool {
        let changed = Timestamp::from_second(self.changed.0);
        changed.is_ok_and(|changed| moment.duration_since(changed) > CLOCK_LAG)
    }

    /// Whether the opened file still is in this state.
    pub(crate) fn is_of(&self, file: &File) -> bool {
        file.metadata().is_ok_and(|found| Self::of(&found) == *self)
    }
}

/// What was asked of a file, beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    /// The type of what is kept, which tells one agent's format from another's.
    kind: TypeId,
    form: u8,
    text_limit: usize,
    /// Whether totals and single calls were wanted, for which some agents' files are read whole.
    totals: (bool, bool),
}

impl Asked {
    pub(crate) fn of<T: Any>(form: u8, text_limit: usize) -> Self {
        Self { kind: TypeId::of::<T>(), form, text_limit, totals: (false, false) }
    }

    pub(crate) fn with_totals(self, usage: bool, calls: bool) -> Self {
        Self { totals: (usage, calls), ..self }
    }
}

#[derive(Default)]
pub(crate) struct Readings(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    files: HashMap<Asked, HashMap<Box<Path>, Entry>>,
    bytes: usize,
    /// When entries that nobody asked for were last dropped.
    tidied: Option<Timestamp>,
}

struct Entry {
    state: FileState,
    reading: Arc<dyn Any + Send + Sync>,
    bytes: usize,
    used: Timestamp,
}

impl Readings {
    /// The reading of this file in this state, if there is one.
    pub(crate) fn recall<T: Any + Send + Sync>(
        &self,
        path: &Path,
        asked: Asked,
        state: FileState,
        now: Timestamp,
    ) -> Option<Arc<T>> {
        let mut kept = self.kept();
        let entry = kept.files.get_mut(&asked)?.get_mut(path).filter(|entry| entry.state == state)?;
        entry.used = now;
        Arc::clone(&entry.reading).downcast().ok()
    }

    /// Keeps a reading of a file that was in this state from before `began` until after the read.
    pub(crate) fn keep<T: Debug + Any + Send + Sync>(
        &self,
        path: &Path,
        asked: Asked,
        (state, file): (FileState, &File),
        began: Timestamp,
        reading: T,
    ) {
        if !state.is_settled_at(began) || !state.is_of(file) || !agentctl_files::is_served_here(file) {
            return;
        }
        let bytes = size_of::<Entry>() + path.as_os_str().len() + size_of::<T>() + written_length(&reading);
        let mut kept = self.kept();
        kept.drop_one(asked, path);
        if kept.bytes + bytes <= MOST_BYTES {
            kept.bytes += bytes;
            let entry = Entry { state, reading: Arc::new(reading), bytes, used: began };
            kept.files.entry(asked).or_default().insert(path.into(), entry);
        }
    }

    /// Drops what nobody has asked for in a while. Cheap enough to be called with every question.
    pub(crate) fn tidy(&self, now: Timestamp) {
        let mut kept = self.kept();
        let is_due = kept.tidied.is_none_or(|last| now.duration_since(last).abs() >= UNUSED / 3);
        if kept.bytes > 0 && is_due {
            kept.tidied = Some(now);
            let mut left = 0;
            kept.files.retain(|_, files| {
                files.retain(|_, entry| now.duration_since(entry.used).abs() < UNUSED);
                left += files.values().map(|entry| entry.bytes).sum::<usize>();
                files.shrink_to_fit();
                !files.is_empty()
            });
            kept.bytes = left;
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn drop_one(&mut self, asked: Asked, path: &Path) {
        let old = self.files.get_mut(&asked).and_then(|files| files.remove(path));
        self.bytes -= old.map_or(0, |old| old.bytes);
    }
}

/// How many bytes the value takes when it is written out: no text in it is longer than this, whatever its type is.
fn written_length(value: &impl Debug) -> usize {
    struct Length(usize);
    impl Write for Length {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut length = Length(0);
    // Nothing here can fail to be counted.
    let _ = write!(length, "{value:?}");
    length.0
}

#[cfg(test)]
#[path = "readings_tests.rs"]
mod tests;
