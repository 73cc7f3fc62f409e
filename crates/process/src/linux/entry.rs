//! One open `/proc/PID` directory.
//!
//! The kernel ties an open `/proc/PID` directory to the process and not to the number: once the process is reaped, every
//! read through it fails with "no such process", even when the pid was reused. All reads of one inspection go through one
//! [`Entry`], so they cannot mix two processes.

use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, ResolveFlags, fstat, openat, openat2, readlinkat, statat};
use rustix::io::Errno;

use super::stat::Stat;

/// Why a process could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookError {
    /// The process does not exist any more.
    Gone,
    /// The process exists, and this user may not read it.
    Denied(Errno),
    /// The process is loading a program and has no arguments or variables yet.
    Loading,
    /// The read itself failed (for example, no file descriptors are left), which says nothing about the process.
    Failed(Errno),
}

impl From<Errno> for LookError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::SRCH => Self::Gone,
            Errno::ACCESS | Errno::PERM => Self::Denied(error),
            _ => Self::Failed(error),
        }
    }
}

impl LookError {
    /// The reason for the user why `what` could not be read.
    pub(super) fn describe(self, what: &str) -> String {
        match self {
            Self::Gone => format!("there is no {what}"),
            Self::Loading => format!("there is no {what} yet, its program is being loaded"),
            Self::Denied(error) | Self::Failed(error) => {
                format!("cannot read {what}: {}", std::io::Error::from(error))
            }
        }
    }
}

/// The size of one read. Nearly every procfs file fits, so one read is enough.
const CHUNK: usize = 16 * 1024;

/// Loading a program takes less than a millisecond, unless it must be read from a slow disk.
const ATTEMPTS_WHILE_LOADING: usize = 200;
const RETRY_INTERVAL: Duration = Duration::from_micros(100);

