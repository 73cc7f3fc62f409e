//! What an agent adds to the reading of its transcripts. Pure: a format is given lines and never reads.

use std::io;

use super::Latest;
use crate::transcript::jsonl::open::Opened;
use crate::transcript::memory::Counted;

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
