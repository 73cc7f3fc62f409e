//! Searches conversations, and opens one where something was found.
//!
//! An adapter only says how a conversation is stored ([`Conversation`]). A file of JSON lines is read once from its
//! beginning; a line is decoded only if its bytes may contain what is searched ([`sieve`]). What is kept is bounded: the
//! newest places of one conversation, each with one line of text.

mod halves;
pub mod pattern;
mod sieve;
pub mod stored;

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use agentctl_model::text::counted;
use agentctl_model::timeline::Mark;
use agentctl_model::{Entry, Role};
use jiff::Timestamp;
use serde::de::IgnoredAny;

use crate::ReadError;
use crate::agents::codex::Unpacked;
use crate::transcript::jsonl::follow::ParseEntries;
use crate::transcript::jsonl::lenient::decoded;
use crate::transcript::jsonl::open::open_regular;
use crate::transcript::jsonl::whole::scan_regions;
use crate::transcript::jsonl::{ReadAt, Scan, scan_back};
use crate::transcript::marks::ParseMarks;
use crate::transcript::show::shortened;
use halves::{From, Until};
pub use pattern::{Pattern, PatternError, Shown};

/// Entries with names that stay the same when the conversation is read again.
pub type NamedEntries = Vec<(String, Entry)>;

/// What was read of a conversation, oldest first.
#[derive(Debug, Default)]
pub struct Records {
    pub entries: NamedEntries,
    /// What of it was not read, in words.
    pub unread: Option<String>,
}

impl std::convert::From<NamedEntries> for Records {
    /// All of it was read.
    fn from(entries: NamedEntries) -> Self {
        Self { entries, unread: None }
    }
}

/// Whether a record with these bytes is wanted. A record that is not may be left out.
pub type MayFit<'f> = &'f dyn Fn(&[u8]) -> bool;

/// Reads the records of a conversation, or those that may fit.
pub type ReadRecords<'a> = dyn Fn(MayFit<'_>) -> Result<Records, ReadError> + 'a;

/// Reads the marks of a conversation since then.
pub type ReadMarks<'a> = dyn Fn(Option<Timestamp>) -> Result<Vec<Mark>, ReadError> + 'a;

/// How a conversation is stored.
pub enum Conversation<'a> {
    /// A file of JSON lines.
    Lines { path: PathBuf, parse: ParseEntries, marks: ParseMarks, compressed: bool },
    /// Records in a database, a tree of files or a server, which are read together.
    Records {
        read: Box<ReadRecords<'a>>,
        /// `None` where the entries say all that the records say about turns.
        marks: Option<Box<ReadMarks<'a>>>,
    },
    /// There is none so far.
    Nothing,
}

impl<'a> Conversation<'a> {
    pub fn lines(path: &Path, parse: ParseEntries, marks: ParseMarks) -> Self {
        Self::Lines { path: path.to_owned(), parse, marks, compressed: false }
    }

    /// Records whose entries say all that they say about turns.
    pub fn records<R: Into<Records>>(read: impl Fn(MayFit<'_>) -> Result<R, ReadError> + 'a) -> Self {
        Self::Records { read: Box::new(move |may_fit| read(may_fit).map(Into::into)), marks: None }
    }
}

/// What is searched in one conversation.
#[derive(Debug, Clone, Copy)]
pub struct Search<'s> {
    pub pattern: &'s Pattern,
    /// Only what these said or did; empty means everybody.
    pub roles: &'s [Role],
    /// Only entries since then.
    pub since: Option<Timestamp>,
    /// At most this many, the newest.
    pub limit: usize,
    /// How many lines before and after the one that fits are shown.
    pub around: usize,
}

/// A place in a conversation that fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// What [`read_around`] takes.
    pub position: String,
    pub at: Option<Timestamp>,
    pub role: Role,
    pub tool: Option<String>,
    pub shown: Shown,
}

/// What was found in one conversation.
#[derive(Debug, Default, PartialEq)]
pub struct Searched {
    /// The newest places that fit, newest first.
    pub places: Vec<Place>,
    /// What may fit and was not read, in words: lines that are damaged, or a part that is too far back.
    pub unread: Option<String>,
}

