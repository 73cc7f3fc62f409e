//! Witnesses that only Linux has: locks and open files.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use agentctl_model::{HeldLock, Observed, OpenFile, ProcessHead, ProcessRef};
use agentctl_process::InspectRequest;

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

/// In containers `stat` and the kernel's table disagree about the device.
#[test]
fn a_lock_in_an_overlay_is_found_by_what_stat_says() {
    if !rustix::process::geteuid().is_root() {
        agentctl_testkit::skip("mounting an overlay needs root");
        return;
    }
    let (backend, folder) = (Backend::native(), tempfile::tempdir().expect("a folder"));
    let mut child = accomplice::start_in_overlay("holds_files", folder.path());
    let file = child.says("file");
    if file == "unavailable" {
        agentctl_testkit::skip("an overlay cannot be mounted here");
        return;
    }
    let (device, inode) = file.split_once(' ').expect("two numbers");
    let lock = HeldLock {
        pid: child.pid(),
        device: device.parse().expect("a number"),
        inode: inode.parse().expect("a number"),
    };
    assert!(backend.kernel.locks().seen().expect("a lock table").contains(&lock), "{lock:?}");
}

/// The first thread of a program may end before the others do; the program works on.
#[test]
fn a_process_lives_as_long_as_its_last_thread() {
    const PROGRAM: &str = "import ctypes, sys, threading\n\
        threading.Thread(target=sys.stdin.read).start()\n\
        ctypes.CDLL(None).pthread_exit(None)";
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().canonicalize().expect("a real path");
    if Command::new("python3").arg("--version").output().is_err() {
        agentctl_testkit::skip("python3 is not installed");
        return;
    }
    // A Python that is found through a script of a version manager starts the real one in its own place.
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "exec \"$(python3 -c 'import sys; print(sys.executable)')\" -c \"$1\"",
        "sh",
        PROGRAM,
    ]);
    let mut child = Kept::start(command.current_dir(&place).env("MARK", "here"));
    let stat = format!("/proc/{}/stat", child.pid());
    until("the first thread has ended", || {
        std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z "))
    });

    let backend = Backend::native();
    let head = backend.head(child.pid());
    assert_eq!(head.argv.last().map(String::as_str), Some(PROGRAM));
    assert!(backend.is_alive(head.process));
    let process = backend
        .kernel
        .inspect(&head, InspectRequest { open_files: true, ..InspectRequest::default() })
        .expect("alive");
    assert_eq!((process.cwd.seen(), process.variable("MARK")), (Some(&place), Some("here")));
    assert!(process.open_files.seen().is_some() && process.exe.seen().is_some());
    assert!(!(backend.wait_gone)(head.process, std::time::Duration::from_millis(30)));
    child.kill_and_reap();
    assert!(!backend.is_alive(head.process));
}

/// A shell's own copy has its arguments and its environment; only the kernel's flag tells them apart.
#[test]
fn a_copy_that_runs_no_program_of_its_own_is_told_from_its_original() {
    let mut shell = Kept::shell("exec 3<&0; ( echo copy; read line <&3; : ) & wait; :");
    shell.says("copy");
    let backend = Backend::native();
    let original = backend.head(shell.pid());
    let heads = backend.kernel.heads();
    let copies: Vec<&ProcessHead> =
        heads.seen().expect("a table").iter().filter(|head| head.parent == shell.pid()).collect();
    assert!(!original.forked);
    assert!(matches!(copies[..], [copy] if copy.forked && copy.argv == original.argv), "{copies:?}");
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
    let process = backend
        .kernel
        .inspect(&head, InspectRequest { open_files: true, ..InspectRequest::default() })
        .expect("alive");
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
    let process = backend.kernel.inspect(&head, InspectRequest::default()).expect("alive");
    assert_eq!(process.exe, Observed::Seen(program));
}

/// `Command::spawn` returns in the middle of `execve`, when the process has neither arguments nor variables.
#[test]
fn a_process_that_was_just_launched_is_seen_with_all_it_has() {
    let backend = Backend::native();
    for _ in 0..300 {
        let child = Kept::start(Command::new("sleep").arg("600").env("AGENTCTL_LAUNCH_ID", "x"));
        let head = backend.head(child.pid());
        assert_eq!(head.argv, ["sleep", "600"]);
        let child = Kept::start(Command::new("sleep").arg("600").env("AGENTCTL_LAUNCH_ID", "x"));
        let process = ProcessRef { pid: child.pid(), start: start_of(child.pid()), ..head.process };
        let head = ProcessHead { process, ..head };
        let process = backend.kernel.inspect(&head, InspectRequest::default()).expect("alive");
        assert_eq!(process.variable("AGENTCTL_LAUNCH_ID"), Some("x"));
        assert_eq!(process.head.argv, ["sleep", "600"]);
    }
}

/// Without a look at the whole table, which would take longer than loading a program.
fn start_of(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let (_, fields) = stat.rsplit_once(") ").expect("a stat line");
    fields.split(' ').nth(19).and_then(|start| start.parse().ok()).expect("a start time")
}

#[test]
fn kernel_threads_are_nobodys_agent() {
    assert!(Backend::native().heads().iter().all(|head| !(head.argv.is_empty() && head.parent == 2)));
}

#[test]
fn the_system_has_every_witness() {
    let witnesses = agentctl_process::system().witnesses();
    assert!(witnesses.locks && witnesses.open_files && witnesses.environ && witnesses.sockets);
}

#[test]
fn a_connection_belongs_to_whoever_accepted_it() {
    let us = rustix::process::geteuid().as_raw();
    for place in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
        let Ok(listener) = TcpListener::bind(place) else {
            agentctl_testkit::skip("this machine has no IPv6");
            return;
        };
        let port = listener.local_addr().expect("its address").port();
        let host = if place.starts_with("[::1]") { "::1" } else { "127.0.0.1" };
        let near = TcpStream::connect((host, port)).expect("a connection");
        let kernel = agentctl_process::system();
        let look = || {
            let ends = (near.local_addr().expect("our end"), near.peer_addr().expect("the other end"));
            kernel.accepted_by(ends.0, ends.1)
        };
        assert_eq!(look(), Observed::Seen(None), "{place}: the kernel would say root");
        let (far, _) = listener.accept().expect("a connection");
        assert_eq!(look(), Observed::Seen(Some(us)), "{place}");
        drop(far);
        assert_eq!(look(), Observed::Seen(None), "{place}: nobody reads any more");
    }
}

#[test]
fn listening_sockets_are_seen_with_their_port() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let backend = Backend::native();
    let heads = backend.kernel.heads();
    let is_this = |head: &&ProcessHead| head.process.pid == std::process::id();
    let this = heads.seen().expect("a process table").iter().find(is_this).expect("this process");
    let listens = || {
        let process = backend
            .kernel
            .inspect(this, InspectRequest { listening: true, ..InspectRequest::default() })
            .expect("alive");
        process.listening.seen().expect("its sockets").contains(&address)
    };
    assert!(listens());
    drop(listener);
    assert!(!listens());
}
