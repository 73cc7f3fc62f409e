//! Reading one transcript: its beginning, its end, and the whole of it where totals are wanted.
//!
//! Every agent that keeps conversations in files of JSON lines is read through here. This module opens the file through the
//! door, bounds every read, counts what was damaged or too long, and uses the daemon's memory of counted files. An agent adds
//! a [`Format`]: what one line of its records says. A format is pure; it is given lines and never reads.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use agentctl_model::text::clean_cut;
use agentctl_model::{Evidence, Fact, Facts, Found, Stamp, Tokens, Turn, TurnState, Witness};
use jiff::Timestamp;
use memchr::memmem::Finder;

use super::gather::ReadSession;
use super::jsonl::head::{Piece, scan_head};
use super::jsonl::lenient::as_text;
use super::jsonl::open::{Opened, open_regular};
use super::jsonl::whole::{CHUNK, Passage, scan_containing, scan_whole};
use super::jsonl::{ReadAt, Scan, scan_back};
use super::memory::Counted;
use crate::Scope;

/// A first prompt of some megabytes is read; more is not waited for.
const HEAD_BUDGET: usize = 8 << 20;

/// How far back the last words are looked for once everything else is known.
pub(crate) const WORDS_REACH: u64 = 8 << 20;

/// How one agent writes a conversation.
pub(crate) trait Format {
    type Head: Head;
    type Tail: Tail;
    type Sum: Sum;

    /// A file of at most this many bytes is read in one piece: reading both of its ends would cost as much.
    const AT_ONCE: usize = 20 << 10;
    /// An empty file is a session in which nothing was said so far.
    const EMPTY_IS_SESSION: bool = false;

    fn head(&self) -> Self::Head;

    /// The beginning has shown that this file is not asked for.
    fn refuses(&self, _head: &Self::Head) -> bool {
        false
    }

    /// `None` if this file is another adapter's to tell of.
    fn tail(&self, head: &Self::Head) -> io::Result<Option<Self::Tail>>;

    /// Another way to read the end, where the first one looked in vain.
    fn other_tail(&self, _tail: &Self::Tail) -> Option<Self::Tail> {
        None
    }

    /// What is to be gathered from every line of the file, if anything is. `whole`: the tail has seen all of them.
    fn sum(&self, head: &Self::Head, tail: &Self::Tail, whole: bool) -> Option<Self::Sum>;

    /// A file that cannot be opened is this adapter's to tell of.
    fn tells_of_failure(&self) -> bool {
        true
    }

    /// Both ends of a file whose bytes are no lines.
    fn unpacked(&self, _opened: &Opened) -> io::Result<Option<BothEnds>> {
        Ok(None)
    }
}

/// What a line turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    Record,
    /// A copy out of another session's transcript: there may be any number of them.
    Copy,
    Broken,
}

impl Line {
    pub(crate) fn is_record(is_record: bool) -> Self {
        if is_record { Self::Record } else { Self::Broken }
    }
}

/// What the beginning of a transcript says.
pub(crate) trait Head {
    /// The first prompt stands near the beginning; a file without one is not read to its end for it.
    const LINES: u32 = 60;

    /// Takes lines oldest first. A broken one leaves no trace.
    fn line(&mut self, line: &[u8]) -> Line;

    /// Nothing more is wanted of the beginning.
    fn is_known(&self) -> bool;

    /// The beginning of a line of megabytes: the line comes again, longer, until this is enough.
    fn fragment(&mut self, _fragment: &[u8]) {}
}

/// What the end of a transcript says.
pub(crate) trait Tail {
    /// Takes lines newest first. A broken one leaves no trace. `distance` is how far the line begins from the end.
    fn line(&mut self, line: &[u8], distance: u64) -> Line;

    /// Nothing that stands further than `distance` from the end is wanted.
    fn enough(&self, distance: u64) -> bool;

    /// A line between two records is lost.
    fn lost(&mut self) {}

    fn latest(&mut self) -> &mut Latest;
}

/// What all lines of a transcript add up to.
pub(crate) trait Sum {
    /// A file is read whole for this.
    const READS_ALL: bool = true;

