//! Access to paths that are not agentctl's own: those of agents, repositories and the user.

use std::fs::{self, DirEntry, File, FileType, Metadata, ReadDir};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::trace::{self, Touched};

/// No agent stores so many entries in one directory, but a file system can invent entries without end.
const MAX_ENTRIES: usize = 1 << 20;

/// Opens a regular file without blocking. For anything else the error says what it is.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let file =
        File::options().read(true).custom_flags(flags(OFlags::NONBLOCK | OFlags::NOCTTY)).open(path)?;
    let metadata = file.metadata()?;
    refuse_others(metadata.file_type())?;
    trace::touched(path, Touched::File);
    Ok((file, metadata))
}

/// Whether this kernel alone serves the file, so that its times change whenever its bytes do. Files of a server, and of a
/// program that plays a file system, change without this kernel.
#[cfg(target_os = "linux")]
pub fn is_served_here(file: &File) -> bool {
    /// The numbers by which `statfs` names bcachefs, btrfs, ext2 to ext4, f2fs, overlayfs, tmpfs, XFS and ZFS.
    const OF_THIS_KERNEL: [u64; 8] =
        [0xca45_1a4e, 0x9123_683e, 0xef53, 0xf2f5_2010, 0x794c_7630, 0x0102_1994, 0x5846_5342, 0x2fc1_2fc1];
    let kind = rustix::fs::fstatfs(file).ok().and_then(|found| u64::try_from(found.f_type).ok());
    kind.is_some_and(|kind| OF_THIS_KERNEL.contains(&kind))
}

/// Elsewhere it is not known.
#[cfg(not(target_os = "linux"))]
pub fn is_served_here(_: &File) -> bool {
    false
}

pub(crate) fn refuse_others(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    let what = if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("is {what}, not a regular file")))
}

/// Reads a whole small file. A larger file is an error, because half of a file may mean something else than the whole.
pub fn read_small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, metadata) = open_regular(path)?;
    whole(&file, metadata.len(), limit)
}

/// The same, as text.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    text(read_small(path, limit)?)
}

/// Reads at most `most` bytes from the beginning of a file.
pub fn read_beginning(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, _) = open_regular(path)?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Copies a small file and its modification time into a new file that only its owner can read.
pub fn copy_small(from: &Path, to: &Path, limit: u64) -> io::Result<u64> {
    let (file, metadata) = open_regular(from)?;
    if metadata.len() > limit {
        return Err(too_large(limit));
    }
    let mut copy = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    let copied = io::copy(&mut (&file).take(limit + 1), &mut copy)?;
    // The file may have grown meanwhile.
    if copied > limit {
        return Err(too_large(limit));
    }
    copy.set_modified(metadata.modified()?)?;
    Ok(copied)
}

pub(crate) fn whole(file: &File, size: u64, limit: u64) -> io::Result<Vec<u8>> {
    if size > limit {
        return Err(too_large(limit));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // The size may be wrong: some files report zero and are not empty, and others grow while they are read.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit { Err(too_large(limit)) } else { Ok(bytes) }
}

pub(crate) fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "is not UTF-8"))
}

fn too_large(limit: u64) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, format!("is larger than {limit} bytes"))
}

/// Writes a file to a path that the user chose. An existing file is replaced, and a link is never followed.
pub fn write_anew(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => File::options().write(true).create_new(true).open(path)?.write_all(bytes),
    }
}

/// Writes a new file to a path that the user chose, for this user alone. An existing file is left as it is.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    File::options().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

/// Opens a directory, to lock or sync it. Anything else is an error, without blocking.
pub fn open_folder(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(flags(OFlags::DIRECTORY | OFlags::NONBLOCK)).open(path)
}

/// The entries of a directory, in the order of the file system.
pub fn entries(folder: &Path) -> io::Result<Entries> {
    let entries = Some(fs::read_dir(folder)?);
    trace::touched(folder, Touched::Folder);
    Ok(Entries { entries, left: MAX_ENTRIES })
}

/// The entries of one directory. After the maximum number of entries the iterator returns one error and ends.
#[derive(Debug)]
pub struct Entries {
    entries: Option<ReadDir>,
    left: usize,
}

impl Iterator for Entries {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.as_mut()?.next()?;
        if self.left == 0 {
            self.entries = None;
            return Some(Err(io::Error::other(format!("holds more than {MAX_ENTRIES} entries"))));
        }
        self.left -= 1;
        Some(entry)
    }
}

/// The path without links and dots. A file system that does not answer blocks this call; [`within`](crate::within) does not
/// block.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// Converts the flags to the C type that the standard library takes.
pub(crate) fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}
