//! The daemon's log, for a person who wants to know what it did. It is bounded to one file and its
//! predecessor, and never contains prompts or tokens.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::run::clock;

/// A larger file is rotated.
const LARGEST: u64 = 1 << 20;

#[derive(Clone)]
pub(crate) struct Log(Arc<Inner>);

struct Inner {
    /// `None` where nothing is logged.
    path: Option<PathBuf>,
    /// Whether entries also go to standard error, as in the foreground.
    aloud: bool,
    file: Mutex<Option<File>>,
}

impl Log {
    /// A log that cannot be written, for example because the disk is full, does not stop the daemon.
    pub(crate) fn open(path: PathBuf, aloud: bool) -> Self {
        let file = open(&path);
        Self(Arc::new(Inner { path: Some(path), aloud, file: Mutex::new(file) }))
    }

    /// A log that keeps nothing.
    pub(crate) fn none() -> Self {
        Self(Arc::new(Inner { path: None, aloud: false, file: Mutex::new(None) }))
    }

    pub(crate) fn say(&self, words: &str) {
        let Some(path) = &self.0.path else { return };
        let line = format!("{} {}\n", clock::now(), agentctl_model::text::one_line(words));
        if self.0.aloud {
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        let mut file = self.0.file.lock().unwrap_or_else(PoisonError::into_inner);
        // A file that could not be opened on a full disk is tried again.
        *file = file.take().or_else(|| open(path));
        if let Some(open) = file.as_mut() {
            let _ = open.write_all(line.as_bytes());
            if open.metadata().is_ok_and(|metadata| metadata.len() > LARGEST) {
                let _ = std::fs::rename(path, path.with_extension("log.1"));
                *file = self::open(path);
            }
        }
    }
}

fn open(path: &Path) -> Option<File> {
    agentctl_files::own::append(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_stays_bounded_and_each_entry_is_one_line() {
        let place = tempfile::tempdir().unwrap();
        let log = Log::open(place.path().join("daemon.log"), false);
        log.say("one\u{1b}[31m\ntwo");
        for _ in 0..4000 {
            log.say(&"x".repeat(1000));
        }
        let sizes: Vec<u64> = std::fs::read_dir(place.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .collect();
        assert_eq!(sizes.len(), 2);
        assert!(sizes.iter().all(|size| *size <= LARGEST + 2000), "{sizes:?}");
        let fresh = Log::open(place.path().join("other.log"), false);
        fresh.say("one\u{1b}[31m\ntwo");
        let text = std::fs::read_to_string(place.path().join("other.log")).unwrap();
        assert!(text.ends_with(" one[31m two\n") && text.lines().count() == 1, "{text:?}");
    }
}
