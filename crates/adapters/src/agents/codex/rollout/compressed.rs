//! Rollouts that the agent has compressed (`.jsonl.zst`). They are decoded from the front, and only both ends
//! are kept.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use crate::Progress;
use crate::transcript::jsonl::ReadAt;
use crate::transcript::read::BothEnds;

/// How many bytes of each end are kept when a rollout is larger than both together.
const KEPT: usize = 8 << 20;
/// A file that decodes to more than this is not a rollout.
const LIMIT: u64 = 1 << 30;
/// A file that expands by more than this factor is not a rollout either, unless its decoded size is still
/// small.
const LARGEST_RATIO: u64 = 256;
const LITTLE: u64 = 64 << 20;
const CHUNK: usize = 256 << 10;

type Decoder<R> = StreamingDecoder<R, FrameDecoder>;

fn damaged(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words)
}

fn decoder<R: Read>(source: R) -> io::Result<Decoder<R>> {
    StreamingDecoder::new(source).map_err(|error| damaged(format!("cannot be decompressed: {error}")))
}

/// How much a file of this size may decode to.
fn limit_of(size: u64) -> u64 {
    size.saturating_mul(LARGEST_RATIO).clamp(LITTLE, LIMIT)
}

/// All bytes of a compressed rollout, which can be read once, from the beginning to the end.
pub(crate) struct Unpacked {
    /// The decoder, and how many bytes it has given.
    decoder: RefCell<(Decoder<File>, u64)>,
    limit: u64,
}

impl Unpacked {
    pub(crate) fn open(file: File, size: u64) -> io::Result<Self> {
        let mut file = file;
        io::Seek::rewind(&mut file)?;
        Ok(Self { decoder: RefCell::new((decoder(file)?, 0)), limit: limit_of(size) })
    }
}

impl ReadAt for Unpacked {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut decoder = self.decoder.borrow_mut();
        let (decoder, given) = &mut *decoder;
        if offset != *given {
            return Err(io::Error::other("a compressed file is read from its beginning"));
        }
        let got = decoder.read(buffer)?;
        *given += got as u64;
        if *given > self.limit {
            return Err(damaged(format!("is more than {} MiB when decompressed", self.limit >> 20)));
        }
        Ok(got)
    }
}

/// Decodes a compressed rollout of `size` bytes in bounded memory and time.
pub(crate) fn decode(source: impl Read, size: u64, progress: &Progress) -> io::Result<BothEnds> {
    let limit = limit_of(size);
    let mut decoder = decoder(source)?;
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
        if so_far > limit {
            return Err(damaged(format!("is more than {} MiB when decompressed", limit >> 20)));
        }
        if progress.is_given_up() {
            return Err(io::Error::other("nobody waits for it any more"));
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
        decode(packed.as_slice(), packed.len() as u64, &Progress::default()).unwrap()
    }

    #[test]
    fn a_small_rollout_is_whole_at_both_ends() {
        let ends = both_ends_of(b"one\ntwo\n");
        assert_eq!((ends.head(), ends.tail.as_slice()), (&b"one\ntwo\n"[..], &b"one\ntwo\n"[..]));
    }

    #[test]
    fn a_large_one_keeps_its_ends_in_bounded_memory() {
        let mut plain = b"first\n".to_vec();
        plain.resize(5 * KEPT, b'x');
        plain.extend(b"\nlast\n");
        let ends = both_ends_of(&plain);
        assert!(ends.head().starts_with(b"first\n") && ends.tail.as_slice().ends_with(b"\nlast\n"));
        assert!(ends.tail.len() <= 2 * KEPT && ends.head().len() == KEPT);
    }

    /// A frame of blocks that each repeat one byte a hundred thousand times.
    fn bomb(plain: u64) -> Vec<u8> {
        const BLOCK: u64 = 128 << 10;
        // Magic number; no checksum, no size; a window of 128 KiB.
        let mut packed = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 7 << 3];
        let blocks = plain / BLOCK;
        for block in 0..blocks {
            // The last block sets its flag; each block repeats one byte.
            let header = u32::from(block + 1 == blocks) | 1 << 1 | u32::try_from(BLOCK).unwrap() << 3;
            packed.extend(&header.to_le_bytes()[..3]);
            packed.push(b'x');
        }
        packed
    }

    #[test]
    fn a_bomb_is_put_out_early_and_nobody_waits_for_one() {
        let packed = bomb(32 << 20);
        let decoded = |packed: &[u8], progress: &Progress| decode(packed, packed.len() as u64, progress);
        assert!(decoded(&packed, &Progress::default()).is_ok(), "it is well-formed, and little");
        let packed = bomb(2 << 30);
        let progress = Progress::default();
        let error = decoded(&packed, &progress).err().unwrap();
        assert!(error.to_string().contains("is more than 64 MiB"), "{error} of {} bytes", packed.len());
        assert!(progress.count() <= 2 * LITTLE / CHUNK as u64, "{}", progress.count());
        progress.give_up();
        let before = progress.count();
        assert!(decoded(&packed, &progress).is_err() && progress.count() <= before + 1);
    }

    #[test]
    fn a_cut_or_foreign_file_is_an_error_and_not_half_a_session() {
        let packed = compress_to_vec(&b"one\ntwo\n"[..], CompressionLevel::Fastest);
        for bytes in [&packed[..packed.len() - 3], b"not zstd", b""] {
            assert!(decode(bytes, bytes.len() as u64, &Progress::default()).is_err());
        }
    }
}
