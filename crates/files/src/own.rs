//! agentctl's own directory and its files. Files that another user wrote or could have written are refused, and no link is
//! followed, because a user who once could write there may have left one.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::process::geteuid;

use crate::outside::{self, Entries};
use crate::trace::{self, Touched};

/// The mode bits that let the group and all other users pass through a directory.
const EVERYBODY: u32 = 0o011;

/// Why a directory is refused.
#[derive(Debug)]
pub enum FolderFault {
    /// It is a symbolic link, which another user could change.
    Link,
    NotAFolder,
    Foreign {
        owner: u32,
    },
    Io(io::Error),
}

impl fmt::Display for FolderFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link => out.write_str("must not be a symbolic link, which somebody else could turn"),
            Self::NotAFolder => out.write_str("is not a folder"),
            Self::Foreign { owner } => {
                write!(out, "belongs to another user (uid {owner}, not {})", geteuid().as_raw())
            }
            Self::Io(error) => error.fmt(out),
        }
    }
}

impl From<FolderFault> for io::Error {
    fn from(fault: FolderFault) -> Self {
        match fault {
            FolderFault::Io(error) => error,
            fault => Self::new(ErrorKind::PermissionDenied, fault.to_string()),
        }
    }
}

/// Whether the directory exists. A directory that another user could have prepared is an error.
pub fn folder(path: &Path) -> Result<bool, FolderFault> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(false);
        }
        Err(error) => return Err(FolderFault::Io(error)),
    };
    if found.is_symlink() {
        return Err(FolderFault::Link);
    }
    if !found.is_dir() {
        return Err(FolderFault::NotAFolder);
    }
    if found.uid() != geteuid().as_raw() {
        return Err(FolderFault::Foreign { owner: found.uid() });
    }
    Ok(true)
}

/// The directory to read from; `None` where it does not exist. A link that this user made to a directory of this user is
/// followed, because no other user can have made it.
pub fn readable_folder(path: &Path) -> Result<Option<PathBuf>, FolderFault> {
    let is_our_link = |found: Metadata| found.is_symlink() && found.uid() == geteuid().as_raw();
    let real = if fs::symlink_metadata(path).is_ok_and(is_our_link) {
        match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FolderFault::Io(error)),
        }
    } else {
        path.to_owned()
    };
    match folder(&real) {
        Ok(there) => Ok(there.then_some(real)),
        // There is nothing to read. A caller that wants to write gets the error.
        Err(FolderFault::NotAFolder) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Makes a directory for this user alone, and its missing parents. An existing directory is accepted if it is ours.
pub fn make_folder(path: &Path) -> io::Result<()> {
    if !folder(path)? {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        // Another user may have made it in the meantime.
        folder(path)?;
    }
    Ok(())
}

/// The entries of a directory of ours. An entry may belong to another user, which is checked when it is opened.
pub fn entries(path: &Path) -> io::Result<Entries> {
    if folder(path)? { outside::entries(path) } else { Err(ErrorKind::NotFound.into()) }
}

/// Opens a file of ours for reading.
pub fn open(path: &Path) -> io::Result<File> {
    opened(path, OFlags::RDONLY).map(|(file, _)| file)
}

/// Reads a whole file of ours.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, metadata) = opened(path, OFlags::RDONLY)?;
    outside::whole(&file, metadata.len(), limit)
}

/// The same, as text.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    outside::text(read(path, limit)?)
}

/// Reads a file that the user writes and may keep elsewhere: a link that this user made is followed. Its target must belong
/// to this user too, and no other user may be able to write it.
pub fn read_kept_elsewhere(path: &Path, limit: u64) -> io::Result<String> {
    let link = fs::symlink_metadata(path)?;
    if !link.is_symlink() || link.uid() != geteuid().as_raw() {
        return read_text(path, limit);
    }
    // The link may lead anywhere, so its target is opened like any path that is not ours.
    let (file, metadata) = outside::open_regular(path)?;
    refuse_untrusted(&metadata, EVERYBODY)?;
    outside::text(outside::whole(&file, metadata.len(), limit)?)
}

