//! The file itself: a tar archive, compressed with zstd. Its parts have numbers and no names, so that no path of it is
//! ever used: `manifest.json`, then `f/0`, `f/1` and so on, all of them regular files.

use std::io::{self, Read};
use std::path::Path;

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tar::{Archive, Builder, EntryType, Header};

/// The largest file that is read.
pub const LARGEST_FILE: u64 = 256 << 20;
/// How much all parts together may be.
pub const LARGEST_WHOLE: u64 = 512 << 20;
/// How much one part may be, the manifest included.
pub const LARGEST_PART: u64 = 64 << 20;
/// How many parts there may be.
pub const MOST_PARTS: usize = 20_000;
/// A snapshot that expands by more than this factor is none, unless it is still small.
const LARGEST_RATIO: u64 = 2048;
const LITTLE: u64 = 64 << 20;

const MANIFEST: &str = "manifest.json";

/// The parts of a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub struct Parts {
    pub manifest: Vec<u8>,
    pub files: Vec<Vec<u8>>,
}

/// Whether these bytes are a database. None is ever packed, and none is accepted: its schema could hold anything.
pub(crate) fn is_database(bytes: &[u8]) -> bool {
    bytes.starts_with(b"SQLite format 3\0")
}

/// Whether a path is that of a log or an index that SQLite keeps beside a database.
pub(crate) fn is_beside_a_database(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    [&b"-wal"[..], b"-shm", b"-journal"].iter().any(|end| name.ends_with(end))
}

fn bad(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// Packs the parts into one file.
pub fn pack(parts: &Parts) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    let mut add = |name: &str, bytes: &[u8]| {
        let mut header = Header::new_ustar();
        header.set_size(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        header.set_mode(0o600);
        header.set_entry_type(EntryType::Regular);
        builder.append_data(&mut header, name, bytes)
    };
    add(MANIFEST, &parts.manifest)?;
    for (number, bytes) in parts.files.iter().enumerate() {
        add(&format!("f/{number}"), bytes)?;
    }
    let archive = builder.into_inner()?;
    Ok(compress_to_vec(archive.as_slice(), CompressionLevel::Fastest))
}

/// Reads the parts of a file that may come from anybody.
pub fn unpack(file: &[u8]) -> io::Result<Parts> {
    let size = u64::try_from(file.len()).unwrap_or(u64::MAX);
    let limit = size.saturating_mul(LARGEST_RATIO).clamp(LITTLE, LARGEST_WHOLE);
    let decoder = StreamingDecoder::new(file).map_err(|_| bad("it is no snapshot of agentctl"))?;
    let mut archive = Archive::new(Bounded { source: decoder, left: limit });
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for entry in archive.entries()?.raw(true) {
        let entry = entry?;
        if entry.header().entry_type() != EntryType::Regular {
            return Err(bad("it holds something that is no file"));
        }
        let expected = match parts.len() {
            0 => MANIFEST.to_owned(),
            number => format!("f/{}", number - 1),
        };
        if *entry.path_bytes() != *expected.as_bytes() {
            return Err(bad(format!("part {} is not called {expected}", parts.len())));
        }
        let claimed = entry.size();
        if claimed > LARGEST_PART || parts.len() >= MOST_PARTS {
            return Err(bad("it is too large"));
        }
        let mut bytes = Vec::new();
        entry.take(LARGEST_PART).read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).ok() != Some(claimed) {
            return Err(bad("it was cut off"));
        }
        parts.push(bytes);
    }
    if parts.is_empty() {
        return Err(bad("it is empty"));
    }
    let manifest = parts.remove(0);
    Ok(Parts { manifest, files: parts })
}

/// Gives at most so many bytes; more of them are an error.
struct Bounded<R> {
    source: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.left = self
            .left
            .checked_sub(u64::try_from(read).unwrap_or(u64::MAX))
            .ok_or_else(|| bad("it expands to more than a snapshot holds"))?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(archive: &[u8]) -> Vec<u8> {
        compress_to_vec(archive, CompressionLevel::Fastest)
    }

    /// An archive with one entry of this kind and name behind a manifest.
    fn with_entry(kind: EntryType, name: &str, link: Option<&str>) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        let mut header = Header::new_ustar();
        header.set_size(2);
        header.set_entry_type(EntryType::Regular);
        builder.append_data(&mut header, MANIFEST, &b"{}"[..]).unwrap();
        let mut header = Header::new_ustar();
        header.set_size(0);
        header.set_entry_type(kind);
        // The library refuses such names, so they are written directly.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        if let Some(link) = link {
            header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        }
        header.set_cksum();
        builder.append(&header, &b""[..]).unwrap();
        packed(&builder.into_inner().unwrap())
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let parts =
            Parts { manifest: b"{}".to_vec(), files: vec![b"one".to_vec(), Vec::new(), vec![7; 100_000]] };
        assert_eq!(unpack(&pack(&parts).unwrap()).unwrap(), parts);
    }

    #[test]
    fn nothing_but_numbered_files_is_accepted() {
        assert!(unpack(&with_entry(EntryType::Regular, "f/0", None)).is_ok());
        for name in ["../../etc/passwd", "/etc/passwd", "f/../../x", "f/1", "f/00", "x", "f/0/"] {
            assert!(unpack(&with_entry(EntryType::Regular, name, None)).is_err(), "{name}");
        }
        for kind in [
            EntryType::Symlink,
            EntryType::Link,
            EntryType::Directory,
            EntryType::Fifo,
            EntryType::Char,
            EntryType::GNULongName,
            EntryType::XHeader,
            EntryType::GNUSparse,
        ] {
            assert!(unpack(&with_entry(kind, "f/0", Some("/etc/passwd"))).is_err(), "{kind:?}");
        }
    }

    #[test]
    fn garbage_and_halves_and_bombs_are_errors() {
        assert!(unpack(b"").is_err());
        assert!(unpack(b"garbage that is no archive at all").is_err());
        let whole = pack(&Parts { manifest: vec![b' '; 5000], files: vec![vec![b'x'; 300_000]] }).unwrap();
        for end in [1, 4, 20, whole.len() / 2, whole.len() - 5] {
            assert!(unpack(&whole[..end]).is_err(), "{end} of {} bytes", whole.len());
        }
        for at in (0..whole.len()).step_by(whole.len() / 64 + 1) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            // It may still be a snapshot; it never panics.
            let _ = unpack(&damaged);
        }
        // A part that claims to be larger than it is, and one that is too large.
        let mut builder = Builder::new(Vec::new());
        let mut header = Header::new_ustar();
        header.set_path(MANIFEST).unwrap();
        header.set_size(LARGEST_PART + 1);
        header.set_entry_type(EntryType::Regular);
        header.set_cksum();
        builder.append(&header, &b"{}"[..]).unwrap();
        assert!(unpack(&packed(&builder.into_inner().unwrap())).is_err());
        let bomb = packed(&vec![0; 80 << 20]);
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        let error = unpack(&bomb).unwrap_err();
        assert!(error.to_string().contains("empty") || error.to_string().contains("expands"), "{error}");
    }
}
