//! Follows a transcript as it grows, through rotation, truncation and disappearance.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agentctl_model::Entry;
use jiff::Timestamp;

use super::lenient::shown;
use super::open::open_regular;
use super::scan::{MOST_WITHOUT_LINES, no_lines};
use super::{LINE_LIMIT, ReadAt, Scan, scan_back};
use crate::ReadError;

/// What was added to a conversation since the last call. It never blocks.
pub trait Follow: Send {
    fn next(&mut self) -> Result<Vec<Entry>, ReadError>;
}

/// A conversation that will not grow: it returns everything once, then nothing.
pub(crate) struct ReadOnce(pub(crate) Vec<Entry>);

impl Follow for ReadOnce {
    fn next(&mut self) -> Result<Vec<Entry>, ReadError> {
        Ok(std::mem::take(&mut self.0))
    }
}

/// Turns one record into the entries it shows: none, one or several.
pub type ParseEntries = fn(&[u8]) -> Vec<Entry>;

/// How much is read before the caller receives the entries so far and may stop.
const AT_ONCE: u64 = 64 << 20;

/// The offset of the line with which the last `backlog` entries begin.
fn backlog_start(path: &Path, parse: ParseEntries, backlog: usize) -> std::io::Result<u64> {
    struct Count {
        parse: ParseEntries,
        missing: usize,
        distance: u64,
    }
    impl Scan for Count {
        fn line(&mut self, line: &[u8], distance: u64) -> ControlFlow<()> {
            if self.missing == 0 {
                return ControlFlow::Break(());
            }
            self.missing = self.missing.saturating_sub(shown(self.parse, line).len());
            self.distance = distance;
            ControlFlow::Continue(())
        }
    }
    let opened = open_regular(path)?;
    let mut count = Count { parse, missing: backlog, distance: 0 };
    scan_back(&opened.file, opened.size, &mut count)?;
    Ok(opened.size - count.distance)
}