/// Searches one conversation.
pub fn search(conversation: &Conversation<'_>, search: &Search<'_>) -> Result<Searched, ReadError> {
    let mut found = Found::of(search);
    match conversation {
        Conversation::Nothing => {}
        Conversation::Records { read, .. } => {
            let records = read(&sieve(search.pattern))?;
            for (name, entry) in records.entries {
                found.take(|| name.clone(), &entry);
            }
            found.left_out = records.unread;
        }
        Conversation::Lines { path, parse, compressed, .. } => {
            let failed = |error: io::Error| ReadError::new(path, error);
            let opened = match open_regular(path) {
                Ok(opened) => opened,
                // Deleted since it was listed. A link to nothing is still there.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
                    return Ok(Searched::default());
                }
                Err(error) => return Err(failed(error)),
            };
            if *compressed {
                let unpacked = Unpacked::open(opened.file, opened.size).map_err(failed)?;
                found.lines(&unpacked, *parse, None).map_err(failed)?;
            } else {
                let cut = halves::cut(&opened.file, opened.size).map_err(failed)?;
                found.lines(&opened.file, *parse, cut).map_err(failed)?;
            }
        }
    }
    let unread = found.unread().map(|what| match conversation {
        Conversation::Lines { path, .. } => format!("{}: {what}", path.display()),
        Conversation::Records { .. } | Conversation::Nothing => what,
    });
    Ok(Searched { places: found.places.into_iter().rev().collect(), unread })
}

/// Whether a record with these bytes may fit. What is left out certainly does not.
pub fn sieve(pattern: &Pattern) -> impl Fn(&[u8]) -> bool {
    |record: &[u8]| pattern.sieve().lets_pass(record)
}

/// Whether a line can be read.
fn is_record(line: &[u8]) -> bool {
    const LONG_LINE: usize = 4 << 10;
    let line = line.trim_ascii();
    let is_object = line.starts_with(b"{") && line.ends_with(b"}");
    // A long line is taken at its word: some agents begin every file with pages of instructions.
    is_object && (line.len() > LONG_LINE || serde_json::from_slice::<IgnoredAny>(line).is_ok())
}

/// Whether a line is no record. A last line that is still being written is not damage.
fn is_broken(line: &[u8]) -> bool {
    line.ends_with(b"\n")
        && !line.trim_ascii().is_empty()
        && serde_json::from_str::<IgnoredAny>(&String::from_utf8_lossy(line)).is_err()
}

struct Found<'s, 'q> {
    search: &'s Search<'q>,
    places: VecDeque<Place>,
    /// How many places are still wanted of what is read.
    wanted: usize,
    is_readable: bool,
    is_empty: bool,
    /// How many lines may fit and are no records.
    broken: u64,
    /// How many lines were too long to be read.
    too_long: u32,
    /// What the reader of the records left out.
    left_out: Option<String>,
}

impl<'s, 'q> Found<'s, 'q> {
    fn of(search: &'s Search<'q>) -> Self {
        let (places, wanted) = (VecDeque::new(), search.limit);
        let (is_readable, is_empty, left_out) = (false, true, None);
        Self { search, places, wanted, is_readable, is_empty, broken: 0, too_long: 0, left_out }
    }

    /// Searches all lines; those after the cut first.
    fn lines(
        &mut self,
        source: &(impl ReadAt + ?Sized),
        parse: ParseEntries,
        cut: Option<u64>,
    ) -> io::Result<()> {
        match cut {
            None => self.part(source, parse, 0)?,
            Some(cut) => {
                self.part(&From { source, offset: cut }, parse, cut)?;
                let newest = std::mem::take(&mut self.places);
                self.wanted -= newest.len();
                self.part(&Until { source, end: cut }, parse, 0)?;
                self.places.extend(newest);
            }
        }
        if self.is_readable || self.is_empty {
            return Ok(());
        }
        // Whatever it says is not known, so that it was not heard.
        Err(io::Error::new(io::ErrorKind::InvalidData, "holds no readable record"))
    }

    /// Searches the lines of a source that begins at this place of the file.
    fn part(&mut self, source: &(impl ReadAt + ?Sized), parse: ParseEntries, begins: u64) -> io::Result<()> {
        let sieve = self.search.pattern.sieve();
        self.too_long += scan_regions(source, |region, start| {
            self.is_empty &= region.is_empty();
            // The first line is enough of every file that is not damaged.
            self.is_readable = self.is_readable || region.split(|byte| *byte == b'\n').any(is_record);
            sieve.candidates(region, |line, at| {
                if self.wanted == 0 {
                    self.broken += u64::from(is_broken(line) && decoded(parse, line).is_empty());
                    return;
                }
                let entries = decoded(parse, line);
                self.broken += u64::from(entries.is_empty() && is_broken(line));
                for (index, entry) in entries.iter().enumerate() {
                    self.take(|| format!("{}.{index}", begins + start + at as u64), entry);
                }
            });
        })?;
        Ok(())
    }

    /// What may fit and was not read.
    fn unread(&self) -> Option<String> {
        let broken = || counted(usize::try_from(self.broken).unwrap_or(usize::MAX), "line", "lines");
        let too_long = || counted(usize::try_from(self.too_long).unwrap_or(usize::MAX), "line", "lines");
        match (self.broken, self.too_long) {
            (0, 0) => self.left_out.clone(),
            (0, _) => Some(format!("{} too long to be read", too_long())),
            (_, 0) => Some(format!("{} that may fit cannot be read", broken())),
            _ => Some(format!("{} that may fit cannot be read, {} too long", broken(), too_long())),
        }
    }

