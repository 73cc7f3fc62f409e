//! The backward scan: the lines of a file, newest first, in growing windows.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use super::scratch::{grow, with_scratch};
use crate::cancel;

/// A longer line is skipped (and counted): no record that matters is that long.
pub const LINE_LIMIT: usize = 32 << 20;

/// After this many bytes without the end of a line, a file does not consist of lines: it is sparse, or a trap.
pub(super) const MOST_WITHOUT_LINES: u64 = 8 * LINE_LIMIT as u64;

/// What is searched for lies near the end. A file that needs more than this to be understood is left out.
const FURTHEST: u64 = 1 << 30;

/// The usual first window; each further one is three times as large.
const FIRST_WINDOW: usize = 16 << 10;
const LARGEST_WINDOW: usize = 1 << 20;

/// Takes lines, newest first. Pure: it cannot fail and cannot block.
pub trait Scan {
    /// One complete line without its line break. `distance` is how far its start lies from the end of the file.
    fn line(&mut self, line: &[u8], distance: u64) -> ControlFlow<()>;

    /// How much is read first.
    fn first_window(&self) -> usize {
        FIRST_WINDOW
    }

    /// Called before the next window is read: every line that begins within `distance` of the end has been given.
    fn wants_more(&mut self, _distance: u64) -> bool {
        true
    }
}

/// What a scan met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// The scan reached the first byte of the file.
    pub whole: bool,
    /// The number of lines longer than [`LINE_LIMIT`] that were skipped.
    pub too_long: u32,
    /// The file ended without a line break: its last line may be a write in progress.
    pub torn: bool,
}

/// Where bytes come from: a file, or memory in tests.
pub trait ReadAt {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// All bytes, if nothing needs to be read any more.
    fn in_memory(&self) -> Option<&[u8]> {
        None
    }
}

impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|from| self.get(from..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn in_memory(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl ReadAt for &[u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buffer, offset)
    }

    fn in_memory(&self) -> Option<&[u8]> {
        Some(self)
    }
}

/// Passes the lines of a file of `size` bytes to `scan`, newest first, until it breaks or the file begins.
///
/// A last line without a line break is passed too: the parser decides whether it is half a record. A file that
/// shrinks during the read ends the scan early with what is left of it.
pub fn scan_back(source: &(impl ReadAt + ?Sized), size: u64, scan: &mut impl Scan) -> io::Result<Seen> {
    if let Some(bytes) = source.in_memory().filter(|bytes| bytes.len() <= LINE_LIMIT) {
        return Ok(lines_back(bytes, scan));
    }
    with_scratch(|buffer| {
        Backward { buffer, start: 0, end: 0, seen: Seen::default() }.run(source, size, scan)
    })
}

/// The same for bytes that are already in memory.
fn lines_back(bytes: &[u8], scan: &mut impl Scan) -> Seen {
    let mut seen = Seen { torn: bytes.last().is_some_and(|last| *last != b'\n'), ..Seen::default() };
    let mut rest = bytes;
    while let Some(newline) = memchr::memrchr(b'\n', rest) {
        let line = &rest[newline + 1..];
        rest = &rest[..newline];
        if give(scan, line, (bytes.len() - newline - 1) as u64).is_break() {
            return seen;
        }
    }
    seen.whole = true;
    let _ = give(scan, rest, bytes.len() as u64);
    seen
}

/// `buffer[start..end]` is the line that is not complete yet; windows are read in front of it.
struct Backward<'b> {
    buffer: &'b mut Vec<u8>,
    start: usize,
    end: usize,
    seen: Seen,
}

