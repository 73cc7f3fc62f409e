//! Linux: inotify. Only what writes is asked for: our own reading must not wake us.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::WatchTarget;
use crate::{entries, is_folder_within};

/// The kernel's own limit is usually higher; an agent with a folder per session must not eat it all.
const MOST: usize = 30_000;

/// A folder that is watched.
struct Folder {
    path: PathBuf,
    /// How many levels below it are watched too. `None`: only for the appearance of what is to be watched below it.
    depth: Option<usize>,
}

/// Folders whose changes the kernel tells of. Its descriptor can be read when something has happened.
pub struct Folders {
    descriptor: OwnedFd,
    watched: HashMap<i32, Folder>,
    targets: Vec<WatchTarget>,
    /// Folders that should be watched and cannot be. What is below them is not watched either, and not counted.
    unwatched: BTreeSet<PathBuf>,
    /// Why the last of them is not watched.
    why_unwatched: Option<String>,
    /// A folder below the targets is a link, behind which nothing is watched.
    has_links: bool,
    /// The file system of a target did not answer. It is asked again, because it may later.
    is_silent: bool,
}

impl Folders {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Self> {
        let descriptor = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let (watched, targets) = (HashMap::new(), Vec::new());
        let unwatched = BTreeSet::new();
        Ok(Self {
            descriptor,
            watched,
            targets,
            unwatched,
            why_unwatched: None,
            has_links: false,
            is_silent: false,
        })
    }

    /// How many folders should be watched and cannot be.
    pub fn unwatched(&self) -> usize {
        self.unwatched.len()
    }

    /// Why the last of them cannot be watched.
    pub fn why_unwatched(&self) -> Option<&str> {
        self.why_unwatched.as_deref()
    }

    /// Whether a folder below the targets is a link, behind which nothing is watched.
    pub fn has_links(&self) -> bool {
        self.has_links
    }

    /// How many folders are watched.
    pub fn count(&self) -> usize {
        self.watched.len()
    }

    /// Watches exactly these from now on.
    pub fn watch(&mut self, targets: Vec<WatchTarget>) {
        if targets == self.targets && !self.is_silent {
            return;
        }
        for (number, _) in self.watched.drain() {
            // A folder that is gone took its watch with it.
            let _ = inotify::remove_watch(&self.descriptor, number);
        }
        self.targets = targets;
        self.watch_all();
    }

    fn watch_all(&mut self) {
        self.unwatched.clear();
        self.why_unwatched = None;
        self.has_links = false;
        self.is_silent = false;
        for target in self.targets.clone() {
            match is_folder_within(&target.path) {
                Ok(true) => self.add(&target.path, target.depth),
                Ok(false) => self.add_nearest(&target.path),
                Err(silent) => {
                    self.is_silent = true;
                    self.leave(&target.path, format!("{} {silent}", target.path.display()));
                }
            }
        }
    }

    /// Watched first and listed then: what appears in between is seen by one of the two.
    fn add(&mut self, path: &Path, depth: usize) {
        if !self.add_one(path, Some(depth)) || depth == 0 {
            return;
        }
        let Ok(entries) = entries(path) else { return };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.add(&entry.path(), depth - 1),
                Ok(kind) if kind.is_symlink() => self.has_links |= may_be_folder(&entry.path()),
                _ => {}
            }
        }
    }

    /// An agent that is not installed yet: the nearest folder above its root will tell when it is.
    fn add_nearest(&mut self, path: &Path) {
        if let Some(above) = path.ancestors().skip(1).find(|above| is_folder_within(above) == Ok(true)) {
            self.add_one(above, None);
        }
    }

    fn add_one(&mut self, path: &Path, depth: Option<usize>) -> bool {
        if self.watched.len() >= MOST {
            return self.leave(path, format!("more than {MOST} folders"));
        }
        // One folder may be above one target and part of another. Added to what is asked for already: plainly, the second
        // watch of a folder would take the place of the first, and what only that one wanted would be lost.
        let mut flags =
            WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::MASK_ADD;
        if depth.is_some() {
            flags |= WatchFlags::MODIFY
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF;
        }
        match inotify::add_watch(&self.descriptor, path, flags) {
            Ok(number) => {
                // The closer watch stays.
                if self.watched.get(&number).is_none_or(|known| known.depth < depth) {
                    self.watched.insert(number, Folder { path: path.to_owned(), depth });
                }
                true
            }
            Err(Errno::NOENT | Errno::NOTDIR) => false,
            Err(error) => self.leave(path, error.to_string()),
        }
    }

    fn leave(&mut self, path: &Path, why: String) -> bool {
        self.unwatched.insert(path.to_owned());
        self.why_unwatched = Some(why);
        false
    }

    /// Takes what has happened; says whether any of it may matter. New folders are watched from here on.
    pub fn drain(&mut self) -> bool {
        let mut relevant = false;
        let mut fresh: Vec<(PathBuf, usize)> = Vec::new();
        let (mut overflow, mut appeared) = (false, false);
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = Reader::new(&self.descriptor, &mut buffer);
        // Whatever ends the reading: there is nothing more for now.
        while let Ok(event) = reader.next() {
            let what = event.events();
            if what.contains(ReadFlags::QUEUE_OVERFLOW) {
                overflow = true;
                continue;
            }
            if what.contains(ReadFlags::IGNORED) {
                self.watched.remove(&event.wd());
                appeared = true;
                continue;
            }
            let Some(folder) = self.watched.get(&event.wd()) else { continue };
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
            let is_new = what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
            if let (true, Some(name)) = (is_new, name) {
                // What is to be watched may appear in a folder that is watched itself, and less deep.
                let path = folder.path.join(name);
                appeared |= self.targets.iter().any(|target| target.path.starts_with(&path));
            }
            let Some(depth) = folder.depth else { continue };
            relevant = true;
            if let (true, Some(name), Some(below)) = (is_new, name, depth.checked_sub(1)) {
                let path = folder.path.join(name);
                if what.contains(ReadFlags::ISDIR) {
                    fresh.push((path, below));
                } else {
                    self.has_links |= path.is_symlink() && may_be_folder(&path);
                }
            }
        }
        for (path, depth) in fresh {
            self.add(&path, depth);
        }
        if overflow || appeared {
            self.watch_all();
        }
        relevant || overflow || appeared
    }
}

