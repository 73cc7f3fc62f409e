//! What an agent adds to the reading of its transcripts. Pure: a format receives lines and never reads.

use std::fmt::Debug;
use std::io;

use super::{First, Latest};
use crate::Scope;
use crate::transcript::jsonl::ReadAt;
use crate::transcript::jsonl::open::Opened;
use crate::transcript::memory::Counted;

/// How one agent writes a conversation.
pub(crate) trait Format {
    type Head: Head;
    type Tail: Tail;
    type Sum: Sum;

    /// A file of at most this many bytes is read in one piece: reading both of its ends would cost as much.
    const AT_ONCE: usize = 20 << 10;
    /// An empty file is a session without messages so far.
    const EMPTY_IS_SESSION: bool = false;

    /// Which of its forms this is, where what a file says depends on more than its bytes and its path.
    fn form(&self) -> u8 {
        0
    }

    fn head(&self) -> Self::Head {
        Self::Head::default()
    }

    /// The beginning has shown that this file is not wanted.
    fn refuses(&self, _head: &Self::Head) -> bool {
        false
    }

    /// `None` if another adapter reports this file.
    fn tail(&self, _head: &Self::Head) -> io::Result<Option<Self::Tail>> {
        Ok(Some(Self::Tail::default()))
    }

    /// Another way to read the end, if the first one found nothing.
    fn other_tail(&self, _tail: &Self::Tail) -> Option<Self::Tail> {
        None
    }

    /// Whether every line has to be read for what is wanted.
    fn counts(&self, scope: &Scope<'_>) -> bool {
        scope.usage
    }

    /// What counts every line of the file.
    fn sum(&self, head: &Self::Head) -> Self::Sum;

    /// What has to be collected from every line although totals are not wanted. `whole`: the tail has seen all lines.
    fn missing(&self, _head: &Self::Head, _tail: &Self::Tail, _whole: bool) -> Option<Self::Sum> {
        None
    }

    /// This adapter reports a file that cannot be opened.
    fn reports_failure(&self) -> bool {
        true
    }

    /// Both ends of a file whose bytes are not lines.
    fn unpacked(&self, _opened: &Opened) -> io::Result<Option<BothEnds>> {
        Ok(None)
    }

    /// All lines of such a file, to be read once from the beginning.
    fn unpacked_whole(&self, _opened: &Opened) -> io::Result<Option<Box<dyn ReadAt>>> {
        Ok(None)
    }
}

/// What the daemon can keep in memory: it has no borrowed part, and its size can be told.
pub(crate) trait Kept: Debug + Clone + Send + Sync + 'static {}

impl<T: Debug + Clone + Send + Sync + 'static> Kept for T {}

/// What kind of line it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    Record,
    /// A copy from another session's transcript: there may be any number of them.
    Copy,
    Broken,
}

impl Line {
    pub(crate) fn is_record(is_record: bool) -> Self {
        if is_record { Self::Record } else { Self::Broken }
    }
}

/// What the beginning of a transcript says.
pub(crate) trait Head: Default + Kept {
    /// How much is read first: what nearly every file needs, so that a second read is rare.
    const WINDOW: usize = 4 << 10;
    /// The first prompt stands near the beginning; a file without one is not read to its end for it.
    const LINES: u32 = 60;

    /// Takes lines, oldest first. A broken line changes nothing.
    fn line(&mut self, line: &[u8]) -> Line;

    fn first(&mut self) -> &mut First;

    /// Nothing more is wanted from the beginning.
    fn is_known(&mut self) -> bool {
        self.first().is_known()
    }

    /// The beginning of a line of several megabytes: the line is given again, longer, until this is enough.
    fn fragment(&mut self, _fragment: &[u8]) {}
}

/// What the end of a transcript says.
pub(crate) trait Tail: Default + Kept {
    /// The same for the end.
    const WINDOW: usize = 16 << 10;

    /// Takes lines, newest first. A broken line changes nothing. `distance` is how far the start of the line is from
    /// the end.
    fn line(&mut self, line: &[u8], distance: u64) -> Line;

    fn latest(&mut self) -> &mut Latest;

    /// Nothing further than `distance` from the end is wanted.
    fn enough(&mut self, distance: u64) -> bool {
        self.latest().is_known(distance)
    }

    /// A line between two records is lost.
    fn lost(&mut self) {}
}

/// The totals over all lines of a transcript.
pub(crate) trait Sum {
    /// Every line that counts contains one of these; other lines need not be split. Without marks every line is given.
    fn marks(&self) -> &'static [&'static str];

    /// A line with a mark, and the position of the first mark in it if there is only one mark.
    fn line(&mut self, line: &[u8], at: usize);

    /// Whole lines without a mark; only called for implementations with one mark.
    fn others(&mut self, _lines: &[u8]) {}

    /// `torn`: the last line may still be being written.
    fn counted(self, torn: bool) -> Counted;
}

/// The beginning and the end of a transcript in memory; both are the same if the bytes are all of it.
pub(crate) struct BothEnds {
    pub(crate) head: Option<Vec<u8>>,
    pub(crate) tail: Vec<u8>,
}

impl BothEnds {
    pub(crate) fn head(&self) -> &[u8] {
        self.head.as_deref().unwrap_or(&self.tail)
    }
}
