//! `inbox`: what waits for a person, with what to do next.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run processes and wait for them")]

mod machine;

use std::path::Path;

use machine::agent::Agent;
use machine::{DIED, Ended, Machine, TOOLS};

#[test]
fn a_permission_prompt_and_a_death_are_in_it_and_what_is_done_leaves() {
    let machine = Machine::furnished();
    let agent = Agent::start(&machine, TOOLS, Path::new("/home/dev/w/plain"));
    let waits = r#""status":"waiting","waitingFor":"permission prompt","statusUpdatedAt":1794725618359"#;
    agent.says(&machine, waits);
    let inbox = machine.json(&["inbox", "--since", "all", "--json"]);
    let items = inbox["items"].as_array().unwrap();
    let shown: Vec<_> =
        items.iter().map(|item| (item["kind"].as_str(), item["session"]["id"].as_str())).collect();
    assert_eq!(shown, [(Some("approval"), Some(TOOLS)), (Some("failure"), Some(DIED))], "{inbox:#}");
    assert_eq!(items[0]["next"][0], format!("agentctl peek {TOOLS}"), "it is in no pane");
    assert!(items[0]["onlyIn"].as_str().unwrap().contains(&agent.pid().to_string()), "{inbox:#}");
    // Its folder is gone, so it cannot be resumed.
    let next = [format!("agentctl inbox --done {DIED}"), format!("agentctl peek {DIED}")];
    assert_eq!(items[1]["next"], serde_json::json!(next), "{inbox:#}");
    assert!(items[0]["since"].is_string() && items[0]["summary"].is_string());
    assert!(inbox["sources"].is_array() && inbox["asOf"].is_string());

    let narrow = machine.command(&["inbox", "--since", "all"]).env("COLUMNS", "80").output().unwrap();
    let table = Ended::of(&narrow).out;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 7, "{table}");
    assert!(lines[1].contains("◐ approval") && lines[1].ends_with("claude-code"), "{table}");
    assert!(lines[2].starts_with("  │ "), "what it waits for, whole: {table}");
    let place = format!("  → answer it where it runs: process {}", agent.pid());
    assert!(lines[3].starts_with(&place), "{table}");
    assert!(lines[5].starts_with("  │ Bash: for i in"), "why, whole: {table}");
    assert!(lines[6].starts_with("  → agentctl inbox --done a0"), "a command in one piece: {table}");
    assert!(lines[4].contains("✕ died"), "{table}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{table}");

    agent.says(&machine, r#""status":"idle""#);
    let later = machine.json(&["inbox", "--since", "all", "--json"]);
    assert_eq!(later["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_failure_is_put_away_until_the_next_turn() {
    let machine = Machine::furnished();
    let ids = || machine.json(&["inbox", "--since", "all", "--json"])["items"].as_array().unwrap().len();
    assert_eq!(ids(), 1);
    let before = machine.json(&["status", DIED, "--json"]);
    let none = machine.run(&["inbox", "--done", TOOLS]);
    assert_eq!(none.code, Some(7), "{none:?}");
    assert!(none.err.contains("no failure to put away"), "{none:?}");
    assert_eq!(machine.run(&["inbox", "--done", "nobody"]).code, Some(3));
    assert_eq!(ids(), 1, "nothing was put away");

    let done = machine.run(&["inbox", "--done", DIED]);
    assert_eq!((done.code, done.out), (Some(0), format!("{DIED} is put away until its next turn\n")));
    let told = machine.json(&["inbox", "--done", DIED, "--json"]);
    assert_eq!((&told["done"][0]["id"], &told["done"][0]["done"]), (&DIED.into(), &true.into()), "{told:#}");
    assert_eq!(ids(), 0);
    assert_eq!(
        machine.json(&["status", DIED, "--json"])["outcome"],
        before["outcome"],
        "no status was stored"
    );
    let kept = std::fs::read_to_string(machine.home().join(".agentctl/marks.json")).unwrap();
    assert!(!kept.contains("died") && kept.contains(DIED), "{kept}");

    // The next turn of the session dies too, which is a new item.
    let place = machine.transcript("-home-dev-w-sig", DIED);
    let text = std::fs::read_to_string(&place).unwrap();
    let last = text.lines().rfind(|line| line.contains("\"timestamp\":\"")).unwrap();
    let at = last.split("\"timestamp\":\"").nth(1).unwrap().split('"').next().unwrap();
    std::fs::write(&place, format!("{text}{}\n", last.replace(at, "2026-11-15T23:59:59.999Z"))).unwrap();
    assert_eq!(ids(), 1, "it is back");

    // Marks that cannot be read hide nothing.
    machine.write(".agentctl/marks.json", "{");
    let shown = machine.run(&["inbox", "--since", "all"]);
    assert!(shown.out.contains("✕ died") && shown.err.contains("marks.json is damaged"), "{shown:?}");
}

#[test]
fn an_empty_one_says_so_and_silence_is_no_peace() {
    let machine = Machine::empty();
    let quiet = machine.run(&["inbox"]);
    assert_eq!((quiet.code, quiet.out.as_str()), (Some(0), "nothing waits for you\n"));
    machine.write(".claude/projects", "not a folder");
    let unheard = machine.run(&["inbox"]);
    assert!(unheard.err.starts_with("warning: claude-code"), "{unheard:?}");
    assert_eq!(machine.run(&["inbox", "--strict"]).code, Some(6));
    assert_eq!(machine.run(&["inbox", "--since", "yesterday"]).code, Some(2));
}