/// Opens a file for appending, and creates it if it does not exist.
pub fn append(path: &Path) -> io::Result<File> {
    opened(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE).map(|(file, _)| file)
}

/// Opens a file for writing or locking without truncating it, and creates it if it does not exist.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    opened(path, OFlags::WRONLY | OFlags::CREATE).map(|(file, _)| file)
}

/// Creates a file that must not exist yet.
pub fn create_new(path: &Path) -> io::Result<File> {
    opened(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL).map(|(file, _)| file)
}

/// Creates a new, empty file. Whatever had this name is unlinked, and its contents are not touched.
pub fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => create_new(path),
    }
}

/// Opens a file through the descriptor of its directory, so the directory cannot be replaced in between. Never blocks.
fn opened(path: &Path, how: OFlags) -> io::Result<(File, Metadata)> {
    let (folder, reach) = folder_of(path)?;
    let name = path.file_name().ok_or_else(|| refusal("names no file".to_owned()))?;
    let file = open_in(&folder, name, how)?;
    let metadata = file.metadata()?;
    outside::refuse_others(metadata.file_type())?;
    refuse_untrusted(&metadata, reach)?;
    // A second name, which another user may have chosen, would receive what is written too.
    if how.intersects(OFlags::WRONLY | OFlags::RDWR) && metadata.nlink() > 1 {
        return Err(refusal("has a second name (a hard link) and is not written; take it away".to_owned()));
    }
    trace::touched(path, Touched::File);
    Ok((file, metadata))
}

fn open_in(folder: &File, name: &OsStr, how: OFlags) -> io::Result<File> {
    let always = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match openat(folder, name, how | always, Mode::from_raw_mode(0o600)) {
        Ok(file) => Ok(file.into()),
        Err(rustix::io::Errno::LOOP) => {
            Err(refusal("is a symbolic link, which is not followed here; take it away".to_owned()))
        }
        // This is a FIFO without a reader.
        Err(rustix::io::Errno::NXIO) => Err(io::Error::new(ErrorKind::InvalidInput, "is not a regular file")),
        Err(error) => Err(error.into()),
    }
}

/// Opens the directory of a file of ours, and returns which other users may pass through it.
fn folder_of(path: &Path) -> io::Result<(File, u32)> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let named = |why: &dyn fmt::Display| refusal(format!("its folder {} {why}", parent.display()));
    let folder = match openat(rustix::fs::CWD, parent, flags, Mode::empty()) {
        Ok(folder) => File::from(folder),
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR)
            if fs::symlink_metadata(parent).is_ok_and(|found| found.is_symlink()) =>
        {
            return Err(named(&FolderFault::Link));
        }
        Err(error) => return Err(error.into()),
    };
    let found = folder.metadata()?;
    if found.uid() != geteuid().as_raw() {
        return Err(named(&FolderFault::Foreign { owner: found.uid() }));
    }
    Ok((folder, found.mode() & EVERYBODY))
}

/// Refuses a file of another user, except of root, who could write any file. A file that others may write is refused if
/// `reach`, the mode of its directory, lets them get to it.
fn refuse_untrusted(file: &Metadata, reach: u32) -> io::Result<()> {
    let owner = file.uid();
    if owner != geteuid().as_raw() && owner != 0 {
        let why = format!("belongs to another user (uid {owner}) and is not believed");
        return Err(refusal(format!("{why}; look into it, then take it away or `chown` it")));
    }
    let writable = (file.mode() & 0o022) >> 1;
    if writable & reach != 0 {
        let why = "can be written by other users and is not believed";
        return Err(refusal(format!("{why}; look into it, then `chmod go-w` it and its folder")));
    }
    Ok(())
}

fn refusal(why: String) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, why)
}
