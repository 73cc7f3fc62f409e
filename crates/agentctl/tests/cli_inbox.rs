//! `inbox`: what waits for a person, with what to do next.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run processes and wait for them")]

mod machine;

use std::path::Path;

use machine::agent::Agent;
use machine::{DIED, Machine, TOOLS};

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
    assert_eq!(items[0]["next"][0], format!("agentctl attach {TOOLS}"));
    assert!(items[0]["since"].is_string() && items[0]["summary"].is_string());
    assert!(inbox["sources"].is_array() && inbox["asOf"].is_string());

    let table = machine.run(&["inbox", "--since", "all"]).out;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 6, "{table}");
    assert!(lines[1].contains("◐ approval") && lines[1].ends_with("claude-code"), "{table}");
    assert!(lines[2].starts_with("  │ "), "what it waits for, whole: {table}");
    assert_eq!(lines[3], "  → agentctl attach 22222222", "a command in one piece");
    assert!(lines[4].contains("✕ died"), "{table}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{table}");

    agent.says(&machine, r#""status":"idle""#);
    let later = machine.json(&["inbox", "--since", "all", "--json"]);
    assert_eq!(later["items"].as_array().unwrap().len(), 1);
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
