//! Things that are not the files they should be.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use agentctl_testkit::{Output, skip};

use crate::storage::{Examined, HURT, Storage, conversation, snapshot};

/// Puts something in the place of a file.
type Make = fn(&Path);

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_directory_a_fifo_and_a_symlink_loop_in_place_of_a_transcript() {
    let kinds: [(&str, Make); 4] = [
        ("a directory", |path| std::fs::create_dir(path).unwrap()),
        ("a FIFO", make_fifo),
        ("a symlink to itself", |path| symlink(path, path).unwrap()),
        ("a symlink to nothing", |path| symlink("/nowhere/at/all", path).unwrap()),
    ];
    for (what, make) in kinds {
        let storage = Storage::sound();
        make(&storage.hurt());
        let seen = storage.examine();
        assert!(seen.row(HURT).is_none(), "{what}");
        seen.left_out(&storage.hurt());
        // A session that is asked for by its id is not simply reported as absent.
        assert_eq!(storage.home.agentctl(&["status", HURT]).code, Some(6), "{what}");
    }
}

#[test]
fn folders_that_loop_or_are_none_cost_only_themselves() {
    let storage = Storage::sound();
    let projects = storage.root().join("projects");
    symlink(&projects, projects.join("-loop")).unwrap();
    symlink("-work", projects.join("-alias")).unwrap();
    symlink("-circle", projects.join("-circle")).unwrap();
    storage.write("projects/a-file", "not a folder");
    make_fifo(&projects.join("-fifo"));
    storage.examine().complete();
}

#[test]
fn a_registry_file_that_is_none() {
    let kinds: [Make; 4] = [
        make_fifo,
        |path| std::fs::create_dir(path).unwrap(),
        |path| symlink(path, path).unwrap(),
        |path| std::fs::write(path, "{\"pid\":42,\"sess").unwrap(),
    ];
    for make in kinds {
        let storage = Storage::sound();
        let file = storage.path("sessions/42.json");
        make(&file);
        // The file may have named a session that has no other trace yet.
        storage.examine().left_out(&file);
        assert_eq!(storage.home.agentctl(&["list"]).code, Some(0));
    }
}

#[test]
fn a_registry_folder_that_is_a_file() {
    let storage = Storage::sound();
    std::fs::remove_dir(storage.root().join("sessions")).unwrap();
    storage.write("sessions", "not a folder");
    storage.examine().left_out(&storage.root().join("sessions"));
}

/// Runs agentctl as the user nobody, who may not read everything here.
fn as_nobody(storage: &Storage, arguments: &[&str]) -> Output {
    // The built binary may lie where that user has no access.
    let binary = storage.home.path().with_file_name("agentctl");
    if !binary.exists() {
        // Another process makes the copy: a descriptor of ours could be open for writing in another test's
        // child.
        let mut copy = storage.home.command("cp");
        copy.arg(env!("CARGO_BIN_EXE_agentctl")).arg(&binary);
        let _ = storage.home.run(copy).ok();
    }
    let mut command = storage.home.command(binary);
    command.args(arguments).uid(65534).gid(65534);
    storage.home.run(command)
}

#[test]
fn what_belongs_to_somebody_else_is_named_and_the_rest_is_right() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root can ask as somebody who may not read: run the tests as root");
    }
    let open = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let closed =
        |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    let storage = Storage::sound();
    // The path to the home, and the home itself, are open to all users.
    open(storage.home.path().parent().unwrap());
    let folder = storage.path("projects/-theirs/x").parent().unwrap().to_owned();
    storage.write(&format!("projects/-theirs/{HURT}.jsonl"), conversation(HURT, "secret"));
    closed(&folder);
    let file = storage.path("projects/-work/bad00000-0000-4000-8000-00000000000c.jsonl");
    std::fs::write(&file, conversation("bad00000-0000-4000-8000-00000000000c", "secret")).unwrap();
    closed(&file);
    let before = snapshot(&storage.home.path());
    let list = ["list", "--since", "all", "--usage", "--json"];
    let strict = as_nobody(&storage, &["list", "--since", "all", "--json", "--strict"]);
    let seen = Examined::new(as_nobody(&storage, &list).ok(), &strict);
    seen.left_out(&folder);
    seen.left_out(&file);
    assert!(seen.row(HURT).is_none());
    assert_eq!(snapshot(&storage.home.path()), before);
    assert_eq!(as_nobody(&storage, &["status", HURT]).code, Some(6), "silence is no verdict");

    // The whole root is closed: no sessions, no verdicts, and a source that failed or is partial.
    closed(&storage.root());
    let strict = as_nobody(&storage, &["list", "--since", "all", "--json", "--strict"]);
    assert_eq!(strict.code, Some(6), "{strict:?}");
    assert_eq!(strict.json()["sessions"].as_array().unwrap().len(), 0);
    open(&storage.root());
}