/// The end of the last complete line within the first `size` bytes.
pub fn end_of_lines(source: &(impl ReadAt + ?Sized), size: u64) -> std::io::Result<u64> {
    const WINDOW: u64 = 64 << 10;
    let mut end = size;
    while end > 0 {
        if size - end > MOST_WITHOUT_LINES {
            return Err(no_lines(MOST_WITHOUT_LINES));
        }
        let from = end.saturating_sub(WINDOW);
        let mut bytes = vec![0; usize::try_from(end - from).unwrap_or(0)];
        let got = source.read_at(&mut bytes, from)?;
        if let Some(newline) = memchr::memrchr(b'\n', &bytes[..got]) {
            return Ok(from + newline as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

/// Follows one file of JSON lines.
pub struct JsonlFollower {
    path: PathBuf,
    parse: ParseEntries,
    file: Option<(File, u64)>,
    offset: u64,
    /// The bytes of a line whose end is not written yet.
    partial: Vec<u8>,
    /// The line is too long: the bytes up to its end are skipped.
    skipping: bool,
    /// Lines that were already returned, and the newest time among them: a rewritten file contains the old lines
    /// again.
    given: HashSet<u64>,
    newest: Option<Timestamp>,
    /// Set after the file was replaced or truncated: old lines are recognised until new ones come.
    replaying: bool,
}

impl JsonlFollower {
    /// Starts where the last `backlog` entries begin.
    pub fn start(path: &Path, parse: ParseEntries, backlog: usize) -> Result<Self, ReadError> {
        let offset = backlog_start(path, parse, backlog).map_err(|error| ReadError::new(path, error))?;
        Ok(Self::after(path, parse, offset, std::iter::empty()))
    }

    /// Continues after the first `offset` bytes, of which these lines were already shown: a rewritten file contains
    /// them again.
    pub fn after<'l>(
        path: &Path,
        parse: ParseEntries,
        offset: u64,
        shown: impl Iterator<Item = &'l [u8]>,
    ) -> Self {
        let mut follower = Self { offset, ..Self::from_beginning(path, parse) };
        for line in shown {
            follower.take_line(line, &mut Vec::new());
        }
        follower
    }

    /// Returns everything; the file may not exist yet.
    pub fn from_beginning(path: &Path, parse: ParseEntries) -> Self {
        Self {
            path: path.to_owned(),
            parse,
            file: None,
            offset: 0,
            partial: Vec::new(),
            skipping: false,
            given: HashSet::new(),
            newest: None,
            replaying: false,
        }
    }

    fn reopen(&mut self) -> std::io::Result<bool> {
        let opened = match open_regular(&self.path) {
            Ok(opened) => opened,
            // During a rotation there is no file for a moment: the next call will see.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let inode = opened.file.metadata()?.ino();
        let replaced = self.file.as_ref().is_some_and(|(_, known)| *known != inode);
        if replaced || opened.size < self.offset {
            self.offset = 0;
            self.partial.clear();
            self.skipping = false;
            self.replaying = true;
        }
        self.file = Some((opened.file, inode));
        Ok(true)
    }

    fn take_line(&mut self, line: &[u8], fresh: &mut Vec<Entry>) {
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        if !self.given.insert(hasher.finish()) && self.replaying {
            return;
        }
        for entry in shown(self.parse, line) {
            if self.replaying && entry.at < self.newest {
                continue;
            }
            self.newest = self.newest.max(entry.at);
            fresh.push(entry);
        }
    }
}

impl Follow for JsonlFollower {
    fn next(&mut self) -> Result<Vec<Entry>, ReadError> {
        let mut fresh = Vec::new();
        let path = self.path.clone();
        let failed = |error| ReadError::new(&path, error);
        if !self.reopen().map_err(failed)? {
            return Ok(fresh);
        }
        let mut chunk = vec![0; 64 << 10];
        let most = self.offset.saturating_add(AT_ONCE);
        while let Some((file, _)) = self.file.as_ref().filter(|_| self.offset < most) {
            let got = ReadAt::read_at(file, &mut chunk, self.offset).map_err(failed)?;
            if got == 0 {
                break;
            }
            self.offset += got as u64;
            let mut rest = &chunk[..got];
            while let Some(length) = memchr::memchr(b'\n', rest) {
                let mut line = std::mem::take(&mut self.partial);
                line.extend_from_slice(&rest[..length]);
                rest = &rest[length + 1..];
                if !std::mem::take(&mut self.skipping) {
                    self.take_line(&line, &mut fresh);
                }
            }
            self.partial.extend_from_slice(rest);
            self.skipping |= self.partial.len() > LINE_LIMIT;
            if self.skipping {
                self.partial = Vec::new();
            }
        }
        Ok(fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentctl_model::{EntryKind, Role};
    use std::io::Write;

    fn parse(line: &[u8]) -> Vec<Entry> {
        let text = String::from_utf8_lossy(line).into_owned();
        let at =
            text.split(' ').next().and_then(|n| n.parse().ok()).and_then(|n| Timestamp::from_second(n).ok());
        vec![Entry { at, role: Role::Agent, kind: EntryKind::Message, text, tool: None }]
    }

    fn texts(follower: &mut JsonlFollower) -> Vec<String> {
        follower.next().unwrap().into_iter().map(|entry| entry.text).collect()
    }

    #[test]
    fn goes_on_behind_what_was_shown_even_if_the_file_is_rewritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        std::fs::write(&path, "1 a\n2 b\n3 to").unwrap();
        let opened = open_regular(&path).unwrap();
        let end = end_of_lines(&opened.file, opened.size).unwrap();
        assert_eq!(end, 8);
        let mut follower = JsonlFollower::after(&path, parse, end, [&b"1 a"[..], b"2 b"].into_iter());
        assert!(texts(&mut follower).is_empty());
        let rewritten = folder.path().join("new");
        std::fs::write(&rewritten, "1 a\n2 b\n3 torn\n").unwrap();
        std::fs::rename(&rewritten, &path).unwrap();
        assert_eq!(texts(&mut follower), ["3 torn"]);
    }

    #[test]
    fn a_hole_of_a_terabyte_is_passed_over_in_bounded_steps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        std::fs::write(&path, "1 a\n").unwrap();
        let mut follower = JsonlFollower::start(&path, parse, 1).unwrap();
        assert_eq!(texts(&mut follower), ["1 a"]);
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(texts(&mut follower).is_empty());
        assert!(follower.offset <= 4 + AT_ONCE && follower.partial.len() <= LINE_LIMIT);
        let opened = open_regular(&path).unwrap();
        assert!(end_of_lines(&opened.file, opened.size).is_err());
        assert!(JsonlFollower::start(&path, parse, 1).is_err());
    }

    #[test]
    fn grows_rotates_shrinks_and_vanishes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let append = |text: &str| {
            File::options()
                .append(true)
                .create(true)
                .open(&path)
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
        };
        append("0 old\n1 a\n2 b\n");
        let mut follower = JsonlFollower::start(&path, parse, 2).unwrap();
        assert_eq!(texts(&mut follower), ["1 a", "2 b"]);
        append("3 half");
        assert!(texts(&mut follower).is_empty(), "half a line is not an entry");
        append(" whole\n");
        assert_eq!(texts(&mut follower), ["3 half whole"]);
        std::fs::remove_file(&path).unwrap();
        assert!(texts(&mut follower).is_empty(), "a missing file is no news");
        append("0 old\n1 a\n2 b\n3 half whole\n4 after rotation\n");
        assert_eq!(texts(&mut follower), ["4 after rotation"]);
        File::create(&path).unwrap();
        append("5 after truncation\n");
        assert_eq!(texts(&mut follower), ["5 after truncation"]);
    }
}