    fn take(&mut self, position: impl FnOnce() -> String, entry: &Entry) {
        let Search { pattern, roles, since, limit: _, around } = *self.search;
        let is_asked = roles.is_empty() || roles.contains(&entry.role);
        let is_old = since.is_some_and(|since| entry.at.is_some_and(|at| at < since));
        if !is_asked || is_old || self.wanted == 0 {
            return;
        }
        if let Some(shown) = pattern.find(entry, around) {
            if self.places.len() == self.wanted {
                self.places.pop_front();
            }
            let (at, role, tool) = (entry.at, entry.role, entry.tool.clone());
            self.places.push_back(Place { position: position(), at, role, tool, shown });
        }
    }
}

/// The entries around a position, oldest first, and which of them stands there. `None` if nothing stands there any more.
pub fn read_around(
    conversation: &Conversation<'_>,
    position: &str,
    (before, after): (usize, usize),
) -> Result<Option<(Vec<Entry>, usize)>, ReadError> {
    match conversation {
        Conversation::Nothing => Ok(None),
        Conversation::Records { read, .. } => {
            let entries = read(&|_| true)?.entries;
            let Some(at) = entries.iter().position(|(name, _)| name == position) else { return Ok(None) };
            let (from, to) = (at.saturating_sub(before), (at + 1).saturating_add(after).min(entries.len()));
            let shown = entries.into_iter().skip(from).take(to - from).map(|(_, entry)| entry).collect();
            Ok(Some((shortened(shown), at - from)))
        }
        Conversation::Lines { path, parse, compressed, .. } => {
            let Some((offset, index)) = position.split_once('.') else { return Ok(None) };
            let (Ok(offset), Ok(index)) = (offset.parse::<u64>(), index.parse::<usize>()) else {
                return Ok(None);
            };
            let around = || -> io::Result<Option<(Vec<Entry>, usize)>> {
                let opened = open_regular(path)?;
                if *compressed {
                    let unpacked = Unpacked::open(opened.file, opened.size)?;
                    return lines_around(&unpacked, *parse, (offset, index), (before, after), Vec::new());
                }
                if offset >= opened.size {
                    return Ok(None);
                }
                let older = last_before(&opened.file, offset, *parse, before)?;
                let rest = From { source: &opened.file, offset };
                lines_around(&rest, *parse, (0, index), (before, after), older)
            };
            around().map_err(|error| ReadError::new(path, error))
        }
    }
}

/// The last entries that are complete before this offset, oldest first.
fn last_before(
    source: &(impl ReadAt + ?Sized),
    offset: u64,
    parse: ParseEntries,
    limit: usize,
) -> io::Result<Vec<Entry>> {
    struct Collect {
        parse: ParseEntries,
        limit: usize,
        entries: Vec<Entry>,
    }
    impl Scan for Collect {
        fn line(&mut self, line: &[u8], _: u64) -> ControlFlow<()> {
            self.entries.extend(decoded(self.parse, line).into_iter().rev());
            if self.entries.len() >= self.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    let mut collect = Collect { parse, limit, entries: Vec::new() };
    if limit > 0 {
        scan_back(source, offset, &mut collect)?;
    }
    collect.entries.truncate(limit);
    collect.entries.reverse();
    Ok(shortened(collect.entries))
}

/// Reads on from a source until the entries after the one at `(offset, index)` are there.
fn lines_around(
    source: &(impl ReadAt + ?Sized),
    parse: ParseEntries,
    (offset, index): (u64, usize),
    (before, after): (usize, usize),
    older: Vec<Entry>,
) -> io::Result<Option<(Vec<Entry>, usize)>> {
    let mut entries: VecDeque<Entry> = older.into();
    let mut found: Option<usize> = None;
    let mut is_over = false;
    let scanned = scan_regions(source, |region, start| {
        let mut at = start;
        for line in region.split_inclusive(|byte| *byte == b'\n') {
            if is_over {
                return;
            }
            for (number, entry) in shortened(decoded(parse, line)).into_iter().enumerate() {
                if found.is_some_and(|found| entries.len() > found + after) {
                    is_over = true;
                    return;
                }
                if at == offset && number == index {
                    found = Some(entries.len());
                }
                entries.push_back(entry);
                if found.is_none() && entries.len() > before {
                    entries.pop_front();
                }
            }
            at += line.len() as u64;
        }
    });
    // A file that goes on for long after the place is not read to its end: what was wanted is there.
    if !is_over {
        scanned?;
    }
    Ok(found.map(|found| (entries.into(), found)))
}

#[cfg(test)]
mod tests;
