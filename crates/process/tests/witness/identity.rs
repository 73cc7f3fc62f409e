//! A pid is not a process.

use agentctl_model::{ProcessHead, ProcessRef};
use agentctl_process::{InspectRequest, Sent, Signal};

use crate::backend::{Backend, DEADLINE, on_each_backend};
use crate::child::Kept;

on_each_backend!(a_reused_pid_is_another_process, numbers_that_mean_groups_reach_nobody);

fn a_reused_pid_is_another_process(backend: &Backend) {
    let mut child = Kept::sleeper();
    let head = backend.head(child.pid());
    let now = head.process;
    let earlier = ProcessRef { start: now.start - 1, ..now };
    let other_boot = ProcessRef { boot: now.boot ^ 1, ..now };
    for predecessor in [earlier, other_boot] {
        assert!(!backend.is_alive(predecessor));
        let stale = ProcessHead { process: predecessor, ..head.clone() };
        assert_eq!(backend.kernel.inspect(&stale, InspectRequest::default()), None);
        assert_eq!((backend.signal)(predecessor, Signal::Kill).expect("an answer"), Sent::AlreadyGone);
        assert!((backend.wait_gone)(predecessor, DEADLINE), "the predecessor is gone");
    }
    // A signal that had been sent would be here by now: this one comes after it.
    assert_eq!((backend.signal)(now, Signal::Terminate).expect("permitted"), Sent::Delivered);
    let status = child.0.wait().expect("an exit status");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(15),
        "it lived until it was meant"
    );
}

fn numbers_that_mean_groups_reach_nobody(backend: &Backend) {
    let own = backend.head(std::process::id()).process;
    for pid in [0, u32::MAX, i32::MAX.unsigned_abs() + 1] {
        let nobody = ProcessRef { pid, ..own };
        assert_eq!((backend.signal)(nobody, Signal::Kill).expect("an answer"), Sent::AlreadyGone);
        assert!(!backend.is_alive(nobody), "{pid}");
    }
}
