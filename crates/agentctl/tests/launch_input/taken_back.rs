//! A launch that has no session yet, shown and undone by its group.

use std::time::Duration;

use agentctl_testkit::{Background, until, until_seen};

use crate::scene::Scene;

const TIMEOUT: Duration = Duration::from_mins(2);

#[test]
fn a_group_shows_what_is_starting_and_stopping_it_undoes_the_launch() {
    let scene = Scene::new();
    scene.put_on_path("claude", "#!/bin/sh\necho $$ > \"$HOME/pid\"\nexec sleep 600\n");
    let worktree = ["--worktree", ".", "--branch", "try/slow", "--group", "slow"];
    let arguments = [&["launch", "claude-code", "-p", "x"][..], &worktree].concat();
    let mut command = scene.home.agentctl_command(&arguments);
    command.current_dir(&scene.repo);
    let mut launch = Background::spawn(&scene.home, command);
    until(TIMEOUT, "the start of the agent", || scene.home.path().join("pid").exists().then_some(()));
    let shown = scene.home.agentctl(&["group", "show", "slow"]).ok().stdout;
    assert!(shown.contains("◌ starting"), "{shown}");
    let listed = scene.home.agentctl(&["group", "list", "--json"]).ok().json();
    let slot = &listed["groups"][0]["slots"][0];
    assert!(slot["slot"] == "claude-code" && slot["status"].is_null(), "{listed:#}");

    let stopped = scene.home.agentctl(&["group", "stop", "slow"]).ok().stdout;
    assert!(stopped.contains("1 launch taken back"), "{stopped}");
    assert_eq!(launch.wait(TIMEOUT).code(), Some(1));
    assert!(launch.stderr().contains("the launch was cancelled"), "{}", launch.stderr());
    until_seen(TIMEOUT, "the end of all processes", || match scene.home.processes() {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    });
    scene.nothing_is_left();
    assert_eq!(scene.home.agentctl(&["group", "show", "slow"]).code, Some(3));
}