impl Backward<'_> {
    fn run(mut self, source: &(impl ReadAt + ?Sized), size: u64, scan: &mut impl Scan) -> io::Result<Seen> {
        let mut offset = size;
        let mut window = scan.first_window();
        let mut skipping = false;
        let mut barren = 0;
        while offset > 0 {
            cancel::step()?;
            if barren > MOST_WITHOUT_LINES {
                return Err(no_lines(MOST_WITHOUT_LINES));
            }
            if size - offset > FURTHEST {
                let words = format!("its last {} MiB do not say what it is about", FURTHEST >> 20);
                return Err(io::Error::new(io::ErrorKind::InvalidData, words));
            }
            let length = usize::try_from(offset).unwrap_or(usize::MAX).min(window);
            self.make_room(length);
            offset -= length as u64;
            let fresh = self.start - length;
            let got = fill(source, &mut self.buffer[fresh..self.start], offset)?;
            // The file shrank during the scan: the held bytes came after bytes that no longer exist.
            if got < length {
                self.end = fresh + got;
            }
            let mut unsearched = fresh + got;
            self.start = fresh;
            barren += length as u64;
            if offset + length as u64 == size {
                self.seen.torn = got > 0 && self.buffer[unsearched - 1] != b'\n';
            }
            while let Some(newline) = memchr::memrchr(b'\n', &self.buffer[fresh..unsearched]) {
                let newline = fresh + newline;
                let line = &self.buffer[newline + 1..self.end];
                barren = (newline - fresh) as u64;
                self.end = newline;
                unsearched = newline;
                if skipping || line.len() > LINE_LIMIT {
                    skipping = false;
                    self.seen.too_long += 1;
                } else if give(scan, line, size - (offset + (newline - fresh) as u64 + 1)).is_break() {
                    return Ok(self.seen);
                }
            }
            if skipping || self.end - self.start > LINE_LIMIT {
                skipping = true;
                self.end = self.start;
            }
            if offset > 0 && !scan.wants_more(size - offset) {
                return Ok(self.seen);
            }
            window = (window * 3).min(LARGEST_WINDOW);
        }
        self.seen.whole = true;
        if skipping || self.end - self.start > LINE_LIMIT {
            self.seen.too_long += 1;
        } else {
            let _ = give(scan, &self.buffer[self.start..self.end], size);
        }
        Ok(self.seen)
    }

    /// Makes `length` bytes free in front of the held line.
    fn make_room(&mut self, length: usize) {
        if self.start >= length {
            return;
        }
        let held = self.end - self.start;
        if held + length > self.buffer.len() {
            let wanted = (held + length).max(4 * FIRST_WINDOW);
            grow(self.buffer, wanted, self.start..self.end, true);
        } else {
            let to = self.buffer.len() - held;
            self.buffer.copy_within(self.start..self.end, to);
        }
        self.start = self.buffer.len() - held;
        self.end = self.buffer.len();
    }
}

/// The error for a file in which no line ends for this long.
pub(super) fn no_lines(passed: u64) -> io::Error {
    let words = format!("has no line that ends within {} MiB", passed >> 20);
    io::Error::new(io::ErrorKind::InvalidData, words)
}

