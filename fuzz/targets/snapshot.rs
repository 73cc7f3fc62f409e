//! A snapshot from others: it is read within its bounds or refused, and what is read can be packed and read again.
#![no_main]

use agentctl_snapshot::archive::{LARGEST_PART, MOST_PARTS, Parts, pack, unpack};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    if let Ok(parts) = unpack(file) {
        assert!(parts.files.len() < MOST_PARTS);
        assert!(parts.files.iter().all(|part| part.len() as u64 <= LARGEST_PART));
        assert_eq!(unpack(&pack(&parts).unwrap()).unwrap(), parts);
    }
    // The same bytes as the contents of one.
    let parts = Parts { manifest: file.to_vec(), files: file.chunks(97).map(<[u8]>::to_vec).collect() };
    if parts.files.len() < MOST_PARTS - 1 {
        assert_eq!(unpack(&pack(&parts).unwrap()).unwrap(), parts);
    }
});
