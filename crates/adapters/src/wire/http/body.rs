//! Where a body ends, and which bytes on the wire belong to it. Pure: it receives bytes as they arrive.

use std::io;

use super::{Head, broken};

/// No line between chunks is longer, and no trailer has more lines.
const LONGEST_LINE: usize = 256;
const MOST_TRAILERS: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    Done,
    /// This many bytes are still to come.
    Length(u64),
    UntilClose,
    Chunked(Chunked),
}

/// A chunked body: what comes next, and its line that is not complete yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunked {
    next: Next,
    line: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// The line that gives the length of the next chunk.
    Size,
    /// This much of a chunk is still to come.
    Chunk(u64),
    /// The empty line after a chunk.
    EndOfChunk,
    /// Lines after the last chunk, until an empty one; this many came so far.
    Trailers(usize),
}

impl Body {
    pub(super) fn of(head: &Head) -> io::Result<Self> {
        // These have no body, and the connection may stay open after them.
        if matches!(head.status, 100..200 | 204 | 304) {
            return Ok(Self::Done);
        }
        if let Some(coding) = head.header("transfer-encoding") {
            if !coding.trim().eq_ignore_ascii_case("chunked") {
                return Err(broken(format!("a body that is encoded as {coding}")));
            }
            return Ok(Self::Chunked(Chunked { next: Next::Size, line: Vec::new() }));
        }
        let mut lengths = head.all("content-length").map(|length| length.trim().parse::<u64>().ok());
        match lengths.next() {
            None => Ok(Self::UntilClose),
            Some(Some(length)) if lengths.all(|other| other == Some(length)) => {
                Ok(if length == 0 { Self::Done } else { Self::Length(length) })
            }
            Some(_) => Err(broken("a body without one length")),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// Whether the body is complete if the connection ends now.
    pub(super) fn may_end_here(&self) -> bool {
        matches!(self, Self::Done | Self::UntilClose)
    }

    /// Appends those of the arrived bytes that belong to the body. Bytes after its end are skipped.
    pub(super) fn decode(&mut self, arrived: &[u8], into: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Done => {}
            Self::UntilClose => into.extend_from_slice(arrived),
            Self::Length(left) => {
                into.extend_from_slice(take(left, arrived).0);
                if *left == 0 {
                    *self = Self::Done;
                }
            }
            Self::Chunked(chunked) => {
                if chunked.decode(arrived, into)? {
                    *self = Self::Done;
                }
            }
        }
        Ok(())
    }
}

impl Chunked {
    /// `true` when the last chunk and its trailers are over.
    fn decode(&mut self, mut rest: &[u8], into: &mut Vec<u8>) -> io::Result<bool> {
        while !rest.is_empty() {
            if let Next::Chunk(left) = &mut self.next {
                let (chunk, behind) = take(left, rest);
                into.extend_from_slice(chunk);
                rest = behind;
                if *left == 0 {
                    self.next = Next::EndOfChunk;
                }
                continue;
            }
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let (piece, behind) = rest.split_at(end);
            rest = behind;
            if self.line.len() + piece.len() > LONGEST_LINE {
                return Err(broken("a line between chunks that does not end"));
            }
            self.line.extend_from_slice(piece);
            if self.line.ends_with(b"\n") && self.end_of_line()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn end_of_line(&mut self) -> io::Result<bool> {
        let is_empty = self.line == b"\r\n";
        self.next = match self.next {
            Next::Size => match httparse::parse_chunk_size(&self.line) {
                Ok(httparse::Status::Complete((_, 0))) => Next::Trailers(0),
                Ok(httparse::Status::Complete((_, size))) => Next::Chunk(size),
                _ => return Err(broken("a chunk without its size")),
            },
            Next::EndOfChunk if is_empty => Next::Size,
            Next::Trailers(_) if is_empty => return Ok(true),
            Next::Trailers(count) if count < MOST_TRAILERS => Next::Trailers(count + 1),
            _ => return Err(broken("a chunk that is longer than it says")),
        };
        self.line.clear();
        Ok(false)
    }
}

/// Takes as many bytes as are left, and counts them.
fn take<'b>(left: &mut u64, bytes: &'b [u8]) -> (&'b [u8], &'b [u8]) {
    let most = usize::try_from(*left).unwrap_or(usize::MAX);
    let (taken, behind) = bytes.split_at(bytes.len().min(most));
    *left -= taken.len() as u64;
    (taken, behind)
}
