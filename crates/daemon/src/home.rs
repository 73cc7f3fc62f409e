//! The folder of agentctl (`AGENTCTL_HOME`): private to this user, and used by one daemon at a time.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use agentctl_files::own::{self, FolderFault};
use thiserror::Error;

/// The longest path that the kernel accepts for a socket.
const LONGEST_SOCKET: usize = 107;

#[derive(Debug, Clone)]
pub struct Home {
    folder: PathBuf,
}

#[derive(Debug, Error)]
pub enum HomeError {
    #[error("{} is a symbolic link, which somebody else could turn; put the real folder there, or name it in AGENTCTL_HOME", .0.display())]
    Link(PathBuf),
    #[error("{} belongs to another user (uid {owner}); `chown` it if it is yours, or choose another AGENTCTL_HOME", path.display())]
    Foreign { path: PathBuf, owner: u32 },
    #[error("{} is no folder", .0.display())]
    NoFolder(PathBuf),
    #[error("{} is too long for a socket; choose a shorter AGENTCTL_HOME", .0.display())]
    TooLong(PathBuf),
    #[error("cannot {what} {}: {source}", path.display())]
    Failed { what: &'static str, path: PathBuf, source: io::Error },
}

/// The right to be the daemon. It is released when this value is dropped or the process ends in any way.
#[derive(Debug)]
pub struct DaemonLock {
    file: File,
    path: PathBuf,
}

impl DaemonLock {
    /// Whether the folder is still the one whose lock we hold: it may have been removed or moved away.
    pub(crate) fn is_in_place(&self) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let ours = self.file.metadata().map(identity);
        ours.ok()
            .zip(fs::symlink_metadata(&self.path).map(identity).ok())
            .is_some_and(|(ours, there)| ours == there)
    }
}

impl Home {
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("agentctl.sock")
    }

    pub fn log(&self) -> PathBuf {
        self.folder.join("daemon.log")
    }

    pub fn token(&self) -> PathBuf {
        self.folder.join("http.token")
    }

    /// The page's port, and the hashes of the tokens of its tabs.
    pub(crate) fn web(&self) -> PathBuf {
        self.folder.join("web.json")
    }

    /// Ends every token of the page while no daemon runs.
    pub fn forget_page(&self) -> io::Result<()> {
        match fs::remove_file(self.web()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn fuses(&self) -> PathBuf {
        self.folder.join(crate::fuses::FILE)
    }

    pub(crate) fn outbox(&self) -> PathBuf {
        self.folder.join(agentctl_fleet::keep::outbox::FOLDER)
    }

    pub(crate) fn launches(&self) -> PathBuf {
        self.folder.join(agentctl_fleet::keep::launches::FOLDER)
    }

    fn lock_path(&self) -> PathBuf {
        self.folder.join("daemon.lock")
    }

    /// Creates the folder if it does not exist, and ensures that only this user can access it.
    pub fn prepare(&self) -> Result<(), HomeError> {
        let failed = |what| move |source| HomeError::Failed { what, path: self.folder.clone(), source };
        if self.socket().as_os_str().len() > LONGEST_SOCKET {
            return Err(HomeError::TooLong(self.socket()));
        }
        match fs::DirBuilder::new().recursive(false).mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed("create")(error));
            }
            _ => {}
        }
        for path in [self.folder.clone(), self.launches(), self.outbox()] {
            own::folder(&path).map_err(|fault| fault_at(&path, fault))?;
        }
        let found = fs::symlink_metadata(&self.folder).map_err(failed("look at"))?;
        if found.mode() & 0o077 != 0 {
            fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700)).map_err(failed("close"))?;
        }
        Ok(())
    }

    /// Returns the folder for reading if it exists. The folder and those in it must belong to this user.
    /// Changes nothing.
    pub fn readable(&self) -> Result<Option<PathBuf>, HomeError> {
        let real = own::readable_folder(&self.folder).map_err(|fault| fault_at(&self.folder, fault))?;
        for path in [self.launches(), self.outbox()] {
            own::folder(&path).map_err(|fault| fault_at(&path, fault))?;
        }
        Ok(real)
    }

    /// Takes the lock that makes a process the daemon of this folder. Returns `None` when another process
    /// holds it.
    pub fn hold(&self) -> Result<Option<DaemonLock>, HomeError> {
        let path = self.lock_path();
        let failed = |what| {
            let path = path.clone();
            move |source| HomeError::Failed { what, path, source }
        };
        let file = own::open_or_create(&path).map_err(failed("open"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(DaemonLock { file, path })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed("lock")(error)),
        }
    }

    /// The device and inode of the file that the daemon locks, for finding the process that holds the lock.
    pub fn lock_identity(&self) -> Option<(u64, u64)> {
        fs::symlink_metadata(self.lock_path()).ok().map(|metadata| (metadata.dev(), metadata.ino()))
    }
}

fn fault_at(path: &Path, fault: FolderFault) -> HomeError {
    let path = path.to_owned();
    match fault {
        FolderFault::Link => HomeError::Link(path),
        FolderFault::NotAFolder => HomeError::NoFolder(path),
        FolderFault::Foreign { owner } => HomeError::Foreign { path, owner },
        FolderFault::Io(source) => HomeError::Failed { what: "look at", path, source },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_folder_is_made_and_closed_to_others() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::at(place.path().join("home"));
        home.prepare().unwrap();
        let mode = || fs::metadata(home.folder()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o700);
        fs::set_permissions(home.folder(), fs::Permissions::from_mode(0o777)).unwrap();
        home.prepare().unwrap();
        assert_eq!(mode(), 0o700);
    }

    #[test]
    fn a_link_a_file_a_foreign_or_a_too_long_folder_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (real, link) = (place.path().join("real"), place.path().join("link"));
        fs::create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        assert!(matches!(Home::at(&link).prepare(), Err(HomeError::Link(_))));
        fs::write(place.path().join("file"), "x").unwrap();
        assert!(matches!(Home::at(place.path().join("file")).prepare(), Err(HomeError::NoFolder(_))));
        let long = place.path().join("x".repeat(120));
        assert!(matches!(Home::at(long).prepare(), Err(HomeError::TooLong(_))));
        let missing = Home::at(place.path().join("no/such/parent")).prepare();
        assert!(matches!(missing, Err(HomeError::Failed { what: "create", .. })), "{missing:?}");
        // Only root can give a folder away; any other user already finds one that belongs to root.
        let foreign = if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&real, Some(65534), None).unwrap();
            real
        } else {
            PathBuf::from("/")
        };
        assert!(matches!(Home::at(foreign).prepare(), Err(HomeError::Foreign { .. })));
    }

    #[test]
    fn only_one_holds_the_folder_and_notices_when_it_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::at(place.path().join("home"));
        home.prepare().unwrap();
        let lock = home.hold().unwrap().unwrap();
        assert!(home.hold().unwrap().is_none());
        assert!(lock.is_in_place());
        fs::rename(home.folder(), place.path().join("away")).unwrap();
        assert!(!lock.is_in_place());
        drop(lock);
        home.prepare().unwrap();
        assert!(home.hold().unwrap().is_some());
    }
}
