//! Folders and repositories that no agent can work in.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;

use agentctl_testkit::skip;

use crate::scene::Scene;

#[test]
fn a_folder_that_is_none() {
    let scene = Scene::new();
    let file = scene.file("file", "x");
    scene.refuses(&["claude-code", "-p", "x", "--cwd", &file], 2, &[&file, "is not a folder"]);
    let missing = "/nowhere/at/all";
    scene.refuses(&["claude-code", "-p", "x", "--cwd", missing], 2, &[missing, "does not exist"]);
    let dangling = scene.home.path().join("dangling");
    symlink(missing, &dangling).unwrap();
    let dangling = dangling.to_str().unwrap();
    scene.refuses(&["claude-code", "-p", "x", "--cwd", dangling], 2, &[dangling, "does not exist"]);
}

#[test]
fn what_is_not_open_to_us() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root can ask as somebody who may not read: run the tests as root");
    }
    let scene = Scene::new();
    let home = scene.home.path();
    // The path to the home is open to all users, the requested folder is not.
    fs::set_permissions(home.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    let closed = home.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    let file = scene.file("secret", "x");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    // The built binary may lie where that user has no access.
    let binary = home.with_file_name("agentctl");
    let mut copy = scene.home.command("cp");
    copy.arg(env!("CARGO_BIN_EXE_agentctl")).arg(&binary);
    let _ = scene.home.run(copy).ok();
    for (flag, path, words) in
        [("--cwd", closed.to_str().unwrap(), "is not open to you"), ("--file", &file, "Permission denied")]
    {
        let arguments = ["launch", "claude-code", "-p", "x", flag, path];
        let mut command = scene.home.command(&binary);
        command.args(arguments).env("AGENTCTL_NO_DAEMON", "1").uid(65534).gid(65534).current_dir("/");
        scene.is_refusal(&scene.home.run(command), &arguments, 2, &[path, words]);
    }
}

#[test]
fn a_working_tree_that_cannot_be_made() {
    let scene = Scene::new();
    let outside = scene.home.work_dir("outside");
    let outside = outside.to_str().unwrap();
    let launch = |worktree: &str, branch: &str, more: &[&str]| {
        let branch = format!("--branch={branch}");
        let fixed = ["claude-code", "-p", "x", "--worktree", worktree, &branch];
        scene.launch(&[&fixed, more].concat())
    };
    let is_wrong = |output: &agentctl_testkit::Output, words: &str| {
        scene.is_refusal(output, &[words], 2, &[words]);
    };
    is_wrong(&launch(outside, "b", &[]), "is not in a git repository");
    is_wrong(&launch("/nowhere/at/all", "b", &[]), "/nowhere/at/all");
    is_wrong(&launch(".", "..", &[]), "`..` cannot be the name of a branch");
    is_wrong(&launch(".", "-f", &[]), "`-f` cannot be the name of a branch");
    is_wrong(&launch(".", "b", &["--base-branch", "nobodys"]), "`nobodys` names no commit");
    let in_use = "the branch main is checked out in";
    scene.is_refusal(&launch(".", "main", &[]), &[in_use], 7, &[in_use]);
}

#[test]
fn an_agent_that_fails_takes_its_working_tree_with_it() {
    let scene = Scene::new();
    let launched = scene.launch(&["claude-code", "-p", "x", "--worktree", ".", "--branch", "try/me"]);
    scene.reaches_the_agent(&launched);
    // A branch that existed before stays.
    scene.git(&["branch", "theirs"]);
    let launched = scene.launch(&["claude-code", "-p", "x", "--worktree", ".", "--branch", "theirs"]);
    assert_eq!(launched.code, Some(1), "{launched:#?}");
    assert_eq!(scene.git(&["branch", "--format=%(refname:short)"]), "main\ntheirs\n");
    assert_eq!(scene.git(&["worktree", "list"]).lines().count(), 1);
}
