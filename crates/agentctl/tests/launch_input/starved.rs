//! A launch that the kernel refuses a lock or a descriptor fails, and leaves no folder behind.

use std::fs;
use std::process::Command;

use agentctl_testkit::skip;

use crate::scene::Scene;

/// A launch takes fewer locks than this, not counting the runner's own.
const LOCKS: usize = 8;

#[test]
fn whichever_lock_is_refused_nothing_is_left() {
    let scene = Scene::new();
    let has_strace = Command::new("strace").arg("-V").output().is_ok_and(|answer| answer.status.success());
    if !has_strace {
        skip("no strace, which makes the kernel refuse a lock");
        return;
    }
    let mut failures = 0;
    for number in 1..=LOCKS {
        let mut command = scene.home.command("strace");
        command.args(["-o", "/dev/null", "-e", "trace=flock", "-e"]);
        command.arg(format!("inject=flock:error=ENOLCK:when={number}"));
        command.args([env!("CARGO_BIN_EXE_agentctl"), "launch", "claude-code", "-p", "x"]);
        command.current_dir(&scene.repo).env("AGENTCTL_NO_DAEMON", "1");
        let launched = scene.home.run(command);
        assert_eq!(launched.code, Some(1), "lock {number}: {launched:#?}");
        failures += usize::from(launched.stderr.contains("cannot start the launch"));
        assert_eq!(left(&scene), Vec::<String>::new(), "lock {number}: {launched:#?}");
    }
    assert!(failures >= 3, "only {failures} of the refused locks were those of a launch");
}

#[test]
fn however_few_descriptors_there_are_nothing_is_left() {
    let scene = Scene::new();
    for most in 4..=20 {
        let mut command = scene.home.command("/bin/sh");
        let line = format!("ulimit -Sn {most}; exec \"$0\" launch claude-code -p x");
        command.args(["-c", &line, env!("CARGO_BIN_EXE_agentctl")]);
        command.current_dir(&scene.repo).env("AGENTCTL_NO_DAEMON", "1");
        let launched = scene.home.run(command);
        assert_ne!(launched.code, Some(0), "{most} descriptors: {launched:#?}");
        assert_eq!(left(&scene), Vec::<String>::new(), "{most} descriptors: {launched:#?}");
    }
}

/// The launch folders, including unfinished ones.
fn left(scene: &Scene) -> Vec<String> {
    let folders = fs::read_dir(scene.home.agentctl_home().join("launches")).into_iter().flatten().flatten();
    folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
