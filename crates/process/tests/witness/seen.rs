//! What runs is seen, as it is.

use std::process::Command;
use std::sync::{Arc, Barrier};

use agentctl_model::{Observed, ProcessHead};
use agentctl_process::InspectRequest;

use crate::backend::{Backend, on_each_backend};
use crate::child::Kept;

on_each_backend!(
    a_child_is_seen_with_all_it_has,
    a_name_with_parentheses_and_spaces_confuses_nobody,
    a_replaced_program_is_still_named,
    threads_are_no_processes,
    files_are_seen_or_said_to_be_unseen,
);

fn a_child_is_seen_with_all_it_has(backend: &Backend) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().canonicalize().expect("a real path");
    let before = jiff::Timestamp::now();
    let child = Kept::start(
        Command::new("sleep")
            .arg("600.0")
            .current_dir(&place)
            .env("AGENTCTL_LAUNCH_ID", "a=b c")
            .env("EMPTY", ""),
    );
    let head = backend.loaded_head(child.pid());
    assert_eq!(head.argv, ["sleep", "600.0"]);
    assert_eq!(head.comm, "sleep");
    assert_eq!(head.parent, std::process::id());
    assert_eq!(head.uid, backend.head(std::process::id()).uid);
    assert!(head.uid.is_some());
    let start = head.started_at.expect("a start time");
    // The portable clock counts in whole seconds from a boot time in whole seconds.
    let (early, late) = (before - start, start - jiff::Timestamp::now());
    assert!(early.get_seconds() <= 2 && late.get_seconds() <= 1, "{start} for a start after {before}");

    let process = backend.kernel.inspect(&head, InspectRequest::default()).expect("alive");
    // The start time is converted anew at each look, and the clocks are not in step to the millisecond.
    assert_eq!(ProcessHead { started_at: head.started_at, ..process.head.clone() }, head);
    assert_eq!(process.cwd.seen(), Some(&place));
    assert_eq!(process.variable("AGENTCTL_LAUNCH_ID"), Some("a=b c"));
    assert_eq!(process.variable("EMPTY"), None);
    assert!(process.exe.seen().is_some_and(|exe| exe.is_absolute() && exe.exists()), "{:?}", process.exe);
    assert!(backend.is_alive(head.process));
}

fn a_name_with_parentheses_and_spaces_confuses_nobody(backend: &Backend) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("a) (b");
    copy_of_sleep(&program);
    let child = Kept::start(Command::new(&program).arg("600"));
    let head = backend.loaded_head(child.pid());
    assert_eq!(head.comm, "a) (b");
    assert_eq!(head.program(), "a) (b");
    assert_eq!(head.parent, std::process::id());
    assert!(backend.is_alive(head.process));
}

/// Agents update themselves while they run.
fn a_replaced_program_is_still_named(backend: &Backend) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().canonicalize().expect("a real path").join("agent");
    copy_of_sleep(&program);
    let child = Kept::start(Command::new(&program).arg("600"));
    std::fs::remove_file(&program).expect("removed");
    let process =
        backend.kernel.inspect(&backend.loaded_head(child.pid()), InspectRequest::default()).expect("alive");
    assert_eq!(process.exe, Observed::Seen(program));
}

fn threads_are_no_processes(backend: &Backend) {
    let both = Arc::new(Barrier::new(2));
    let other = std::thread::spawn({
        let both = Arc::clone(&both);
        move || {
            both.wait();
            both.wait();
        }
    });
    both.wait();
    let own = std::process::id();
    let heads = backend.heads();
    let threads: Vec<u32> = std::fs::read_dir("/proc/self/task")
        .map(|tasks| tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).collect())
        .unwrap_or_default();
    both.wait();
    other.join().expect("a quiet thread");
    assert_eq!(heads.iter().filter(|head| head.process.pid == own).count(), 1);
    assert!(
        !heads.iter().any(|head| head.process.pid != own && threads.contains(&head.process.pid)),
        "a thread passes for a process"
    );
}

fn files_are_seen_or_said_to_be_unseen(backend: &Backend) {
    let child = Kept::sleeper();
    let head = backend.loaded_head(child.pid());
    let witnesses = backend.kernel.witnesses();
    let process = backend
        .kernel
        .inspect(&head, InspectRequest { open_files: true, ..InspectRequest::default() })
        .expect("alive");
    assert_eq!(process.open_files.seen().is_some(), witnesses.open_files, "{:?}", process.open_files);
    assert_eq!(backend.kernel.locks().seen().is_some(), witnesses.locks);
    assert_eq!(process.environ.seen().is_some(), witnesses.environ);
    let unasked = backend.kernel.inspect(&head, InspectRequest::default()).expect("alive");
    assert!(unasked.open_files.why_not().is_some(), "what nobody looked at is not empty");
}

/// Copied by another process: a program that this one has open for writing could not be started.
pub(crate) fn copy_of_sleep(to: &std::path::Path) {
    let script = "cp \"$(command -v sleep)\" \"$1\"";
    let status = Command::new("sh").args(["-c", script, "sh"]).arg(to).status().expect("a shell");
    assert!(status.success());
}
