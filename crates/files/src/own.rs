//! agentctl's own folder and what lies in it. Nothing in it is believed that somebody else wrote or could have written,
//! and no link is followed: whoever could once write there may have left one.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::process::geteuid;

use crate::outside::{self, Entries};

/// Who may pass through a folder, as bits of its mode: its group and all others.
const EVERYBODY: u32 = 0o011;

/// Why a folder is not taken for ours.
#[derive(Debug)]
pub enum FolderFault {
    /// Somebody else could turn it.
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

/// Whether the folder is there. One that somebody else could have prepared is refused.
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

/// The folder to read from; `None` where there is none. A link that we made ourselves, to a folder of ours, is as good as the
/// folder: nobody else can have made it.
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
        // There is nothing in it that could be believed; whoever wants to write says what is wrong.
        Err(FolderFault::NotAFolder) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Makes a folder of ours, for us alone, with those above it. One that is there already is taken if it is ours.
pub fn make_folder(path: &Path) -> io::Result<()> {
    if !folder(path)? {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        // Somebody may have been faster, and not with a folder of ours.
        folder(path)?;
    }
    Ok(())
}

/// What lies in a folder of ours. Anything in it may be somebody else's: that shows when it is opened.
pub fn entries(path: &Path) -> io::Result<Entries> {
    if folder(path)? { outside::entries(path) } else { Err(ErrorKind::NotFound.into()) }
}

/// Opens a file of ours for reading.
pub fn open(path: &Path) -> io::Result<File> {
    opened(path, OFlags::RDONLY).map(|(file, _)| file)
}

/// A file of ours, whole.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, metadata) = opened(path, OFlags::RDONLY)?;
    outside::whole(&file, metadata.len(), limit)
}

/// The same, as text.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    outside::text(read(path, limit)?)
}

/// A file that the user writes and may keep elsewhere: a link that we made ourselves is followed. Where it leads to must be
/// ours as well, and nobody else's to write.
pub fn read_kept_elsewhere(path: &Path, limit: u64) -> io::Result<String> {
    let link = fs::symlink_metadata(path)?;
    if !link.is_symlink() || link.uid() != geteuid().as_raw() {
        return read_text(path, limit);
    }
    // Opened as anything of somebody else's is: a link leads anywhere.
    let (file, metadata) = outside::open_regular(path)?;
    believe(&metadata, EVERYBODY)?;
    outside::text(outside::whole(&file, metadata.len(), limit)?)
}

/// A file that is only added to; made if there is none.
pub fn append(path: &Path) -> io::Result<File> {
    opened(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE).map(|(file, _)| file)
}

/// A file to be written to or locked as it is; made if there is none.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    opened(path, OFlags::WRONLY | OFlags::CREATE).map(|(file, _)| file)
}

/// A file that was not there before.
pub fn create_new(path: &Path) -> io::Result<File> {
    opened(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL).map(|(file, _)| file)
}

/// Makes the file anew with this in it. What lay there under this name, whatever it was, is taken away and not touched.
pub fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => create_new(path),
    }
}

/// Opens from the folder's own descriptor, so that nobody can exchange the folder in between, and waits for nobody.
fn opened(path: &Path, how: OFlags) -> io::Result<(File, Metadata)> {
    let (folder, reach) = folder_of(path)?;
    let name = path.file_name().ok_or_else(|| refusal("names no file".to_owned()))?;
    let file = open_in(&folder, name, how)?;
    let metadata = file.metadata()?;
    outside::refuse_others(metadata.file_type())?;
    believe(&metadata, reach)?;
    // What is written must not stand elsewhere too, under a name that somebody else chose.
    if how.intersects(OFlags::WRONLY | OFlags::RDWR) && metadata.nlink() > 1 {
        return Err(refusal("has a second name (a hard link) and is not written; take it away".to_owned()));
    }
    Ok((file, metadata))
}

fn open_in(folder: &File, name: &OsStr, how: OFlags) -> io::Result<File> {
    let careful = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match openat(folder, name, how | careful, Mode::from_raw_mode(0o600)) {
        Ok(file) => Ok(file.into()),
        Err(rustix::io::Errno::LOOP) => {
            Err(refusal("is a symbolic link, which is not followed here; take it away".to_owned()))
        }
        // A FIFO that nobody reads.
        Err(rustix::io::Errno::NXIO) => Err(io::Error::new(ErrorKind::InvalidInput, "is not a regular file")),
        Err(error) => Err(error.into()),
    }
}

/// The folder around a file of ours, and who may pass through it.
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

/// Root could write anything anyway. A file that others may write is as good as theirs, where they can come to it.
fn believe(file: &Metadata, reach: u32) -> io::Result<()> {
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
