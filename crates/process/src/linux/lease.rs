//! Whether any process has a file open, in any pid namespace: `/proc` and `/proc/locks` hide the processes outside ours.
//!
//! The kernel grants a lease on a file only if no open descriptor conflicts with it, whatever process that belongs to. We
//! release the lease at once. It makes no other open fail: a process that opens the file meanwhile waits for the release.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use agentctl_model::Observed;
use rustix::fs::{Mode, OFlags, open};

use crate::OpenHow;

/// An `fcntl` command that the `libc` crate does not define.
const F_SETSIG: libc::c_int = 10;

pub(super) fn is_open(path: &Path, how: OpenHow) -> Observed<bool> {
    let cannot = |error: io::Error| {
        Observed::Unobservable(format!("who has {} open cannot be seen: {error}", path.display()))
    };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        // A file that does not exist is not open.
        Err(rustix::io::Errno::NOENT) => return Observed::Seen(false),
        Err(error) => return cannot(error.into()),
    };
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return cannot(io::ErrorKind::InvalidInput.into()),
        Err(error) => return cannot(error),
    }
    let kind = match how {
        OpenHow::ForWriting => libc::F_RDLCK,
        OpenHow::AtAll => libc::F_WRLCK,
    };
    // If another process opens the file during the lease, the kernel sends us a signal. SIGURG is ignored by default.
    let asked = fcntl(&file, F_SETSIG, libc::SIGURG).and_then(|()| fcntl(&file, libc::F_SETLEASE, kind));
    match asked {
        Ok(()) => match fcntl(&file, libc::F_SETLEASE, libc::F_UNLCK) {
            Ok(()) => Observed::Seen(false),
            Err(error) => cannot(error),
        },
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Observed::Seen(true),
        Err(error) => cannot(error),
    }
}

#[expect(
    unsafe_code,
    reason = "no safe library offers leases; the call takes a descriptor that lives and two numbers"
)]
fn fcntl(file: &File, command: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and these commands take a plain number.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), command, value) };
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;

    #[test]
    fn an_open_file_is_told_from_a_closed_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("held");
        assert_eq!(is_open(&path, OpenHow::AtAll), Observed::Seen(false), "not there");
        let writer = File::create(&path).expect("a file");
        assert_eq!(is_open(&path, OpenHow::ForWriting), Observed::Seen(true));
        assert_eq!(is_open(&path, OpenHow::AtAll), Observed::Seen(true));
        drop(writer);
        let reader = File::open(&path).expect("the file");
        assert_eq!(is_open(&path, OpenHow::ForWriting), Observed::Seen(false));
        assert_eq!(is_open(&path, OpenHow::AtAll), Observed::Seen(true));
        drop(reader);
        assert_eq!(is_open(&path, OpenHow::AtAll), Observed::Seen(false));
        assert!(is_open(folder.path(), OpenHow::AtAll).why_not().is_some(), "a folder");
    }

    #[test]
    fn whoever_opens_it_meanwhile_waits_and_is_not_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("busy");
        File::create(&path).expect("a file");
        let (stop, opened) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            let opens = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    File::options().write(true).open(&path).expect("it opens");
                    opened.fetch_add(1, Ordering::Relaxed);
                }
            });
            // A new thread may have to wait for its first turn.
            let has_opened = || opened.load(Ordering::Relaxed) > 0 || opens.is_finished();
            let mut asked = 0;
            while asked < 2_000 || !has_opened() {
                assert!(is_open(&path, OpenHow::AtAll).seen().is_some());
                asked += 1;
            }
            stop.store(true, Ordering::Relaxed);
            opens.join().expect("no panic");
        });
    }
}
