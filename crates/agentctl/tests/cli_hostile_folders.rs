//! One session works in a folder that is a trap. The answers about all other sessions come as if it did not
//! exist.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run processes and plant traps")]

mod machine;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use machine::agent::Agent;
use machine::{DIED, Ended, Machine, TOOLS};
use serde_json::Value;

/// Ten times the promised time.
const DEADLINE: Duration = Duration::from_secs(20);

type Trap = (&'static str, fn(&Path));

const TRAPS: [Trap; 7] = [
    ("a FIFO as HEAD", |tree| {
        fs::create_dir(tree.join(".git")).unwrap();
        make_fifo(&tree.join(".git/HEAD"));
    }),
    ("a FIFO as .git", |tree| make_fifo(&tree.join(".git"))),
    ("a device without an end as HEAD", |tree| {
        fs::create_dir(tree.join(".git")).unwrap();
        symlink("/dev/zero", tree.join(".git/HEAD")).unwrap();
    }),
    ("a device without an end as .git", |tree| symlink("/dev/zero", tree.join(".git")).unwrap()),
    ("gigabytes as HEAD", |tree| {
        fs::create_dir(tree.join(".git")).unwrap();
        File::create(tree.join(".git/HEAD")).unwrap().set_len(1 << 42).unwrap();
    }),
    ("gigabytes as .git", |tree| File::create(tree.join(".git")).unwrap().set_len(1 << 42).unwrap()),
    ("a .git that leads to a FIFO", |tree| {
        fs::create_dir(tree.join("away")).unwrap();
        make_fifo(&tree.join("away/HEAD"));
        fs::write(tree.join(".git"), "gitdir: away\n").unwrap();
    }),
];

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// The output of the command, which must end by itself.
fn run(machine: &Machine, args: &[&str]) -> Ended {
    let mut command = machine.command(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > DEADLINE {
            child.kill().unwrap();
            panic!("{args:?} did not end: {:?}", Ended::of(&child.wait_with_output().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ended::of(&child.wait_with_output().unwrap())
}

fn json(machine: &Machine, args: &[&str]) -> Value {
    let ended = run(machine, args);
    assert_eq!(ended.code, Some(0), "{args:?} {ended:?}");
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

fn folder(machine: &Machine, name: &str) -> PathBuf {
    let path = machine.home().join(name);
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn a_trap_in_the_folder_of_one_session_holds_up_nobody() {
    for (what, set) in TRAPS {
        let machine = Machine::furnished();
        let (trapped, free) = (folder(&machine, "trapped"), folder(&machine, "free"));
        set(&trapped);
        let _caught = Agent::start(&machine, TOOLS, &trapped);
        let other = Agent::start(&machine, DIED, &free);
        let list = json(&machine, &["list", "--json"]);
        let ids = list["sessions"].as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap());
        let mut ids: Vec<&str> = ids.collect();
        ids.sort_unstable();
        assert_eq!(ids, [TOOLS, DIED], "{what}");
        let locks = json(&machine, &["locks", "--json"]);
        assert_eq!(locks["locks"].as_array().map(Vec::len), Some(2), "{what}: {locks}");
        for id in [DIED, TOOLS] {
            let status = json(&machine, &["status", id, "--json"]);
            assert!(status["pid"].is_u64(), "{what}: {status}");
        }
        assert_eq!(run(&machine, &["list", "--cwd", free.to_str().unwrap()]).code, Some(0), "{what}");
        let stopped = run(&machine, &["stop", DIED]);
        assert_eq!(stopped.code, Some(0), "{what}: {stopped:?}");
        assert!(!Path::new(&format!("/proc/{}/fd/0", other.pid())).exists(), "{what}");
    }
}

/// Obstacles in the place of our own files: each command ends, and reports what is wrong if it cannot
/// continue.
#[test]
fn a_fifo_in_the_place_of_any_file_of_ours_is_told_and_waited_for_by_nobody() {
    let own = [
        ("config.toml", vec!["list", "--json"], Some(1)),
        ("config.toml", vec!["config", "check"], Some(1)),
        ("config.toml", vec!["doctor"], None),
        ("locks.json", vec!["locks"], Some(1)),
        ("locks.json.lock", vec!["lock", "."], Some(1)),
        ("fuses.json", vec!["fuses"], Some(1)),
        ("http.token", vec!["list", "--json"], Some(0)),
        ("device.key", vec!["list", "--json"], Some(0)),
        ("daemon.lock", vec!["daemon", "status"], None),
        ("daemon.lock", vec!["daemon", "start"], Some(5)),
        ("daemon.log", vec!["daemon", "start"], Some(5)),
        ("daemon.log", vec!["daemon", "logs"], None),
        ("agentctl.sock", vec!["list", "--json"], Some(0)),
        ("outbox", vec!["list", "--json"], Some(7)),
        ("launches/l-1/launch.json", vec!["list", "--json"], Some(0)),
        ("launches/l-1/launch.json", vec!["prune"], Some(0)),
        ("launches/l-1", vec!["list", "--json"], Some(0)),
        ("launches", vec!["list", "--json"], Some(7)),
    ];
    for (name, args, code) in own {
        let machine = Machine::furnished();
        let path = machine.home().join(".agentctl").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        make_fifo(&path);
        let ended = run(&machine, &args);
        assert!(code.is_none() || ended.code == code, "{name} {args:?}: {ended:?}");
        if ended.code != Some(0) && name != "daemon.lock" {
            let said = format!("{}{}", ended.out, ended.err);
            assert!(said.contains(name.split('/').next().unwrap()), "{name} {args:?}: {ended:?}");
        }
        assert!(path.symlink_metadata().is_ok(), "nobody takes it away: {name} {args:?}");
    }
}

/// A launch whose exit file is a FIFO: the verdict on its session does not use it.
#[test]
fn a_fifo_as_the_exit_of_a_launch_hides_no_session() {
    let machine = Machine::furnished();
    let all = || json(&machine, &["list", "--json", "--since", "all"])["sessions"].as_array().map(Vec::len);
    let before = all();
    let launch = folder(&machine, ".agentctl/launches/l-1");
    for name in ["launch.json", "exit.json", "failed.json", "prompt", "callback.json", "told"] {
        make_fifo(&launch.join(name));
    }
    assert_eq!(all(), before);
    assert_eq!(run(&machine, &["prune", "--dry-run"]).code, Some(0));
}
