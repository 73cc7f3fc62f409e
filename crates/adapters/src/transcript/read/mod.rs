//! Reads one transcript: its beginning, its end, and the whole of it when totals are wanted.
//!
//! Every agent that keeps conversations in files of JSON lines is read through this module. It opens the file through
//! `crates/files`, bounds every read, counts what was damaged or too long, and uses the daemon's memory of counted
//! files. An agent adds a [`Format`]: what one line of its records says. A format is pure; it receives lines and
//! never reads.

mod calls;
mod directory;
mod ends;
mod format;
mod remembered;

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use agentctl_files::trace::{Touched, touched};
use agentctl_model::{Facts, Found, Stamp};
use jiff::Timestamp;
use memchr::memmem::Finder;

use super::gather::ReadSession;
use super::jsonl::head::{Piece, scan_head};
use super::jsonl::lenient::as_text;
use super::jsonl::open::{Opened, modified, open_regular};
use super::jsonl::whole::{CHUNK, Passage, scan_containing, scan_whole};
use super::jsonl::{ReadAt, Scan, scan_back};
use super::memory::Counted;
use super::readings::FileState;
use crate::Scope;
pub(crate) use calls::{Calls, Recorded, hash_of};
pub(crate) use directory::Directory;
pub(crate) use ends::{First, Latest, WORDS_REACH, evidence, keep};
pub(crate) use format::{BothEnds, Format, Head, Line, Sum, Tail};
use remembered::Place;

/// A first prompt of some megabytes is read; a longer one is not.
const HEAD_BUDGET: usize = 8 << 20;

/// A file that is read whole and is not longer is read once, and not for each end as well.
const WHOLE_AT_ONCE: usize = 4 * CHUNK;

/// The result for one transcript.
pub(crate) enum Read<F: Format> {
    /// The file does not exist.
    Gone,
    /// The file is not wanted, or nothing has been written into it so far.
    Passed,
    Session(Reading<F>),
}

/// One transcript that was read.
pub(crate) type Reading<F> = ReadEnds<<F as Format>::Head, <F as Format>::Tail>;

/// What both ends of a transcript say, and the whole of it where that was wanted.
#[derive(Debug, Clone)]
pub(crate) struct ReadEnds<H, T> {
    pub(crate) head: H,
    pub(crate) tail: T,
    pub(crate) counted: Counted,
    pub(crate) stamp: Stamp,
    /// A warning about the file.
    pub(crate) warning: Option<&'static str>,
    pub(crate) drift: BTreeMap<String, u64>,
}

impl<F: Format> Read<F> {
    /// For callers that treat a missing file like one that is not wanted.
    pub(crate) fn into_reading(self) -> Option<Reading<F>> {
        match self {
            Self::Session(reading) => Some(reading),
            Self::Gone | Self::Passed => None,
        }
    }
}

impl<H, T> ReadEnds<H, T> {
    /// The session in this file, once its facts were made of both ends.
    pub(crate) fn into_session(
        self,
        id: String,
        path: &Path,
        facts: impl FnOnce(H, T, &Counted) -> Facts,
    ) -> ReadSession {
        let facts = facts(self.head, self.tail, &self.counted);
        ReadSession {
            found: Some(Found {
                id,
                variant: None,
                place: path.to_owned(),
                stamp: Some(self.stamp),
                evidence: vec![evidence(&facts)],
                facts,
            }),
            registrations: Vec::new(),
            warning: self.warning.map(|what| format!("{}: {what}", path.display())),
            drift: self.drift,
        }
    }
}

/// Reads one transcript, if it was written since then. `Err` names what had to be left out.
pub(crate) fn read<F: Format>(
    format: &F,
    path: &Path,
    since: Option<Timestamp>,
    scope: &Scope<'_>,
) -> Result<Read<F>, String> {
    let named = |error: io::Error| format!("{}: {error}", path.display());
    let place = Place::of(format, path, scope);
    // Most files of a home are older than what is asked for, and a look at one is cheaper than opening it.
    let is_looked_at = since.is_some() || place.is_some();
    if let Some(found) = is_looked_at.then(|| path.metadata().ok()).flatten() {
        if found.is_file() && is_old(modified(&found), since) {
            touched(path, Touched::File);
            return Ok(Read::Passed);
        }
        if let Some(known) = place.as_ref().and_then(|place| place.recall::<F>(FileState::of(&found))) {
            let is_passed = format.refuses(&known.head);
            return Ok(if is_passed { Read::Passed } else { Read::Session(known) });
        }
    }
    let opened = match open_regular(path) {
        Ok(opened) => opened,
        // Deleted, or moved to where it will be found, since the folder was listed. A link to nothing is still there.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => return Ok(Read::Gone),
        Err(_) if !format.reports_failure() => return Ok(Read::Passed),
        Err(error) => return Err(named(error)),
    };
    if is_old(opened.modified, since) || (opened.size == 0 && !F::EMPTY_IS_SESSION) {
        return Ok(Read::Passed);
    }
    let read = read_opened(format, path, &opened, scope).map_err(named)?;
    if let (Some(place), Read::Session(reading)) = (place, &read) {
        place.keep(&opened, reading);
    }
    Ok(read)
}