/// Reads until the buffer is full or the file ends.
pub(super) fn fill(source: &(impl ReadAt + ?Sized), buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn give(scan: &mut impl Scan, line: &[u8], distance: u64) -> ControlFlow<()> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.iter().all(u8::is_ascii_whitespace) {
        ControlFlow::Continue(())
    } else {
        scan.line(line, distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Collect {
        lines: Vec<Vec<u8>>,
        stop_after: Option<usize>,
    }

    impl Scan for Collect {
        fn line(&mut self, line: &[u8], _: u64) -> ControlFlow<()> {
            self.lines.push(line.to_vec());
            if self.stop_after == Some(self.lines.len()) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }
    }

    /// Bytes in memory that must be read like a file.
    struct Stored<'a>(&'a [u8]);

    impl ReadAt for Stored<'_> {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            self.0.read_at(buffer, offset)
        }
    }

    fn lines_back(bytes: &[u8]) -> (Vec<Vec<u8>>, Seen) {
        let [stored, in_memory]: [&dyn ReadAt; 2] = [&Stored(bytes), &bytes];
        let [read, there] = [stored, in_memory].map(|source| {
            let mut collect = Collect::default();
            let seen = scan_back(source, bytes.len() as u64, &mut collect).unwrap();
            (collect.lines, seen)
        });
        assert_eq!(read, there);
        read
    }

    /// The naive forward reader that the windows must agree with.
    fn lines_forward(bytes: &[u8]) -> Vec<Vec<u8>> {
        bytes
            .split(|byte| *byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec())
            .filter(|line| !line.iter().all(u8::is_ascii_whitespace))
            .collect()
    }

    fn line() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            4 => prop::collection::vec(any::<u8>().prop_filter("no newline", |b| *b != b'\n'), 0..60),
            1 => (0usize..70_000, any::<u8>()).prop_map(|(n, b)| vec![if b == b'\n' { b'x' } else { b }; n]),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_forward_reader(lines in prop::collection::vec(line(), 0..12), torn in any::<bool>()) {
            let mut bytes = lines.join(&b'\n');
            if !torn { bytes.push(b'\n'); }
            let mut expected = lines_forward(&bytes);
            expected.reverse();
            prop_assert_eq!(lines_back(&bytes).0, expected);
        }
    }

    #[test]
    fn a_line_of_many_megabytes_is_given_whole_and_its_neighbours_too() {
        let mut bytes = b"first\n".to_vec();
        bytes.extend(vec![b'm'; 5 << 20]);
        bytes.extend(b"\nlast\n");
        let (lines, seen) = lines_back(&bytes);
        assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [4, 5 << 20, 5]);
        assert!(seen.whole && !seen.torn && seen.too_long == 0);
    }

    #[test]
    fn a_line_beyond_the_limit_is_passed_over_and_counted() {
        let mut bytes = b"first\n".to_vec();
        bytes.extend(vec![b'm'; LINE_LIMIT + (2 << 20)]);
        bytes.extend(b"\nlast");
        let (lines, seen) = lines_back(&bytes);
        assert_eq!(lines, [b"last".to_vec(), b"first".to_vec()]);
        assert_eq!(seen, Seen { whole: true, too_long: 1, torn: true });
    }

    /// Nothing but zeros, however many are read.
    struct Sparse;

    impl ReadAt for Sparse {
        fn read_at(&self, buffer: &mut [u8], _: u64) -> io::Result<usize> {
            buffer.fill(0);
            Ok(buffer.len())
        }
    }

    #[test]
    fn a_terabyte_without_a_line_is_given_up_soon() {
        let error = scan_back(&Sparse, 1 << 40, &mut Collect::default()).unwrap_err();
        assert!(error.to_string().contains("no line that ends within 256 MiB"), "{error}");
    }

    /// Lines of zeros, each as long as a line may be.
    struct Poor;

    impl ReadAt for Poor {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            buffer.fill(0);
            let end = offset + buffer.len() as u64;
            let newline = end - end % (16 << 20);
            if newline >= offset && newline < end {
                buffer[usize::try_from(newline - offset).unwrap()] = b'\n';
            }
            Ok(buffer.len())
        }
    }

    #[test]
    fn a_terabyte_of_worthless_lines_is_given_up_too() {
        let error = scan_back(&Poor, 1 << 40, &mut Collect::default()).unwrap_err();
        assert!(error.to_string().contains("its last 1024 MiB"), "{error}");
    }

    #[test]
    fn whoever_is_not_waited_for_stops() {
        let progress = crate::Progress::default();
        progress.give_up();
        let read = || scan_back(&Stored(b"a\n"), 2, &mut Collect::default());
        assert!(cancel::with_cancellation(Some(&progress), read).is_err());
        assert!(read().is_ok());
    }

    #[test]
    fn a_break_ends_the_scan() {
        let mut collect = Collect { stop_after: Some(1), ..Collect::default() };
        let seen = scan_back(&Stored(b"a\nb\nc\n"), 6, &mut collect).unwrap();
        assert_eq!(collect.lines, [b"c".to_vec()]);
        assert!(!seen.whole);
    }

    #[test]
    fn no_window_is_read_that_nobody_wants() {
        struct FirstWindow(usize);
        impl Scan for FirstWindow {
            fn line(&mut self, _: &[u8], _: u64) -> ControlFlow<()> {
                self.0 += 1;
                ControlFlow::Continue(())
            }
            fn wants_more(&mut self, distance: u64) -> bool {
                distance < FIRST_WINDOW as u64
            }
        }
        let bytes = [vec![b'x'; 3 * FIRST_WINDOW], b"\na\nb\n".to_vec()].concat();
        let mut scan = FirstWindow(0);
        let seen = scan_back(&Stored(&bytes), bytes.len() as u64, &mut scan).unwrap();
        assert!(!seen.whole);
        assert_eq!(scan.0, 2, "the line that began before the window was not read");
    }

    #[test]
    fn a_file_that_shrank_gives_what_is_left() {
        let mut collect = Collect::default();
        scan_back(&Stored(b"a\nb\n"), 50_000, &mut collect).unwrap();
        assert_eq!(collect.lines, [b"b".to_vec(), b"a".to_vec()]);
    }
}
