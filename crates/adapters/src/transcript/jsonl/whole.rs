//! Every line of a file, oldest first, in one pass: for totals that no bounded read can give.

use std::io;

use memchr::memmem::Finder;

use super::scan::{MOST_WITHOUT_LINES, no_lines};
use super::scratch::{grow, with_scratch};
use super::{LINE_LIMIT, ReadAt};
use crate::cancel;

/// Small enough to stay in a core's own cache between the kernel's copy and our scan of it.
pub const CHUNK: usize = 128 << 10;

/// No conversation is longer.
const LONGEST: u64 = 16 << 30;

/// Passes every line to `take`, including a last one without a line break. Lines beyond the limit are skipped;
/// returns how many there were.
pub fn scan_whole(source: &(impl ReadAt + ?Sized), mut take: impl FnMut(&[u8])) -> io::Result<u32> {
    scan_regions(source, |region, _| {
        let mut rest = region;
        while let Some(length) = memchr::memchr(b'\n', rest) {
            take(&rest[..length]);
            rest = &rest[length + 1..];
        }
        if !rest.is_empty() {
            take(rest);
        }
    })
}

/// What a scan for a needle finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage<'a> {
    /// A line that contains the needle, and the position of its first occurrence.
    Line(&'a [u8], usize),
    /// Whole lines without the needle, not split, each with its line break.
    Without(&'a [u8]),
}

/// Passes on the lines that contain `needle` one by one; the lines between them are not even split. Returns how many
/// lines were beyond the limit and skipped.
pub fn scan_containing(
    source: &(impl ReadAt + ?Sized),
    needle: &Finder<'_>,
    mut take: impl FnMut(Passage<'_>),
) -> io::Result<u32> {
    scan_regions(source, |region, _| {
        let mut rest = region;
        while let Some(at) = needle.find(rest) {
            let start = memchr::memrchr(b'\n', &rest[..at]).map_or(0, |newline| newline + 1);
            let end = memchr::memchr(b'\n', &rest[at..]).map_or(rest.len(), |length| at + length);
            take(Passage::Without(&rest[..start]));
            take(Passage::Line(&rest[start..end], at - start));
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        take(Passage::Without(rest));
    })
}

/// The same for callers that only want the lines with the needle.
pub fn lines_containing(
    source: &(impl ReadAt + ?Sized),
    needle: &Finder<'_>,
    mut take: impl FnMut(&[u8]),
) -> io::Result<u32> {
    scan_containing(source, needle, |passage| {
        if let Passage::Line(line, _) = passage {
            take(line);
        }
    })
}

/// Reads the file once and passes on regions that contain whole lines only, each with its place in the file.
pub fn scan_regions(source: &(impl ReadAt + ?Sized), mut take: impl FnMut(&[u8], u64)) -> io::Result<u32> {
    if let Some(bytes) = source.in_memory() {
        take(bytes, 0);
        return Ok(0);
    }
    with_scratch(|buffer| read_regions(source, buffer, take))
}

fn read_regions(
    source: &(impl ReadAt + ?Sized),
    buffer: &mut Vec<u8>,
    mut take: impl FnMut(&[u8], u64),
) -> io::Result<u32> {
    let (mut filled, mut offset) = (0, 0u64);
    let (mut skipping, mut too_long, mut without_lines) = (false, 0, 0);
    loop {
        cancel::step()?;
        if without_lines > MOST_WITHOUT_LINES {
            return Err(no_lines(MOST_WITHOUT_LINES));
        }
        if offset > LONGEST {
            let words = format!("is longer than {} GiB", LONGEST >> 30);
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        grow(buffer, filled + CHUNK, 0..filled, false);
        let got = match source.read_at(&mut buffer[filled..filled + CHUNK], offset) {
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let begins = offset - filled as u64;
        offset += got as u64;
        let end = filled + got;
        if got == 0 {
            if filled > 0 && !skipping {
                take(&buffer[..filled], begins);
            }
            return Ok(too_long);
        }
        // Only the bytes that were just read can contain a line break.
        let from = match memchr::memrchr(b'\n', &buffer[filled..end]) {
            None => {
                without_lines += got as u64;
                0
            }
            Some(last) => {
                without_lines = 0;
                let last = filled + last;
                let mut region = &buffer[..=last];
                let mut over = 0;
                if std::mem::take(&mut skipping) {
                    over = memchr::memchr(b'\n', region).map_or(region.len(), |newline| newline + 1);
                    region = &region[over..];
                }
                take(region, begins + over as u64);
                last + 1
            }
        };
        buffer.copy_within(from..end, 0);
        filled = end - from;
        if filled >= LINE_LIMIT {
            skipping = true;
            too_long += 1;
        }
        if skipping {
            filled = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn every_line_once_whatever_its_length() {
        let mut file = tempfile::tempfile().unwrap();
        let lengths = [1, 0, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 7];
        for length in lengths {
            file.write_all(&vec![b'x'; length]).unwrap();
            file.write_all(b"\n").unwrap();
        }
        file.write_all(b"torn").unwrap();
        let mut seen = Vec::new();
        scan_whole(&file, |line| seen.push(line.len())).unwrap();
        assert_eq!(seen, [1, 0, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 7, 4]);
    }

    #[test]
    fn only_the_lines_with_the_needle_and_each_of_them_once() {
        let mut file = tempfile::tempfile().unwrap();
        let filler = "x".repeat(CHUNK / 3);
        let mut expected = Vec::new();
        for number in 0..40 {
            let line =
                if number % 3 == 0 { format!("{number} needle needle {filler}") } else { filler.clone() };
            writeln!(file, "{line}").unwrap();
            if number % 3 == 0 {
                expected.push(line);
            }
        }
        write!(file, "torn needle").unwrap();
        expected.push("torn needle".to_owned());
        let (mut seen, mut others) = (Vec::new(), 0);
        let take = |passage: Passage<'_>| match passage {
            Passage::Line(line, at) => {
                assert!(line[at..].starts_with(b"needle"));
                seen.push(String::from_utf8_lossy(line).into_owned());
            }
            Passage::Without(lines) => others += lines.split_inclusive(|byte| *byte == b'\n').count(),
        };
        scan_containing(&file, &Finder::new("needle"), take).unwrap();
        assert_eq!(seen, expected);
        assert_eq!(others, 40 - expected.len() + 1, "and the others are passed");
    }

    #[test]
    fn a_line_beyond_the_limit_costs_only_itself() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"first\n").unwrap();
        file.write_all(&vec![b'm'; LINE_LIMIT + CHUNK]).unwrap();
        file.write_all(b"\nlast\n").unwrap();
        let mut seen = Vec::new();
        let too_long = scan_whole(&file, |line| seen.push(line.len())).unwrap();
        assert_eq!((seen, too_long), (vec![5, 4], 1));
    }
}