    /// Every line that counts holds one of these; other lines need not be split.
    fn marks(&self) -> &'static [&'static str];

    /// A line with a mark, and where in it the first mark stands if there is but one.
    fn line(&mut self, line: &[u8], at: usize);

    /// Whole lines without a mark; told only to those who have one mark.
    fn others(&mut self, _lines: &[u8]) {}

    /// `torn`: the last line may still be in writing.
    fn counted(self, torn: bool) -> Counted;
}

/// Two counts as one; what neither says stays unknown.
pub(crate) fn plus(one: Tokens, other: Tokens) -> Tokens {
    let add = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    };
    Tokens {
        input: add(one.input, other.input),
        output: add(one.output, other.output),
        cache_read: add(one.cache_read, other.cache_read),
        cache_write: add(one.cache_write, other.cache_write),
    }
}

/// For agents whose records carry running totals.
impl Sum for () {
    const READS_ALL: bool = false;

    fn marks(&self) -> &'static [&'static str] {
        &[]
    }

    fn line(&mut self, _line: &[u8], _at: usize) {}

    fn counted(self, _torn: bool) -> Counted {
        Counted::default()
    }
}

/// What is asked of the beginning of every transcript.
#[derive(Debug, Default)]
pub(crate) struct First {
    pub(crate) text_limit: Option<usize>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) prompt: Option<String>,
}

impl First {
    pub(crate) fn new(text_limit: Option<usize>) -> Self {
        Self { text_limit, ..Self::default() }
    }

    /// The first text that is given counts.
    pub(crate) fn asked(&mut self, text: Option<impl AsRef<str>>) {
        if self.prompt.is_none() {
            self.prompt = text.map(|text| clean_cut(text.as_ref(), self.text_limit));
        }
    }

    /// The first time that is given counts.
    pub(crate) fn started(&mut self, at: Option<Timestamp>) {
        self.started_at = self.started_at.or(at);
    }

    pub(crate) fn is_known(&self) -> bool {
        self.prompt.is_some() && self.started_at.is_some()
    }
}

/// What is asked of the end of every transcript.
#[derive(Debug, Default)]
pub(crate) struct Latest {
    pub(crate) text_limit: Option<usize>,
    pub(crate) turn: Option<Turn>,
    pub(crate) updated_at: Option<Timestamp>,
    pub(crate) last_message: Option<String>,
    pub(crate) model: Option<String>,
    /// Kinds of records that are not known, and how many of each.
    pub(crate) drift: BTreeMap<String, u64>,
    /// Where the turn began was looked for already.
    pub(crate) began_known: bool,
}

impl Latest {
    pub(crate) fn new(text_limit: Option<usize>) -> Self {
        Self { text_limit, ..Self::default() }
    }

    /// The newest words of the agent count; blank ones are none.
    pub(crate) fn said(&mut self, text: Option<impl AsRef<str>>) {
        if self.last_message.is_none() {
            let text = text.filter(|text| !text.as_ref().trim().is_empty());
            self.last_message = text.map(|text| clean_cut(text.as_ref(), self.text_limit));
        }
    }

    /// The newest model counts.
    pub(crate) fn used(&mut self, model: Option<&str>) {
        keep(&mut self.model, model);
    }

    /// A record of a kind that nobody knows.
    pub(crate) fn drifted(&mut self, kind: &str) {
        *self.drift.entry(clean_cut(kind, Some(60))).or_default() += 1;
    }

    /// The turn that is told began here, unless a newer prompt began it.
    pub(crate) fn began(&mut self, at: Option<Timestamp>) {
        if !self.began_known
            && let Some(turn) = &mut self.turn
        {
            self.began_known = true;
            if turn.state != TurnState::NotBegun {
                turn.began = at;
            }
        }
    }

    pub(crate) fn is_spoken(&self) -> bool {
        self.last_message.is_some() && self.model.is_some()
    }

    /// The facts of both ends; whatever else an agent says is its own to add.
    pub(crate) fn into_facts(self, first: First, counted: &Counted) -> Facts {
        Facts {
            turn: Some(self.turn.unwrap_or_else(|| Turn::new(TurnState::NotBegun, self.updated_at))),
            prompt: first.prompt,
            last_message: self.last_message,
            model: self.model,
            started_at: first.started_at,
            updated_at: self.updated_at,
            tokens: counted.tokens,
            cost: counted.cost,
            ..Facts::default()
        }
    }
}

