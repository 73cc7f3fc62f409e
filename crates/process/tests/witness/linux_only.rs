//! Witnesses that only Linux has: locks and open files.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use agentctl_model::{HeldLock, Observed, OpenFile};
use agentctl_process::Want;

use crate::accomplice;
use crate::backend::{Backend, until};
use crate::child::Kept;
use crate::seen::copy_of_sleep;

fn holders(backend: &Backend, path: &Path) -> Vec<u32> {
    let file = std::fs::metadata(path).expect("a file");
    let locks = backend.kernel.locks();
    let on_file = |lock: &&HeldLock| (lock.device, lock.inode) == (file.dev(), file.ino());
    locks.seen().expect("a lock table").iter().filter(on_file).map(|lock| lock.pid).collect()
}

#[test]
fn a_lock_names_its_file_and_holder_and_dies_with_it() {
    let (backend, folder) = (Backend::native(), tempfile::tempdir().expect("a folder"));
    let (flock, posix) = (folder.path().join("flock"), folder.path().join("posix"));
    let mut child = accomplice::start("holds_files", folder.path());
    child.says("holding");
    assert_eq!(holders(&backend, &flock), [child.pid()]);
    assert_eq!(holders(&backend, &posix), [child.pid()]);
    child.kill_and_reap();
    assert!(holders(&backend, &flock).is_empty());
    assert!(holders(&backend, &posix).is_empty());
}

#[test]
fn who_waits_for_a_lock_does_not_hold_it() {
    let (backend, folder) = (Backend::native(), tempfile::tempdir().expect("a folder"));
    let flock = folder.path().join("flock");
    let mut holder = accomplice::start("holds_files", folder.path());
    holder.says("holding");
    let waiter = accomplice::start("waits_for_the_lock", folder.path());
    // The kernel's table names the waiter behind an arrow.
    let waiting = format!(" {} ", waiter.pid());
    until("the second process waits for the lock", || {
        let table = std::fs::read_to_string("/proc/locks").expect("a lock table");
        table.lines().any(|line| line.contains("->") && line.contains(&waiting))
    });
    assert_eq!(holders(&backend, &flock), [holder.pid()]);
}

#[test]
fn open_files_are_seen_with_what_they_are_open_for() {
    let (backend, folder) = (Backend::native(), tempfile::tempdir().expect("a folder"));
    let place = folder.path().canonicalize().expect("a real path");
    let mut child = accomplice::start("holds_files", &place);
    child.says("holding");
    let head = backend.head(child.pid());
    let process = backend.kernel.inspect(&head, Want { open_files: true }).expect("alive");
    let mut files: Vec<OpenFile> = process.open_files.seen().expect("open files").clone();
    files.retain(|file| file.path.starts_with(&place));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let file = |name: &str, writable| OpenFile { path: place.join(name), writable };
    assert_eq!(
        files,
        [file("deleted (deleted)", true), file("flock", true), file("posix", true), file("read", false)]
    );
}

#[test]
fn a_look_without_free_descriptors_is_blind_and_not_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = accomplice::start("looks_without_descriptors", folder.path());
    assert_eq!(child.says("answers"), "blind");
}

#[test]
fn a_program_whose_real_name_ends_in_deleted_keeps_it() {
    let (backend, folder) = (Backend::native(), tempfile::tempdir().expect("a folder"));
    let program = folder.path().canonicalize().expect("a real path").join("agent (deleted)");
    copy_of_sleep(&program);
    let child = Kept::start(Command::new(&program).arg("600"));
    let head = backend.head(child.pid());
    let process = backend.kernel.inspect(&head, Want::default()).expect("alive");
    assert_eq!(process.exe, Observed::Seen(program));
}

#[test]
fn kernel_threads_are_nobodys_agent() {
    assert!(Backend::native().heads().iter().all(|head| !(head.argv.is_empty() && head.parent == 2)));
}

#[test]
fn the_system_has_every_witness() {
    let witnesses = agentctl_process::system().witnesses();
    assert!(witnesses.locks && witnesses.open_files && witnesses.environ);
}
