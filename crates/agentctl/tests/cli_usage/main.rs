//! `agentctl usage`: every model call counts once, at its own time, in the session that made it.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

#[path = "../machine/mod.rs"]
mod machine;

mod copies;
mod costs;
mod judge;
mod windows;

use machine::Machine;
use serde_json::{Value, json};

/// The key, the tokens and the number of sessions of a row.
type Row<'r> = (Option<&'r str>, [Option<u64>; 4], u64);

/// The rows of a report.
fn rows(report: &Value) -> Vec<Row<'_>> {
    let row = |row: &'_ Value| {
        let part = |name: &str| row["tokens"][name].as_u64();
        let tokens = [part("in"), part("out"), part("cacheRead"), part("cacheWrite")];
        (tokens, row["sessions"].as_u64().unwrap())
    };
    let all = report["rows"].as_array().unwrap().iter();
    all.map(|one| (one["key"].as_str(), row(one).0, row(one).1)).collect()
}

/// One reply in a transcript of Claude Code: 100 tokens in, 10 out.
fn reply(session: &str, message: &str, at: &str, more: &Value) -> String {
    let mut record = json!({
        "type": "assistant", "sessionId": session, "timestamp": at, "cwd": "/w", "isSidechain": false,
        "message": {
            "id": message, "role": "assistant", "model": "claude-opus-5-5", "content": [{"type": "text", "text": "ok"}],
            "usage": {"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
        },
    });
    for (key, value) in more.as_object().unwrap() {
        record[key.as_str()] = value.clone();
    }
    format!("{record}\n")
}

fn prompt(session: &str, at: &str) -> String {
    let record = json!({
        "type": "user", "sessionId": session, "timestamp": at, "cwd": "/w", "isSidechain": false,
        "message": {"role": "user", "content": "go"},
    });
    format!("{record}\n")
}

const ONE: &str = "11111111-0000-4000-8000-000000000001";
const TWO: &str = "22222222-0000-4000-8000-000000000002";

fn transcript(id: &str) -> String {
    format!(".claude/projects/-w/{id}.jsonl")
}

fn by_session(machine: &Machine) -> Value {
    machine.json(&["usage", "--by", "session", "--json"])
}

#[test]
fn the_answer_has_the_keys_of_the_contract() {
    let machine = Machine::furnished();
    let report = by_session(&machine);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for key in ["rows", "total", "unpriced", "sources"] {
        assert!(keys(&report).contains(&key.to_owned()), "{report:#}");
    }
    assert_eq!(keys(&report["total"]), ["tokens", "cost", "costBasis", "sessions"]);
    for row in report["rows"].as_array().unwrap() {
        for key in ["key", "tokens", "cost", "costBasis", "sessions"] {
            assert!(row.as_object().unwrap().contains_key(key), "{row:#}");
        }
    }
    let listed = machine.json(&["list", "--since", "all", "--all-agents", "--usage", "--json"]);
    for session in listed["sessions"].as_array().unwrap() {
        let row = report["rows"].as_array().unwrap().iter().find(|row| row["key"] == session["id"]);
        assert_eq!(row.map(|row| &row["tokens"]), Some(&session["tokens"]), "as `list --usage` has it");
    }
}

#[test]
fn a_person_reads_it_within_80_columns_and_a_mistake_says_what_is_right() {
    let machine = Machine::furnished();
    let mut command = machine.command(&["usage", "--by", "session"]);
    let table = machine::Ended::of(&command.env("COLUMNS", "80").output().unwrap());
    assert!(table.out.lines().all(|line| line.chars().count() <= 80), "{}", table.out);
    assert!(table.out.lines().last().unwrap().starts_with("total"), "{}", table.out);
    for (wrong, right) in [
        (["--by", "hour"], "day"),
        (["--tz", "Mars/Olympus"], "Europe/Berlin"),
        (["--since", "soonish"], "2026-11-15"),
    ] {
        let ended = machine.run(&["usage", wrong[0], wrong[1]]);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains(right), "{ended:?}");
    }
    let nothing = Machine::empty().run(&["usage"]);
    assert_eq!((nothing.code, nothing.out.trim()), (Some(0), "nothing was spent in this time"));
}
