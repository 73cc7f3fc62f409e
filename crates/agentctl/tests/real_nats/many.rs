//! Many machines of the bus, most of them silent, and what a shell completes of them.

use std::fs;

use agentctl_testkit::nats::RawNats;
use agentctl_testkit::until_seen;
use serde_json::{Value, json};

use crate::scene::{Asker, Machine, PATIENCE, open_server};

const FAR: &str = "bbbbbbbb-0000-4000-8000-00000000000b";

/// A machine with a stopped session.
fn machine(name: &str, url: &str) -> Machine {
    let machine = Machine::start(name, url, "serve = \"read\"");
    let folder = machine.house.home.path().join(".claude/projects/-w");
    fs::create_dir_all(&folder).unwrap();
    let line = json!({
        "type": "user", "uuid": "11111111-1111-4111-8111-111111111111", "parentUuid": null, "sessionId": FAR,
        "timestamp": "2026-11-15T10:00:00.000Z", "cwd": "/w", "version": "2.0.0",
        "message": {"role": "user", "content": "a needle there"},
    });
    fs::write(folder.join(format!("{FAR}.jsonl")), format!("{line}\n")).unwrap();
    machine
}

#[test]
fn a_hundred_silent_machines_are_a_few_lines() {
    let asker = Asker::new();
    let Some(server) = open_server(&asker) else { return };
    let _machine = machine("dev1", &server.url());
    asker.hears(&["dev1"]);
    let mut raw = RawNats::connect(server.port).unwrap();
    for number in 0..100 {
        raw.publish(&format!("$KV.agentctl_hosts.gone{number:03}"), b"{}").unwrap();
    }
    raw.settle().unwrap();
    let list = asker.home.agentctl(&["list", "--since", "all", "--host", "all"]).ok();
    assert!(list.stdout.contains("dev1/bbbbbbbb"), "{list:?}");
    assert!(list.stderr.lines().count() <= 4, "{}", list.stderr);
    assert!(
        list.stderr.contains("gone000, gone001, gone002 and 97 other machines were not heard"),
        "{}",
        list.stderr
    );
    let rows = asker.home.agentctl(&["list", "--host", "all", "--json"]).ok().json()["hosts"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(rows, 102);
    let hosts = asker.home.agentctl(&["hosts"]).ok();
    assert!(hosts.stdout.lines().count() >= 102 && hosts.stderr.lines().count() <= 4, "{}", hosts.stderr);
}

/// In a home where agentctl never was, the first step of docs/hosts.md makes the key and its folder.
#[test]
fn the_first_key_makes_its_folder() {
    let asker = Asker::new();
    let file = asker.home.agentctl_home().join("nats.key");
    let made = asker.home.agentctl(&["hosts", "key", file.to_str().unwrap()]).ok();
    assert!(made.stdout.starts_with('U') && fs::read_to_string(&file).unwrap().starts_with("SU"), "{made:?}");
    let elsewhere = asker.home.path().join("not-there/nats.key");
    assert_eq!(asker.home.agentctl(&["hosts", "key", elsewhere.to_str().unwrap()]).code, Some(1));
}

#[test]
fn names_and_ids_of_the_bus_are_completed_and_its_conversations_read() {
    let asker = Asker::new();
    let Some(server) = open_server(&asker) else { return };
    let _machine = machine("dev1", &server.url());
    asker.hears(&["dev1"]);
    let run = |arguments: &[&str]| asker.home.agentctl(arguments);
    // A key press waits a second for the bus, in which a busy machine may not answer.
    let offers = |words: &[&str], expected: &str| {
        until_seen(PATIENCE, "what a shell completes", || {
            let mut complete = asker.home.agentctl_command(&[&["--", "agentctl"], words].concat());
            complete.env("COMPLETE", "fish");
            let said = asker.home.run(complete).ok().stdout;
            let offered: Vec<&str> = said.lines().map(|line| line.split('\t').next().unwrap()).collect();
            if offered == [expected] { Ok(()) } else { Err(format!("{words:?}: {offered:?}")) }
        });
    };
    offers(&["list", "--host", "de"], "dev1");
    offers(&["hosts", "check", "d"], "dev1");
    offers(&["status", "dev"], "dev1/");
    offers(&["status", "dev1/b"], &format!("dev1/{FAR}"));
    let hit: Value =
        serde_json::from_str(&run(&["search", "needle", "--host", "all", "--json"]).ok().stdout).unwrap();
    assert_eq!((&hit["host"], &hit["sessionId"]), (&json!("dev1"), &json!(FAR)), "{hit:#}");
    let opened = run(&["logs", "dev1/bbbb", "--at", hit["hit"].as_str().unwrap()]).ok().stdout;
    assert!(opened.contains("a needle there"), "{opened}");
    let usage = run(&["usage", "--host", "all", "--json"]).ok().json();
    assert_eq!(usage["hosts"][1]["coverage"], "complete", "{usage:#}");
    let fuses = run(&["fuses", "--host", "all", "--json"]).ok().json();
    assert_eq!(fuses["hosts"][1]["name"], "dev1", "{fuses:#}");
    assert!(run(&["adapters", "--host", "dev1"]).ok().stdout.contains("codex"));
    // Who serves to read sets no fuse.
    let refused = run(&["fuse", "set", "/tmp", "--ttl", "1h", "--host", "dev1"]);
    assert_eq!(refused.code, Some(7), "{refused:?}");
    assert!(refused.stderr.contains("read and not act"), "{refused:?}");
}
