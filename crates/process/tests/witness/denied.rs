//! Other users' processes: perhaps not to be looked into, but never missing.

use std::os::unix::process::CommandExt;
use std::process::Command;

use agentctl_process::InspectRequest;

use crate::backend::{Backend, on_each_backend};
use crate::child::Kept;

on_each_backend!(a_process_of_another_user_is_never_missing);

const NOBODY: u32 = 65534;

fn a_process_of_another_user_is_never_missing(backend: &Backend) {
    // Only root can start one; for everybody else, the first process of the machine is one.
    let is_root = backend.head(std::process::id()).uid == Some(0);
    let child = is_root.then(|| Kept::start(Command::new("sleep").arg("600").current_dir("/").uid(NOBODY)));
    let head = backend.head(child.as_ref().map_or(1, Kept::pid));
    if is_root {
        assert_eq!(head.uid, Some(NOBODY));
    }
    assert!(backend.is_alive(head.process));
    let process = backend
        .kernel
        .inspect(&head, InspectRequest { open_files: true, ..InspectRequest::default() })
        .expect("not missing");
    assert_eq!(process.head.process, head.process);
}

#[cfg(target_os = "linux")]
mod linux_as_nobody {
    use agentctl_process::{Signal, SignalError};
    use rustix::process::Uid;
    use rustix::thread::set_thread_res_uid;

    use super::*;

    /// Runs on a thread that has given up being root (the kernel keeps users per thread); as it is for anybody else.
    fn as_nobody(look: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                if rustix::process::geteuid().is_root() {
                    let nobody = Uid::from_raw(NOBODY);
                    set_thread_res_uid(nobody, nobody, nobody).expect("permission given up");
                }
                look();
            });
            looking.join().expect("a quiet thread");
        });
    }

    #[test]
    fn what_may_not_be_seen_is_unobservable_and_may_not_be_signalled() {
        let backend = Backend::native();
        let is_root = rustix::process::geteuid().is_root();
        let mut child = is_root.then(Kept::sleeper);
        let pid = child.as_ref().map_or(1, Kept::pid);
        as_nobody(|| {
            let head = backend.head(pid);
            let process = backend
                .kernel
                .inspect(&head, InspectRequest { open_files: true, ..InspectRequest::default() })
                .expect("not missing");
            for why in [
                process.environ.why_not(),
                process.cwd.why_not(),
                process.exe.why_not(),
                process.open_files.why_not(),
            ] {
                assert!(why.is_some_and(|why| why.contains("ermission denied")), "{why:?}");
            }
            assert!(backend.is_alive(head.process));
            if is_root {
                let refused = (backend.signal)(head.process, Signal::Kill);
                assert!(matches!(refused, Err(SignalError::Denied { .. })), "{refused:?}");
            }
        });
        if let Some(child) = &mut child {
            assert!(child.0.try_wait().expect("a look").is_none(), "it lives on");
        }
    }

    #[test]
    fn the_portable_look_admits_that_it_saw_nothing() {
        let backend = Backend::portable();
        let child = rustix::process::geteuid().is_root().then(Kept::sleeper);
        as_nobody(|| {
            let head = backend.head(child.as_ref().map_or(1, Kept::pid));
            let process = backend.kernel.inspect(&head, InspectRequest::default()).expect("not missing");
            assert!(process.environ.why_not().is_some() && process.cwd.why_not().is_some());
        });
    }
}
