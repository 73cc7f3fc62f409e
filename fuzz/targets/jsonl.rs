//! The windows of a JSONL file: read backwards from a file, backwards from memory and forwards, the lines are the same.
#![no_main]

use std::io;
use std::ops::ControlFlow;

use agentctl_adapters::transcript::jsonl::whole::scan_whole;
use agentctl_adapters::transcript::jsonl::{ReadAt, Scan, scan_back};
use libfuzzer_sys::fuzz_target;

/// Bytes that must be read in windows, as those of a file.
struct Stored<'a>(&'a [u8]);

impl ReadAt for Stored<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}

#[derive(Default)]
struct Collect(Vec<Vec<u8>>);

impl Scan for Collect {
    fn line(&mut self, line: &[u8], _: u64) -> ControlFlow<()> {
        self.0.push(line.to_vec());
        ControlFlow::Continue(())
    }
}

fn plain(line: &[u8]) -> Option<Vec<u8>> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    (!line.iter().all(u8::is_ascii_whitespace)).then(|| line.to_vec())
}

fuzz_target!(|input: &[u8]| {
    // The first byte says how often the rest is repeated, so that short inputs reach the larger windows.
    let Some((times, text)) = input.split_first() else { return };
    let bytes = text.repeat(1 + usize::from(*times));
    let back = |source: &dyn ReadAt| {
        let mut collect = Collect::default();
        let seen = scan_back(source, bytes.len() as u64, &mut collect).unwrap();
        assert!(seen.whole && seen.too_long == 0);
        collect.0
    };
    let (stored, memory) = (back(&Stored(&bytes)), back(&bytes.as_slice()));
    assert_eq!(stored, memory);
    let mut forward = Vec::new();
    scan_whole(&Stored(&bytes), |line| forward.extend(plain(line))).unwrap();
    forward.reverse();
    assert_eq!(stored, forward);
});