/// Going back, the first value that is met counts; an empty one is none.
pub(crate) fn keep(slot: &mut Option<String>, value: Option<&str>) {
    if slot.is_none() {
        *slot = value.filter(|text| !text.is_empty()).map(|text| clean_cut(text, None));
    }
}

/// The beginning and the end of what stands in memory; one and the same where that is all of it.
pub(crate) struct BothEnds {
    pub(crate) head: Option<Vec<u8>>,
    pub(crate) tail: Vec<u8>,
}

impl BothEnds {
    pub(crate) fn head(&self) -> &[u8] {
        self.head.as_deref().unwrap_or(&self.tail)
    }
}

/// One transcript that was looked at.
pub(crate) enum Read<F: Format> {
    /// There is no such file.
    Gone,
    /// It is not asked for, or nothing was written into it so far.
    Passed,
    Told(Reading<F>),
}

/// One transcript that was read.
pub(crate) struct Reading<F: Format> {
    pub(crate) head: F::Head,
    pub(crate) tail: F::Tail,
    pub(crate) counted: Counted,
    pub(crate) stamp: Stamp,
    /// What is odd about the file.
    pub(crate) warning: Option<&'static str>,
    pub(crate) drift: BTreeMap<String, u64>,
}

impl<F: Format> Read<F> {
    /// For those to whom a file that is gone is like one that is not asked for.
    pub(crate) fn told(self) -> Option<Reading<F>> {
        match self {
            Self::Told(reading) => Some(reading),
            Self::Gone | Self::Passed => None,
        }
    }
}

