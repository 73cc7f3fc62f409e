//! A stale note whose pid now belongs to another process, for real.

use agentctl_testkit::{Background, Signal, new_uuid};
use serde_json::json;

use crate::scene::{Scene, TIMEOUT, wait_number};

/// Field 22 of `/proc/<pid>/stat`.
fn start_of(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap()
}

#[test]
fn a_pid_alone_names_nobody() {
    let Some(scene) = Scene::open() else { return };
    let cwd = scene.home.git_repo("project");
    let id = new_uuid();
    let mut run = scene.run(&cwd, &id, "[[bash:echo $$ > tool; while true; do sleep 0.1; done]] [[text:x]]");
    wait_number(&cwd.join("tool"));
    let mut note = scene.wait_registry(run.pid());
    let stale = scene.registry_file(run.pid());
    run.signal(Signal::KILL);
    run.wait(TIMEOUT);
    assert_eq!(scene.verdict(&id), "stopped/died");

    // The agent's own note, changed to the pid of a live process that is not its own.
    let mut command = scene.home.command("sleep");
    command.arg("600").current_dir(&cwd);
    let other = Background::spawn(&scene.home, command);
    std::fs::remove_file(stale).unwrap();
    note["pid"] = json!(other.pid());
    let write = |note: &serde_json::Value| {
        std::fs::write(scene.registry_file(other.pid()), note.to_string()).unwrap();
    };
    write(&note);
    assert_eq!(scene.verdict(&id), "stopped/died", "the start time is another process's");
    note["procStart"] = json!((start_of(other.pid()) + 1).to_string());
    write(&note);
    assert_eq!(scene.verdict(&id), "stopped/died", "one tick later is another process");
    assert!(scene.rows(&[]).is_empty());

    // With the right start time the note means this process, which still is no proven owner: it is not Claude
    // Code by name, and may be it under another name.
    note["procStart"] = json!(start_of(other.pid()).to_string());
    note["startedAt"] = json!(0);
    write(&note);
    assert_eq!(scene.verdict(&id), "unknown");
    let status = scene.status(&id);
    assert!(status["pid"].is_null(), "{status:#}");
    let why = status["statusDetail"].as_str().unwrap();
    assert!(why.contains(&other.pid().to_string()) && why.contains("not known as Claude Code"), "{why}");
}