fn is_old(modified: Option<Timestamp>, since: Option<Timestamp>) -> bool {
    modified.is_some_and(|modified| since.is_some_and(|since| modified < since))
}

fn read_opened<F: Format>(
    format: &F,
    path: &Path,
    opened: &Opened,
    scope: &Scope<'_>,
) -> io::Result<Read<F>> {
    let began = scope.memory.as_ref().map(|memory| memory.now());
    // Who does not count everything is not told what somebody else counted: the answer would then have another warning.
    let is_counted = format.counts(scope);
    let known = is_counted.then(|| scope.recall(path, opened)).flatten();
    let both = |begin: (&dyn ReadAt, u64), end: (&dyn ReadAt, u64)| {
        read_ends(format, begin, end, scope, |sum, torn| match known.clone() {
            Some(known) => Ok(known),
            None => sum.map_or_else(
                || Ok(Counted::default()),
                |sum| {
                    let all = format.unpacked_whole(opened)?;
                    let counted = count(sum, all.as_deref().unwrap_or(end.0), torn)?;
                    if let (true, Some(memory), Some(began)) = (is_counted, &scope.memory, began) {
                        memory.keep(path, opened, began, counted.clone());
                    }
                    Ok(counted)
                },
            ),
        })
    };
    let reading = if let Some(ends) = format.unpacked(opened)? {
        let (head, tail) = (ends.head(), ends.tail.as_slice());
        both((&head, head.len() as u64), (&tail, tail.len() as u64))?
    } else {
        let whole = is_counted && known.is_none();
        let at_once = if whole { WHOLE_AT_ONCE.max(F::AT_ONCE) } else { F::AT_ONCE };
        opened.read_through(at_once, |source, size| both((source, size), (source, size)))?
    };
    Ok(reading.map_or(Read::Passed, |(head, tail, counted, warning)| {
        Read::Session(new_reading::<F>(head, tail, counted, warning, opened))
    }))
}

fn new_reading<F: Format>(
    head: F::Head,
    mut tail: F::Tail,
    counted: Counted,
    warning: Option<&'static str>,
    opened: &Opened,
) -> Reading<F> {
    let drift = std::mem::take(&mut tail.latest().drift);
    let stamp = Stamp { size: opened.size, modified: opened.modified };
    ReadEnds { head, tail, counted, stamp, warning, drift }
}

/// Both ends, the totals, and a warning if there is one.
pub(crate) type Ends<F> = (<F as Format>::Head, <F as Format>::Tail, Counted, Option<&'static str>);

fn read_ends<F: Format>(
    format: &F,
    begin: (&dyn ReadAt, u64),
    end: (&dyn ReadAt, u64),
    scope: &Scope<'_>,
    count: impl FnOnce(Option<F::Sum>, bool) -> io::Result<Counted>,
) -> io::Result<Option<Ends<F>>> {
    let mut head = format.head();
    head.first().text_limit = scope.text_limit;
    let broken_first = read_first(format, &mut head, begin)?;
    if format.refuses(&head) {
        return Ok(None);
    }
    let read_tail = |mut tail: F::Tail| -> io::Result<(F::Tail, SeenBack)> {
        tail.latest().text_limit = scope.text_limit;
        let seen = read_back(&mut tail, end)?;
        Ok((tail, seen))
    };
    let Some(tail) = format.tail(&head)? else { return Ok(None) };
    let (mut tail, mut seen) = read_tail(tail)?;
    if let Some(other) = format.other_tail(&tail) {
        (tail, seen) = read_tail(other)?;
    }
    if seen.records == 0 && end.1 > 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "holds no readable record"));
    }
    let sum =
        if format.counts(scope) { Some(format.sum(&head)) } else { format.missing(&head, &tail, seen.whole) };
    let counted = count(sum, seen.torn)?;
    let warning =
        match (broken_first > 0 || seen.damaged || counted.damaged, seen.too_long + counted.too_long) {
            (false, 0) => None,
            (false, _) => Some("has a line too long to read"),
            (true, _) => Some("has a damaged record"),
        };
    Ok(Some((head, tail, counted, warning)))
}