impl<F: Format> Reading<F> {
    /// The session that this file holds, once its facts were made of both ends.
    pub(crate) fn into_session(
        self,
        id: String,
        path: &Path,
        facts: impl FnOnce(F::Head, F::Tail, &Counted) -> Facts,
    ) -> ReadSession {
        let facts = facts(self.head, self.tail, &self.counted);
        ReadSession {
            found: Some(Found {
                id,
                slot: None,
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

/// What the transcript witnesses.
pub(crate) fn evidence(facts: &Facts) -> Evidence {
    match &facts.turn {
        Some(turn) => Evidence::new(Witness::Transcript, Fact::TurnIs(turn.state), turn.last),
        None => Evidence::new(Witness::Transcript, Fact::TurnNotSaid, facts.updated_at),
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
    let opened = match open_regular(path) {
        Ok(opened) => opened,
        // Deleted, or moved to where it will be found, since the folder was listed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Read::Gone),
        Err(_) if !format.tells_of_failure() => return Ok(Read::Passed),
        Err(error) => return Err(named(error)),
    };
    let old = opened.modified.is_some_and(|modified| since.is_some_and(|since| modified < since));
    if old || (opened.size == 0 && !F::EMPTY_IS_SESSION) {
        return Ok(Read::Passed);
    }
    read_opened(format, path, &opened, scope).map_err(named)
}

fn read_opened<F: Format>(
    format: &F,
    path: &Path,
    opened: &Opened,
    scope: &Scope<'_>,
) -> io::Result<Read<F>> {
    let known = scope.recall(path, opened);
    let both = |begin: (&dyn ReadAt, u64), end: (&dyn ReadAt, u64)| {
        read_ends(format, begin, end, |sum, torn| match known.clone() {
            Some(known) => Ok(known),
            None => {
                sum.map_or_else(|| Ok(Counted::default()), |sum| count(sum, end.0, torn, path, opened, scope))
            }
        })
    };
    let reading = match format.unpacked(opened)? {
        Some(ends) => {
            let (head, tail) = (ends.head(), ends.tail.as_slice());
            both((&head, head.len() as u64), (&tail, tail.len() as u64))?
        }
        None => {
            let whole = F::Sum::READS_ALL && scope.usage && known.is_none();
            let at_once = if whole { CHUNK.max(F::AT_ONCE) } else { F::AT_ONCE };
            opened.read_through(at_once, |source, size| both((source, size), (source, size)))?
        }
    };
    Ok(reading.map_or(Read::Passed, |(head, tail, counted, warning)| {
        Read::Told(told(head, tail, counted, warning, opened))
    }))
}

fn told<F: Format>(
    head: F::Head,
    mut tail: F::Tail,
    counted: Counted,
    warning: Option<&'static str>,
    opened: &Opened,
) -> Reading<F> {
    let drift = std::mem::take(&mut tail.latest().drift);
    let stamp = Stamp { size: opened.size, modified: opened.modified };
    Reading { head, tail, counted, stamp, warning, drift }
}

/// What both ends say, what was counted, and what is odd.
pub(crate) type Ends<F> = (<F as Format>::Head, <F as Format>::Tail, Counted, Option<&'static str>);

fn read_ends<F: Format>(
    format: &F,
    begin: (&dyn ReadAt, u64),
    end: (&dyn ReadAt, u64),
    count: impl FnOnce(Option<F::Sum>, bool) -> io::Result<Counted>,
) -> io::Result<Option<Ends<F>>> {
    let mut head = format.head();
    let broken_first = read_first(format, &mut head, begin)?;
    if format.refuses(&head) {
        return Ok(None);
    }
    let Some(mut tail) = format.tail(&head)? else { return Ok(None) };
    let mut seen = read_back(&mut tail, end)?;
    if let Some(other) = format.other_tail(&tail) {
        tail = other;
        seen = read_back(&mut tail, end)?;
    }
    if seen.records == 0 && end.1 > 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "holds no readable record"));
    }
    let counted = count(format.sum(&head, &tail, seen.whole), seen.torn)?;
    let warning =
        match (broken_first > 0 || seen.damaged || counted.damaged, seen.too_long + counted.too_long) {
            (false, 0) => None,
            (false, _) => Some("has a line too long to read"),
            (true, _) => Some("has a damaged record"),
        };
    Ok(Some((head, tail, counted, warning)))
}

/// Reads the beginning; answers how many of its lines are no records.
fn read_first<F: Format>(
    format: &F,
    head: &mut F::Head,
    (source, size): (&dyn ReadAt, u64),
) -> io::Result<u32> {
    let (mut lines, mut broken) = (0, 0);
    scan_head(source, size, HEAD_BUDGET, |piece| {
        match piece {
            Piece::Fragment(fragment) => head.fragment(fragment),
            Piece::Line(line) | Piece::Last(line) if line.iter().all(u8::is_ascii_whitespace) => {}
            Piece::Line(line) | Piece::Last(line) => match as_text(line, |line| head.line(line)) {
                Line::Copy => {}
                Line::Record => lines += 1,
                Line::Broken => {
                    lines += 1;
                    // The last line may still be in writing.
                    broken += u32::from(matches!(piece, Piece::Line(_)));
                }
            },
        }
        let enough = head.is_known() || lines >= F::Head::LINES || format.refuses(head);
        if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(broken)
}

/// What reading the end went through.
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
    // A last line without its line break may still be in writing.
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
    /// Lines that are no records, in front of a record and behind all of them.
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

    fn wants_more(&self, distance: u64) -> bool {
        !self.tail.enough(distance)
    }
}

/// Counts the whole file, and remembers the totals where somebody asks again.
fn count<S: Sum>(
    mut sum: S,
    source: &dyn ReadAt,
    torn: bool,
    path: &Path,
    opened: &Opened,
    scope: &Scope<'_>,
) -> io::Result<Counted> {
    let too_long = add_up(&mut sum, source)?;
    let counted = Counted { too_long, ..sum.counted(torn) };
    if scope.usage
        && let Some(memory) = &scope.memory
    {
        memory.keep(path, opened, counted.clone());
    }
    Ok(counted)
}

/// Gives every line that counts to `sum`; answers how many lines were too long.
pub(crate) fn add_up(sum: &mut impl Sum, source: &dyn ReadAt) -> io::Result<u32> {
    match sum.marks() {
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

/// Both ends of what stands in memory, with nothing counted.
#[cfg(test)]
pub(crate) fn read_bytes<F: Format>(format: &F, bytes: &[u8]) -> io::Result<Option<Ends<F>>> {
    let source: (&dyn ReadAt, u64) = (&bytes, bytes.len() as u64);
    read_ends(format, source, source, |_, _| Ok(Counted::default()))
}