/// A link may lead to a file system that does not answer.
fn may_be_folder(link: &Path) -> bool {
    is_folder_within(link) != Ok(false)
}

impl AsFd for Folders {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn target(path: &Path, depth: usize) -> WatchTarget {
        WatchTarget { path: path.to_owned(), depth }
    }

    #[test]
    fn writes_are_heard_in_folders_old_and_new_and_reading_is_not() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("agent");
        fs::create_dir_all(root.join("a/b")).unwrap();
        let mut folders = Folders::new().unwrap();
        folders.watch(vec![target(&root, 2)]);
        assert_eq!(folders.count(), 3);
        assert!(!folders.drain());
        fs::write(root.join("a/b/file"), "x").unwrap();
        assert!(folders.drain() && !folders.drain());
        fs::read(root.join("a/b/file")).unwrap();
        fs::read_dir(&root).unwrap().count();
        assert!(!folders.drain(), "our own reading must not wake us");
        fs::create_dir_all(root.join("c/d/too deep")).unwrap();
        assert!(folders.drain());
        fs::write(root.join("c/d/file"), "x").unwrap();
        assert!(folders.drain());
        fs::write(root.join("c/d/too deep/file"), "x").unwrap();
        assert!(!folders.drain());
        fs::remove_dir_all(&root).unwrap();
        assert!(folders.drain());
        fs::create_dir_all(root.join("a")).unwrap();
        assert!(folders.drain());
        fs::write(root.join("a/file"), "x").unwrap();
        assert!(folders.drain(), "a root that was removed and made anew is watched again");
    }

    #[test]
    fn a_folder_that_is_wanted_twice_tells_all_that_either_wants() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("agent");
        fs::create_dir(&root).unwrap();
        // It is watched for itself, and for what is to appear in it.
        for targets in [
            [target(&root, 0), target(&root.join("later"), 0)],
            [target(&root.join("later"), 0), target(&root, 0)],
        ] {
            let mut folders = Folders::new().unwrap();
            folders.watch(targets.to_vec());
            fs::write(root.join("file"), "x").unwrap();
            assert!(folders.drain() && !folders.drain());
            fs::rename(root.join("file"), place.path().join("elsewhere")).unwrap();
            assert!(folders.drain(), "a file that was moved out");
            fs::rename(&root, place.path().join("away")).unwrap();
            assert!(folders.drain(), "the folder itself was moved");
            fs::rename(place.path().join("away"), &root).unwrap();
        }
    }

    #[test]
    fn an_agent_that_is_installed_later_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("deep/er/agent");
        let mut folders = Folders::new().unwrap();
        folders.watch(vec![target(&root, 1)]);
        fs::write(place.path().join("something else"), "x").unwrap();
        assert!(!folders.drain());
        fs::create_dir_all(&root).unwrap();
        while folders.drain() {}
        fs::write(root.join("file"), "x").unwrap();
        assert!(folders.drain());
    }

    #[test]
    fn a_target_that_appears_in_a_watched_folder_is_watched_to_its_own_depth() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("agent");
        fs::create_dir(&root).unwrap();
        for root_depth in [0, 1] {
            let sessions = root.join("storage/sessions");
            let mut folders = Folders::new().unwrap();
            folders.watch(vec![target(&root, root_depth), target(&sessions, 3)]);
            for _ in 0..2 {
                fs::create_dir_all(&sessions).unwrap();
                while folders.drain() {}
                fs::create_dir_all(sessions.join("year/month/day")).unwrap();
                while folders.drain() {}
                fs::write(sessions.join("year/month/day/file"), "x").unwrap();
                assert!(folders.drain(), "in a root of depth {root_depth}");
                fs::rename(root.join("storage"), root.join("old")).unwrap();
                while folders.drain() {}
                fs::remove_dir_all(root.join("old")).unwrap();
            }
        }
    }
}