/// Reads the beginning; returns how many of its lines are not records.
fn read_first<F: Format>(
    format: &F,
    head: &mut F::Head,
    (source, size): (&dyn ReadAt, u64),
) -> io::Result<u32> {
    let (mut lines, mut broken) = (0, 0);
    scan_head(source, size, (F::Head::WINDOW, HEAD_BUDGET), |piece| {
        match piece {
            Piece::Fragment(fragment) => head.fragment(fragment),
            Piece::Line(line) | Piece::Last(line) if line.iter().all(u8::is_ascii_whitespace) => {}
            Piece::Line(line) | Piece::Last(line) => match as_text(line, |line| head.line(line)) {
                Line::Copy => {}
                Line::Record => lines += 1,
                Line::Broken => {
                    lines += 1;
                    // The last line may still be being written.
                    broken += u32::from(matches!(piece, Piece::Line(_)));
                }
            },
        }
        let enough = head.is_known() || lines >= F::Head::LINES || format.refuses(head);
        if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(broken)
}

/// What was met while reading the end.
pub(crate) struct SeenBack {
    records: u64,
    damaged: bool,
    whole: bool,
    torn: bool,
    too_long: u32,
}

/// Reads the end.
pub(crate) fn read_back(
    tail: &mut impl Tail,
    (source, size): (&(impl ReadAt + ?Sized), u64),
) -> io::Result<SeenBack> {
    let mut back = Back { tail, records: 0, broken: 0, broken_last: 0 };
    let seen = scan_back(source, size, &mut back)?;
    // A last line without a line break may still be being written.
    let damaged = back.broken > 0 || back.broken_last > u32::from(seen.torn);
    Ok(SeenBack {
        records: back.records,
        damaged,
        whole: seen.whole,
        torn: seen.torn,
        too_long: seen.too_long,
    })
}

struct Back<'t, T> {
    tail: &'t mut T,
    records: u64,
    /// Lines that are not records: those before a record, and those after the last one.
    broken: u32,
    broken_last: u32,
}

impl<T: Tail> Scan for Back<'_, T> {
    fn line(&mut self, line: &[u8], distance: u64) -> ControlFlow<()> {
        match as_text(line, |line| self.tail.line(line, distance)) {
            Line::Record | Line::Copy => self.records += 1,
            Line::Broken if self.records == 0 => self.broken_last += 1,
            Line::Broken => {
                self.broken += 1;
                self.tail.lost();
            }
        }
        if self.tail.enough(distance) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn first_window(&self) -> usize {
        T::WINDOW
    }

    fn wants_more(&mut self, distance: u64) -> bool {
        !self.tail.enough(distance)
    }
}

/// Counts the whole file.
fn count<S: Sum>(mut sum: S, source: &dyn ReadAt, torn: bool) -> io::Result<Counted> {
    let too_long = add_up(&mut sum, source)?;
    Ok(Counted { too_long, ..sum.counted(torn) })
}

/// Gives every line that counts to `sum`; returns how many lines were too long.
pub(crate) fn add_up(sum: &mut impl Sum, source: &dyn ReadAt) -> io::Result<u32> {
    match sum.marks() {
        [] => scan_whole(source, |line| sum.line(line, 0)),
        [mark] => scan_containing(source, &Finder::new(mark), |passage| match passage {
            Passage::Line(line, at) => sum.line(line, at),
            Passage::Without(lines) => sum.others(lines),
        }),
        marks => {
            let marks: Vec<Finder<'_>> = marks.iter().map(Finder::new).collect();
            scan_whole(source, |line| {
                if marks.iter().any(|mark| mark.find(line).is_some()) {
                    sum.line(line, 0);
                }
            })
        }
    }
}

/// Both ends of bytes in memory, without totals.
#[cfg(test)]
pub(crate) fn read_bytes<F: Format>(
    format: &F,
    bytes: &[u8],
    scope: &Scope<'_>,
) -> io::Result<Option<Ends<F>>> {
    let source: (&dyn ReadAt, u64) = (&bytes, bytes.len() as u64);
    read_ends(format, source, source, scope, |_, _| Ok(Counted::default()))
}
