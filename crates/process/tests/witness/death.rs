//! What has died is gone, and what lives on is found.

use std::time::Duration;

use agentctl_model::{ProcessHead, ProcessRef};
use agentctl_process::{InspectRequest, Sent, Signal};

use crate::backend::{Backend, DEADLINE, on_each_backend, until};
use crate::child::Kept;

on_each_backend!(
    a_killed_child_is_dead_before_and_after_it_is_reaped,
    waiting_ends_with_the_process_and_not_before,
    a_grandchild_is_found_after_its_parent_died,
    a_process_that_is_told_to_end_ends,
);

fn a_killed_child_is_dead_before_and_after_it_is_reaped(backend: &Backend) {
    let mut child = Kept::sleeper();
    let head = backend.head(child.pid());
    child.kill_without_reaping();
    assert!((backend.wait_gone)(head.process, DEADLINE));
    if cfg!(target_os = "linux") {
        let entry = std::fs::read_to_string(format!("/proc/{}/stat", child.pid())).expect("a zombie");
        assert!(entry.contains(") Z "), "{entry}");
    }
    assert_dead(backend, &head);
    child.0.wait().expect("an exit status");
    assert_dead(backend, &head);
    assert!((backend.wait_gone)(head.process, Duration::ZERO));
}

fn assert_dead(backend: &Backend, head: &ProcessHead) {
    assert_eq!(backend.find(head.process.pid), None);
    assert!(!backend.is_alive(head.process));
    assert_eq!(backend.kernel.inspect(head, InspectRequest::default()), None);
    assert_eq!((backend.signal)(head.process, Signal::Kill).expect("an answer"), Sent::AlreadyGone);
}

fn waiting_ends_with_the_process_and_not_before(backend: &Backend) {
    let mut child = Kept::sleeper();
    let process = backend.head(child.pid()).process;
    assert!(!(backend.wait_gone)(process, Duration::from_millis(30)));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| (backend.wait_gone)(process, DEADLINE));
        child.kill_and_reap();
        assert!(waiting.join().expect("a quiet thread"));
    });
}

fn a_grandchild_is_found_after_its_parent_died(backend: &Backend) {
    let mut shell = Kept::shell("sleep 600 & echo pid $!; read line");
    let pid = shell.says("pid").parse().expect("a pid");
    until("the grandchild runs its program", || backend.head(pid).argv == ["sleep", "600"]);
    let before = backend.head(pid);
    let _ended_with_the_test = Orphan { backend, process: before.process };
    assert_eq!(before.parent, shell.pid());
    shell.kill_and_reap();
    let after = backend.head(pid);
    assert_eq!(after.process, before.process);
    assert_ne!(after.parent, shell.pid());
    assert!(backend.is_alive(before.process));
}

fn a_process_that_is_told_to_end_ends(backend: &Backend) {
    use std::os::unix::process::ExitStatusExt;
    for (signal, number) in
        [(Signal::Hangup, 1), (Signal::Interrupt, 2), (Signal::Kill, 9), (Signal::Terminate, 15)]
    {
        let mut child = Kept::sleeper();
        let process = backend.head(child.pid()).process;
        assert_eq!((backend.signal)(process, signal).expect("permitted"), Sent::Delivered);
        assert_eq!(child.0.wait().expect("an exit status").signal(), Some(number));
    }
}

/// A process that is no child of this one any more, ended by its identity.
struct Orphan<'a> {
    backend: &'a Backend,
    process: ProcessRef,
}

impl Drop for Orphan<'_> {
    fn drop(&mut self) {
        let _ = (self.backend.signal)(self.process, Signal::Kill);
    }
}
