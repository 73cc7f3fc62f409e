//! Files that another user left in agentctl's folder, and a folder of another user. Root plays this with
//! files given to nobody.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run processes and plant files")]

mod machine;

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentctl_testkit::skip;
use machine::{Ended, Machine};

const NOBODY: u32 = 65534;

fn can_play_another_user() -> bool {
    rustix::process::geteuid().is_root()
}

/// A machine whose agentctl folder others could write.
fn open_house() -> (Machine, PathBuf) {
    let machine = Machine::furnished();
    let home = machine.home().join(".agentctl");
    fs::create_dir_all(&home).unwrap();
    fs::set_permissions(machine.home(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&home, Permissions::from_mode(0o777)).unwrap();
    (machine, home)
}

fn give_away(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}

#[track_caller]
fn refused(ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    for word in words {
        assert!(ended.err.contains(word), "{word}: {ended:?}");
    }
}

#[test]
fn the_settings_of_another_user_are_not_believed() {
    if !can_play_another_user() {
        return skip("only root can give files away");
    }
    let (machine, home) = open_house();
    let config = home.join("config.toml");
    fs::write(&config, "[notify]\ncommand = \"touch /tmp/never\"\n").unwrap();
    assert_eq!(machine.run(&["list"]).code, Some(0), "our own are");
    give_away(&config);
    for args in [
        &["list"][..],
        &["config", "check"],
        &["config", "show"],
        &["locks"],
        &["launch", "claude-code", "-p", "x"],
    ] {
        refused(&machine.run(args), 1, &["config.toml", "belongs to another user (uid 65534)"]);
    }
    // Closing the folder afterwards does not make it ours.
    fs::set_permissions(&home, Permissions::from_mode(0o700)).unwrap();
    refused(&machine.run(&["list"]), 1, &["belongs to another user", "chown"]);
    chown(&config, Some(0), Some(0)).unwrap();
    fs::set_permissions(&config, Permissions::from_mode(0o666)).unwrap();
    assert_eq!(machine.run(&["list"]).code, Some(0), "nobody else comes to it");
    fs::set_permissions(&home, Permissions::from_mode(0o711)).unwrap();
    refused(&machine.run(&["list"]), 1, &["can be written by other users", "chmod go-w"]);
}

#[test]
fn a_folder_of_another_user_is_refused_by_every_command_and_left_as_it_is() {
    if !can_play_another_user() {
        return skip("only root can give folders away");
    }
    let (machine, home) = open_house();
    give_away(&home);
    for args in [
        &["list"][..],
        &["status", "x"],
        &["explain", "x"],
        &["logs", "x"],
        &["inbox"],
        &["locks"],
        &["fuses"],
        &["stop", "x"],
        &["prune", "--dry-run"],
        &["worktree", "list"],
        &["events"],
        &["daemon", "status"],
        &["daemon", "start"],
    ] {
        let words = [".agentctl belongs to another user (uid 65534)", "AGENTCTL_HOME", "chown"];
        refused(&machine.run(args), 7, &words);
    }
    let doctor = machine.run(&["doctor"]);
    assert!(doctor.out.contains("belongs to another user"), "{doctor:?}");
    assert_eq!(machine.run(&["man"]).code, Some(0));
    let found = fs::metadata(&home).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o777), (NOBODY, 0o777));
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
    let elsewhere = machine.command(&["list"]).env("AGENTCTL_HOME", machine.home().join("mine")).output();
    assert_eq!(Ended::of(&elsewhere.unwrap()).code, Some(0));
}

#[test]
fn no_link_in_the_folder_is_followed() {
    let (machine, home) = open_house();
    let victim = machine.home().join("victim");
    let folder = machine.home().join("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(&victim, "precious").unwrap();
    for (name, target, args, code) in [
        ("daemon.log", &victim, &["daemon", "start"][..], 5),
        ("daemon.lock", &victim, &["daemon", "start"], 5),
        ("daemon.lock", &victim, &["daemon", "stop"], 1),
        ("outbox", &folder, &["list"], 7),
        ("outbox", &folder, &["daemon", "start"], 7),
        ("launches", &folder, &["list"], 7),
        ("launches", &folder, &["launch", "claude-code", "-p", "x"], 7),
        ("locks.json", &victim, &["locks"], 1),
        ("locks.json.lock", &victim, &["lock", "~"], 1),
        ("fuses.json", &victim, &["fuses"], 1),
    ] {
        let link = home.join(name);
        symlink(target, &link).unwrap();
        refused(&machine.run(args), code, &["symbolic link"]);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{name}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{name}");
        fs::remove_file(&link).unwrap();
    }
}

#[test]
fn nobody_else_is_taken_for_the_daemon() {
    if !can_play_another_user() {
        return skip("only root can play another user");
    }
    let (machine, home) = open_house();
    let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen(9)\n\
        print('ready',flush=True)\nwhile True:\n c,_=s.accept()\n d=c.recv(9999)\n \
        d and print('heard',flush=True)\n c.close()\n";
    let mut impostor = Command::new("python3");
    impostor.args(["-c", script]).arg(home.join("agentctl.sock")).uid(NOBODY).stdout(Stdio::piped());
    let mut impostor = impostor.spawn().unwrap();
    let mut said = impostor.stdout.take().unwrap();
    let mut ready = [0; 6];
    said.read_exact(&mut ready).unwrap();
    let ask =
        |args: &[&str]| Ended::of(&machine.command(args).env_remove("AGENTCTL_NO_DAEMON").output().unwrap());
    let listed = ask(&["list", "-q", "--since", "all"]);
    let status = ask(&["daemon", "status"]);
    impostor.kill().unwrap();
    impostor.wait().unwrap();
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert_eq!(listed.out.lines().count(), 4, "it looked itself: {listed:?}");
    assert_ne!(status.code, Some(0), "{status:?}");
    let mut heard = String::new();
    said.read_to_string(&mut heard).unwrap();
    assert_eq!(heard.trim(), "", "nothing was said to it");
}
