//! Lines of files: read from the front, from the back and as a whole, in windows of any size; and the walk over one line.

use std::io;
use std::ops::ControlFlow;

use agentctl_adapters::transcript::jsonl::head::{Piece, scan_head};
use agentctl_adapters::transcript::jsonl::walk::walk_line;
use agentctl_adapters::transcript::jsonl::whole::scan_whole;
use agentctl_adapters::transcript::jsonl::{ReadAt, Scan, scan_back};
use serde_json::{Map, Value};

use crate::{seeds, sizes};

/// A file that gives as many bytes at once as `sizes` says.
struct Stored<'a> {
    bytes: &'a [u8],
    sizes: &'a [u8],
    next: std::cell::Cell<usize>,
}

impl ReadAt for Stored<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let size = match self.sizes.get(self.next.get() % self.sizes.len().max(1)) {
            Some(size) => usize::from(*size) + 1,
            None => usize::MAX,
        };
        self.next.set(self.next.get() + 1);
        let count = buffer.len().min(size);
        self.bytes.read_at(&mut buffer[..count], offset)
    }
}

struct Back {
    first_window: usize,
    lines: Vec<(Vec<u8>, u64)>,
}

impl Scan for Back {
    fn line(&mut self, line: &[u8], distance: u64) -> ControlFlow<()> {
        self.lines.push((line.to_vec(), distance));
        ControlFlow::Continue(())
    }

    fn first_window(&self) -> usize {
        self.first_window
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// Every way to read a file gives the same lines, whatever the windows are.
pub fn windows(bytes: &[u8]) {
    let (sizes, bytes) = sizes(bytes);
    let first_window = sizes.first().map_or(1, |size| usize::from(*size) + 1);
    let size = bytes.len() as u64;
    let stored = Stored { bytes, sizes, next: std::cell::Cell::new(0) };

    let mut expected: Vec<(Vec<u8>, u64)> = Vec::new();
    let mut at = 0;
    for whole in bytes.split_inclusive(|byte| *byte == b'\n') {
        let line = whole.strip_suffix(b"\n").unwrap_or(whole);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !is_blank(line) {
            expected.push((line.to_vec(), size - at));
        }
        at += whole.len() as u64;
    }
    let mut back = Back { first_window, lines: Vec::new() };
    let seen = scan_back(&stored, size, &mut back).expect("the whole file");
    assert_eq!((seen.whole, seen.too_long), (true, 0));
    assert_eq!(seen.torn, bytes.last().is_some_and(|last| *last != b'\n'));
    back.lines.reverse();
    assert_eq!(back.lines, expected, "from the back");

    let expected: Vec<Vec<u8>> = expected.into_iter().map(|(line, _)| line).collect();
    let mut whole = Vec::new();
    scan_whole(&stored, |line| whole.push(line.strip_suffix(b"\r").unwrap_or(line).to_vec()))
        .expect("all lines");
    whole.retain(|line| !is_blank(line));
    assert_eq!(whole, expected, "as a whole");

    let mut head = Vec::new();
    let take = |piece: Piece<'_>| {
        match piece {
            Piece::Line(line) => head.push(line.to_vec()),
            Piece::Last(line) => head.push(line.strip_suffix(b"\r").unwrap_or(line).to_vec()),
            Piece::Fragment(_) => {}
        }
        ControlFlow::Continue(())
    };
    scan_head(&stored, size, (first_window, usize::MAX >> 1), take).expect("the head");
    head.retain(|line| !is_blank(line));
    assert_eq!(head, expected, "from the front");
}

/// What the quick walk accepts, the whole parser accepts, with the same members.
pub fn walker(line: &[u8]) {
    agentctl_adapters::fuzzing::quick_line(line);
    let mut members: Vec<(&[u8], &[u8])> = Vec::new();
    let walked = walk_line(line, |walk, key| {
        members.push((key, walk.value()?));
        Some(())
    });
    if walked.is_none() || std::str::from_utf8(line).is_err() {
        return;
    }
    let whole: Map<String, Value> = match serde_json::from_slice(line) {
        Ok(whole) => whole,
        // A number may be written well and be larger than any that can be kept.
        Err(error) if error.to_string().starts_with("number out of range") => return,
        Err(error) => panic!("what is walked is JSON: {error}"),
    };
    // Of two members with one name the last one counts.
    let mut named = Map::new();
    for (key, value) in members {
        let value: Value = match serde_json::from_slice(value) {
            Ok(value) => value,
            Err(error) => panic!("a value that is none: {error}"),
        };
        named.insert(String::from_utf8(key.to_vec()).expect("a plain key"), value);
    }
    assert_eq!(named, whole);
}

/// Some lines of every agent.
fn recorded_lines() -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for path in seeds::below(&seeds::recorded()) {
        if path.extension().is_some_and(|end| end == "jsonl") {
            let bytes = std::fs::read(&path).unwrap_or_default();
            let some = bytes.split(|byte| *byte == b'\n').filter(|line| (1..4096).contains(&line.len()));
            lines.extend(some.step_by(7).take(4).map(<[u8]>::to_vec));
        }
    }
    lines
}

pub fn walker_seeds() -> Vec<Vec<u8>> {
    recorded_lines()
}

pub fn windows_seeds() -> Vec<Vec<u8>> {
    let lines = recorded_lines();
    let head: [&[u8]; 3] = [&[0], &[1, 15], &[3, 7, 200, 90]];
    lines
        .chunks(3)
        .zip(head.into_iter().cycle())
        .map(|(lines, head)| [head, &lines.join(&b'\n')].concat())
        .collect()
}
