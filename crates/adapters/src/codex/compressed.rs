//! Rollouts that the agent has compressed (`.jsonl.zst`): decoded from the front, keeping only both ends.

use std::io::{self, Read};

use ruzstd::decoding::StreamingDecoder;

use crate::Progress;

/// How much of each end is kept of a rollout that is larger than both.
const KEPT: usize = 8 << 20;
/// A file that decodes to more than this is no rollout.
const LIMIT: u64 = 4 << 30;
const CHUNK: usize = 256 << 10;

/// The beginning and the end of what was compressed; one and the same where it is small.
pub(super) struct BothEnds {
    head: Option<Vec<u8>>,
    tail: Vec<u8>,
}

impl BothEnds {
    pub(super) fn head(&self) -> &[u8] {
        self.head.as_deref().unwrap_or(&self.tail)
    }

    pub(super) fn tail(&self) -> &[u8] {
        &self.tail
    }
}

/// Decodes a compressed rollout in bounded memory.
pub(super) fn decode(source: impl Read, progress: &Progress) -> io::Result<BothEnds> {
    let damaged = |words: String| io::Error::new(io::ErrorKind::InvalidData, words);
    let mut decoder =
        StreamingDecoder::new(source).map_err(|error| damaged(format!("cannot be decompressed: {error}")))?;
    let mut ends = BothEnds { head: None, tail: Vec::new() };
    let mut chunk = vec![0; CHUNK];
    let mut so_far = 0;
    loop {
        let got = decoder.read(&mut chunk)?;
        if got == 0 {
            return Ok(ends);
        }
        progress.tick();
        so_far += got as u64;
        if so_far > LIMIT {
            return Err(damaged(format!("is larger than {LIMIT} bytes when decompressed")));
        }
        ends.tail.extend_from_slice(&chunk[..got]);
        if ends.tail.len() > 2 * KEPT {
            if ends.head.is_none() {
                ends.head = Some(ends.tail[..KEPT].to_vec());
            }
            ends.tail.drain(..ends.tail.len() - KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn both_ends_of(plain: &[u8]) -> BothEnds {
        let packed = compress_to_vec(plain, CompressionLevel::Fastest);
        decode(packed.as_slice(), &Progress::default()).unwrap()
    }

    #[test]
    fn a_small_rollout_is_whole_at_both_ends() {
        let ends = both_ends_of(b"one\ntwo\n");
        assert_eq!((ends.head(), ends.tail()), (&b"one\ntwo\n"[..], &b"one\ntwo\n"[..]));
    }

    #[test]
    fn a_large_one_keeps_its_ends_in_bounded_memory() {
        let mut plain = b"first\n".to_vec();
        plain.resize(5 * KEPT, b'x');
        plain.extend(b"\nlast\n");
        let ends = both_ends_of(&plain);
        assert!(ends.head().starts_with(b"first\n") && ends.tail().ends_with(b"\nlast\n"));
        assert!(ends.tail.len() <= 2 * KEPT && ends.head().len() == KEPT);
    }

    #[test]
    fn a_cut_or_foreign_file_is_an_error_and_not_half_a_session() {
        let packed = compress_to_vec(&b"one\ntwo\n"[..], CompressionLevel::Fastest);
        for bytes in [&packed[..packed.len() - 3], b"not zstd", b""] {
            assert!(decode(bytes, &Progress::default()).is_err());
        }
    }
}
