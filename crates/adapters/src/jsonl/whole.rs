//! Every line of a file, oldest first, in one pass: for totals that no bounded read can give.

use std::fs::File;
use std::io;

use super::{LINE_LIMIT, ReadAt};

const CHUNK: usize = 1 << 20;

/// Hands every complete line to `take`. Lines beyond the limit are passed over.
/// A last line without a line break is handed over too.
pub fn scan_whole(file: &File, buffer: &mut Vec<u8>, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    if buffer.len() < CHUNK {
        buffer.resize(CHUNK, 0);
    }
    let (mut filled, mut offset) = (0, 0u64);
    let mut skipping = false;
    loop {
        let got = match ReadAt::read_at(file, &mut buffer[filled..], offset) {
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        offset += got as u64;
        let end = filled + got;
        // Only the fresh bytes can hold a line break.
        let mut from = 0;
        let mut search = filled;
        while let Some(length) = memchr::memchr(b'\n', &buffer[search..end]) {
            let newline = search + length;
            if !std::mem::take(&mut skipping) {
                take(&buffer[from..newline]);
            }
            from = newline + 1;
            search = from;
        }
        if got == 0 {
            if from < end && !skipping {
                take(&buffer[from..end]);
            }
            return Ok(());
        }
        buffer.copy_within(from..end, 0);
        filled = end - from;
        if filled > LINE_LIMIT {
            skipping = true;
            filled = 0;
        } else if filled == buffer.len() {
            buffer.resize(buffer.len() * 2, 0);
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
        scan_whole(&file, &mut Vec::new(), |line| seen.push(line.len())).unwrap();
        assert_eq!(seen, [1, 0, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 7, 4]);
    }
}
