//! `lock`, `unlock` and `locks`: people and live sessions that hold directories.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run processes and wait for them")]

mod machine;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use machine::{Ended, Machine};
use serde_json::Value;

/// A folder in the machine's home.
fn folder(machine: &Machine, name: &str) -> PathBuf {
    let path = machine.home().canonicalize().unwrap().join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn locks(machine: &Machine) -> Vec<Value> {
    machine.json(&["locks", "--json"])["locks"].as_array().unwrap().clone()
}

#[test]
fn a_directory_is_locked_shown_and_unlocked() {
    let machine = Machine::empty();
    let site = folder(&machine, "site");
    let site = site.to_str().unwrap();
    assert!(machine.run(&["locks"]).out.contains("no directory is held"));
    assert!(!machine.home().join(".agentctl").exists(), "looking writes nothing");

    let locked = machine.run(&["lock", "~/site", "--by", "ann", "--reason", "releasing", "--ttl", "2h"]);
    assert_eq!(locked.code, Some(0), "{locked:?}");
    assert!(locked.out.starts_with("locked ") && locked.out.contains(" for ann until "), "{locked:?}");
    let shown = locks(&machine);
    assert_eq!(shown.len(), 1);
    assert_eq!((shown[0]["type"].as_str(), shown[0]["directory"].as_str()), (Some("manual"), Some(site)));
    assert_eq!((shown[0]["by"].as_str(), shown[0]["reason"].as_str()), (Some("ann"), Some("releasing")));
    let length: jiff::Timestamp = shown[0]["until"].as_str().unwrap().parse().unwrap();
    let since: jiff::Timestamp = shown[0]["since"].as_str().unwrap().parse().unwrap();
    assert_eq!(length.duration_since(since).as_secs(), 2 * 60 * 60);
    assert_eq!(shown[0]["sessionId"], Value::Null);
    let table = machine.run(&["locks"]).out;
    assert!(table.contains("locked: releasing") && table.contains("in 2h"), "{table}");

    assert_eq!(machine.run(&["unlock", &format!("{site}/below")]).code, Some(3));
    assert_eq!(machine.run(&["unlock", site]).code, Some(0));
    let again = machine.run(&["unlock", site]);
    assert_eq!(again.code, Some(3), "{again:?}");
    assert!(again.err.contains("is not locked by hand") && again.err.contains("hint: "), "{again:?}");
    assert!(locks(&machine).is_empty());
}

#[test]
fn a_lock_of_another_refuses_and_names_its_holder() {
    let machine = Machine::empty();
    folder(&machine, "site/src");
    assert_eq!(machine.run(&["lock", "~/site", "--by", "ann", "--reason", "releasing"]).code, Some(0));
    for directory in ["~/site", "~/site/src"] {
        let refused = machine.run(&["lock", directory, "--by", "bob"]);
        assert_eq!(refused.code, Some(7), "{refused:?}");
        assert!(refused.err.contains("/site is locked by ann (releasing)"), "{refused:?}");
    }
    assert_eq!(machine.run(&["lock", "~/site", "--by", "bob", "--force"]).code, Some(0));
    assert_eq!(locks(&machine)[0]["by"], "bob");
    assert_eq!(locks(&machine).len(), 1);
}

#[test]
fn of_many_at_once_exactly_one_gets_the_lock() {
    let machine = Machine::empty();
    folder(&machine, "site");
    let start = |number: u32| {
        let name = format!("person-{number}");
        machine
            .command(&["lock", "~/site", "--by", &name])
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let running: Vec<_> = (0..20).map(start).collect();
    let ended: Vec<Ended> =
        running.into_iter().map(|child| Ended::of(&child.wait_with_output().unwrap())).collect();
    let winner = locks(&machine)[0]["by"].as_str().unwrap().to_owned();
    let (won, lost): (Vec<_>, Vec<_>) = ended.iter().partition(|one| one.code == Some(0));
    assert_eq!((won.len(), lost.len()), (1, 19), "{ended:?}");
    assert!(lost.iter().all(|one| one.code == Some(7) && one.err.contains(&winner)), "{lost:?}");
}

/// A writer that is killed at any moment leaves the old document or the new one, and no stale lock.
#[test]
fn a_writer_that_is_killed_leaves_a_whole_document_and_no_lock_of_its_own() {
    let machine = Machine::empty();
    folder(&machine, "site");
    let long = "x".repeat(100_000);
    let start = |round: u32| {
        let reason = format!("{round} {long}");
        machine
            .command(&["lock", "~/site", "--by", "ann", "--reason", &reason])
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let began = Instant::now();
    assert!(start(0).wait().unwrap().success());
    let whole_run = began.elapsed();
    for round in 1..=40 {
        let mut child = start(round);
        // This sleep waits for nothing: each round is killed a little later, from the start to after the end.
        std::thread::sleep(whole_run * round / 32);
        child.kill().unwrap();
        child.wait().unwrap();
        let text = std::fs::read_to_string(machine.home().join(".agentctl/locks.json")).unwrap();
        let stored: Value = serde_json::from_str(&text).unwrap();
        assert!(stored["locks"][0]["reason"].as_str().unwrap().ends_with(&long), "round {round}");
    }
    // The next writer takes away what a killed one left.
    assert_eq!(machine.run(&["lock", "~/site", "--by", "ann", "--reason", "done"]).code, Some(0));
    let names: Vec<_> = std::fs::read_dir(machine.home().join(".agentctl")).unwrap().collect();
    assert_eq!(names.len(), 2, "the document and its lock file: {names:?}");
}

#[test]
fn without_a_name_it_is_the_users() {
    let machine = Machine::empty();
    folder(&machine, "site");
    let locked = machine.command(&["lock", "~/site", "--json"]).env("USER", "carol").output().unwrap();
    let locked: Value = serde_json::from_slice(&locked.stdout).unwrap();
    assert_eq!((locked["by"].as_str(), &locked["until"]), (Some("carol"), &Value::Null));
}

#[test]
fn what_cannot_be_locked_is_said_and_nothing_is_created() {
    let machine = Machine::empty();
    machine.write("file", "");
    for args in [
        &["lock", "~/nowhere"][..],
        &["lock", "~/file"],
        &["lock"],
        &["lock", "~", "--ttl", "soon"],
        &["lock", "~", "--ttl", "0s"],
        &["lock", "~", "--ttl", "99999999999w"],
        &["lock", "~", "--by", ""],
    ] {
        let ended = machine.run(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
    }
    assert!(!machine.home().join(".agentctl").exists());
}

#[test]
fn a_damaged_or_foreign_store_is_an_error_and_stays_as_it_is() {
    let machine = Machine::empty();
    machine.write(".agentctl/locks.json", "{\"version\": 1, \"lo");
    for args in [&["locks"][..], &["lock", "~"], &["unlock", "~"]] {
        let ended = machine.run(args);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains("locks.json is damaged") && ended.err.contains("hint: "), "{ended:?}");
    }
    let stored = std::fs::read_to_string(machine.home().join(".agentctl/locks.json")).unwrap();
    assert_eq!(stored, "{\"version\": 1, \"lo");
    let elsewhere = machine.home().join("elsewhere");
    std::os::unix::fs::symlink(machine.home().join(".agentctl"), &elsewhere).unwrap();
    let refused = machine.command(&["locks"]).env("AGENTCTL_HOME", &elsewhere).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("symbolic link"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_live_session_holds_its_working_tree_exactly_as_long_as_it_lives() {
    use machine::TOOLS;
    use machine::agent::Agent;

    let machine = Machine::furnished();
    let tree = folder(&machine, "repo");
    std::fs::create_dir_all(tree.join("src")).unwrap();
    std::fs::write(tree.join(".git"), "gitdir: elsewhere\n").unwrap();
    let mut agent = Agent::start(&machine, TOOLS, &tree.join("src"));
    let shown = locks(&machine);
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!((shown[0]["type"].as_str(), shown[0]["directory"].as_str()), (Some("auto"), tree.to_str()));
    assert_eq!(
        (shown[0]["sessionId"].as_str(), shown[0]["pid"].as_u64()),
        (Some(TOOLS), Some(agent.pid().into()))
    );
    assert!(shown[0]["since"].is_string());
    let table = machine.run(&["locks"]).out;
    assert!(table.contains(&format!("● running, pid {}", agent.pid())), "{table}");
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    assert!(locks(&machine).is_empty(), "killed with -9, and nobody released anything");
}

#[test]
fn a_second_lock_of_ones_own_says_what_it_changes_and_keeps_the_rest() {
    let machine = Machine::empty();
    folder(&machine, "site");
    let lock = |args: &[&str]| machine.run(&[&["lock", "~/site", "--by", "ann"], args].concat());
    assert_eq!(lock(&["--reason", "releasing", "--ttl", "2h"]).code, Some(0));
    let until = locks(&machine)[0]["until"].clone();
    let again = lock(&[]);
    assert!(again.out.contains(" until ") && again.out.contains("(releasing)"), "{again:?}");
    assert_eq!((&locks(&machine)[0]["until"], &locks(&machine)[0]["reason"]), (&until, &"releasing".into()));
    assert!(lock(&["--reason", "deploying"]).out.contains("(deploying)"));
    assert_eq!(locks(&machine)[0]["until"], until);
    assert_eq!(lock(&["--ttl", "5h"]).code, Some(0));
    assert!(locks(&machine)[0]["until"] != until && locks(&machine)[0]["reason"] == "deploying");
    // No user name is known: the variables of a test contain none.
    folder(&machine, "other");
    assert_eq!(machine.run(&["lock", "~/other"]).code, Some(0));
    let uid = String::from_utf8(std::process::Command::new("id").arg("-u").output().unwrap().stdout).unwrap();
    let by: Vec<_> = locks(&machine).iter().map(|lock| lock["by"].clone()).collect();
    assert!(by.contains(&format!("uid {}", uid.trim()).into()), "{by:?}");
}