/// The identity of a file, independent of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl From<rustix::fs::Stat> for FileId {
    fn from(stat: rustix::fs::Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

#[derive(Debug)]
pub(super) struct Entry(OwnedFd);

impl Entry {
    /// Opens the entry `name` (a pid, or a thread id) of the directory `parent`.
    pub(super) fn open(parent: impl AsFd, name: impl rustix::path::Arg) -> Result<Self, LookError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(openat(parent, name, flags, Mode::empty())?))
    }

    /// The effective user id; the kernel shows it as the owner of the directory.
    pub(super) fn uid(&self) -> Option<u32> {
        fstat(&self.0).ok().map(|stat| stat.st_uid)
    }

    /// The directory to which this path leads the process, from its own root or its working directory.
    pub(super) fn folder_within(&self, path: &Path) -> Result<FileId, LookError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let start = |link: &str| openat(&self.0, link, flags, Mode::empty());
        let folder = if path.is_absolute() {
            openat2(start("root")?, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?
        } else {
            openat(start("cwd")?, path, flags, Mode::empty())?
        };
        Ok(fstat(folder)?.into())
    }

    pub(super) fn stat(&self, buffer: &mut Vec<u8>) -> Result<Stat, LookError> {
        self.read("stat", buffer)?;
        Stat::parse(buffer).ok_or(LookError::Failed(Errno::ILSEQ))
    }

    /// Reads a whole file of the entry into `buffer`, replacing what was in it.
    pub(super) fn read(&self, name: impl rustix::path::Arg, buffer: &mut Vec<u8>) -> Result<(), LookError> {
        let file = openat(&self.0, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        buffer.clear();
        loop {
            buffer.reserve(CHUNK);
            let room = buffer.spare_capacity_mut().len();
            let read = match rustix::io::read(&file, rustix::buffer::spare_capacity(buffer)) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            // These files return everything in one read, so a short read is the end.
            if read < room {
                return Ok(());
            }
        }
    }

    /// Reads a table that the kernel returns in pieces, to its end.
    pub(super) fn read_to_end(&self, name: &str, buffer: &mut Vec<u8>) -> Result<(), LookError> {
        use std::io::Read;
        let file = openat(&self.0, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        buffer.clear();
        match std::fs::File::from(file).read_to_end(buffer) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error).into()),
        }
    }

    /// Reads a file that is empty until the program is loaded: the arguments or the variables. Both are empty for a moment
    /// during `execve`, and a process that was just launched is often read at that moment, so this retries.
    pub(super) fn read_loaded(&self, name: &str, buffer: &mut Vec<u8>) -> Result<(), LookError> {
        for _ in 0..ATTEMPTS_WHILE_LOADING {
            self.read(name, buffer)?;
            if !buffer.is_empty() {
                return Ok(());
            }
            let loading = self.stat(buffer)?.may_be_loading();
            buffer.clear();
            if !loading {
                // Loading may have finished between the two reads.
                return self.read(name, buffer);
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
        Err(LookError::Loading)
    }

    pub(super) fn link(&self, name: impl rustix::path::Arg) -> Result<PathBuf, LookError> {
        let target = readlinkat(&self.0, name, Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// The target of the link, without the ` (deleted)` that the kernel appends to the path of an unlinked file.
    pub(super) fn link_even_if_deleted(&self, name: &str) -> Result<PathBuf, LookError> {
        let target = self.link(name)?;
        Ok(match without_deleted_mark(&target) {
            Some(former) if !self.leads_to(name, &target) => former,
            _ => target,
        })
    }

    /// Whether the link leads to the file at this path: then ` (deleted)` is part of its real name.
    fn leads_to(&self, name: &str, path: &Path) -> bool {
        let there = rustix::fs::stat(path).map(FileId::from);
        matches!((self.target_of(name), there), (Ok(here), Ok(there)) if here == there)
    }

    /// The identity of the file to which a link leads, even if the file was unlinked.
    pub(super) fn target_of(&self, name: &str) -> Result<FileId, LookError> {
        Ok(statat(&self.0, name, AtFlags::empty())?.into())
    }

    /// The numeric names in a subdirectory: threads or file descriptors.
    pub(super) fn numbers(&self, folder: &str) -> Result<Vec<u32>, LookError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        numbers(openat(&self.0, folder, flags, Mode::empty())?)
    }

    /// The entry that still has memory and files, if that is not this one: when the first thread has exited, it is the entry
    /// of a live thread.
    pub(super) fn body(&self, stat: &Stat, buffer: &mut Vec<u8>) -> Result<Option<Self>, LookError> {
        if !stat.is_hollow() {
            return Ok(None);
        }
        for thread in self.numbers("task")? {
            match Self::open(&self.0, format!("task/{thread}")) {
                Ok(entry) if entry.stat(buffer).is_ok_and(|stat| !stat.is_hollow()) => {
                    return Ok(Some(entry));
                }
                Ok(_) | Err(LookError::Gone) => {}
                Err(other) => return Err(other),
            }
        }
        Err(LookError::Gone)
    }
}

/// The numeric names in an open directory, in the kernel's order.
pub(super) fn numbers(folder: impl AsFd) -> Result<Vec<u32>, LookError> {
    let mut buffer = [MaybeUninit::uninit(); CHUNK];
    let mut entries = RawDir::new(folder, &mut buffer);
    let mut numbers = Vec::new();
    while let Some(entry) = entries.next() {
        numbers.extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

fn without_deleted_mark(path: &Path) -> Option<PathBuf> {
    let bytes = path.as_os_str().as_encoded_bytes().strip_suffix(b" (deleted)")?;
    Some(PathBuf::from(OsString::from_vec(bytes.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_deleted_mark_at_the_end_is_taken_off() {
        assert_eq!(without_deleted_mark(Path::new("/b/claude (deleted)")), Some(PathBuf::from("/b/claude")));
        assert_eq!(without_deleted_mark(Path::new("/b/claude")), None);
        assert_eq!(without_deleted_mark(Path::new("/b (deleted)/claude")), None);
    }

    #[test]
    fn running_out_of_descriptors_says_nothing_about_the_process() {
        assert_eq!(LookError::from(Errno::MFILE), LookError::Failed(Errno::MFILE));
        assert_eq!(LookError::from(Errno::SRCH), LookError::Gone);
        assert_eq!(LookError::from(Errno::ACCESS), LookError::Denied(Errno::ACCESS));
    }
}
