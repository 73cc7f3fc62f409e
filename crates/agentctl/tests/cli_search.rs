//! `agentctl search`: words in every conversation of every agent, and `logs --at` where they were found.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

mod machine;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use machine::Machine;
use serde_json::{Value, json};

const HITS: [&str; 15] = [
    "sessionId",
    "adapter",
    "configRoot",
    "host",
    "at",
    "role",
    "tool",
    "hit",
    "line",
    "matches",
    "before",
    "after",
    "status",
    "name",
    "cwd",
];

fn hits(machine: &Machine, words: &[&str]) -> Vec<Value> {
    let ended = machine.run(&[&["search", "--json", "-n", "1000"], words].concat());
    assert!(ended.code == Some(0) || ended.out.is_empty(), "{ended:?}");
    ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn said(role: &str, at: &str, text: &str) -> String {
    let message = if role == "user" {
        json!({"role": "user", "content": text})
    } else {
        json!({"id": at, "role": "assistant", "model": "m", "content": [{"type": "text", "text": text}]})
    };
    let record =
        json!({"type": role, "timestamp": at, "cwd": "/w", "isSidechain": false, "message": message});
    format!("{record}\n")
}

const OLD: &str = "11111111-0000-4000-8000-000000000001";
const NEW: &str = "22222222-0000-4000-8000-000000000002";

/// Two conversations, one a day after the other.
fn two() -> Machine {
    let machine = Machine::empty();
    for (id, day) in [(OLD, "10"), (NEW, "11")] {
        let lines: String = (10..20)
            .map(|minute| {
                let at = |second: u32| format!("2026-11-{day}T10:{minute}:{second:02}.000Z");
                said("user", &at(1), &format!("Question {minute} about the parser"))
                    + &said("assistant", &at(2), &format!("Answer {minute}:\nthe parser\nis \"fine\""))
            })
            .collect();
        machine.write(&format!(".claude/projects/-w/{id}.jsonl"), &lines);
    }
    machine
}

#[test]
fn hits_come_newest_session_first_with_the_keys_of_the_contract() {
    let machine = two();
    let found = hits(&machine, &["parser"]);
    assert_eq!(found.len(), 40);
    let keys: Vec<&String> = found[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, HITS);
    let ids: Vec<&str> = found.iter().map(|hit| hit["sessionId"].as_str().unwrap()).collect();
    assert!(ids[..20].iter().all(|id| *id == NEW) && ids[20..].iter().all(|id| *id == OLD), "{ids:?}");
    let times: Vec<&str> = found[..20].iter().map(|hit| hit["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|newer, older| newer >= older), "{times:?}");
    assert_eq!((&found[0]["status"], &found[0]["line"]), (&json!("stopped"), &json!("the parser")));
    assert_eq!(found[0]["matches"], json!([[4, 10]]));
    let limited = machine.run(&["search", "parser", "-n", "3", "--json"]);
    assert_eq!(limited.out.lines().count(), 3);
    assert_eq!(machine.run(&["search", "parser", "--json"]).out.lines().count(), 40, "50 unless said");
}

#[test]
fn words_are_narrowed_by_role_time_agent_and_folder() {
    let machine = two();
    let count = |words: &[&str]| hits(&machine, words).len();
    assert_eq!(count(&["parser", "--role", "user"]), 20);
    assert_eq!(count(&["parser", "--role", "tool"]), 0);
    assert_eq!(count(&["parser", "--since", "2026-11-11"]), 20);
    assert_eq!(count(&["parser", "--since", "2026-11-11T10:19:02Z"]), 1);
    assert_eq!(count(&["parser", "--adapter", "codex"]), 0);
    assert_eq!(count(&["parser", "--cwd", "/w"]), 40);
    assert_eq!(count(&["parser", "--cwd", "/elsewhere"]), 0);
    assert_eq!(count(&["parser", "fine"]), 20, "all words in one message");
    assert_eq!(count(&["parser fine"]), 0, "one argument is literal");
    assert_eq!(count(&["is \"fine\""]), 20, "as it was meant");
    assert_eq!(count(&["PARSER"]), 0);
    assert_eq!(count(&["PARSER", "-i"]), 40);
    assert_eq!(count(&["--regex", "^answer 1[0-4]:$"]), 10);
    let ids = machine.run(&["search", "parser", "--files-with"]);
    assert_eq!(ids.out.lines().collect::<Vec<_>>(), [NEW, OLD]);
    let around = &hits(&machine, &["fine", "-C", "1"])[0];
    assert_eq!((&around["before"], &around["after"]), (&json!(["the parser"]), &json!([])));
}

#[test]
fn a_conversation_opens_at_a_hit() {
    let machine = two();
    let found = hits(&machine, &["Question 13"]);
    let [hit, _] = found.as_slice() else { panic!("{found:?}") };
    let place = hit["hit"].as_str().unwrap();
    let shown = machine.run(&["logs", NEW, "--at", place, "-n", "3", "--json"]);
    let texts: Vec<String> = shown
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(texts.len(), 3, "{shown:?}");
    assert!(
        texts[0].starts_with("Answer 12")
            && texts[1].starts_with("Question 13")
            && texts[2].starts_with("Answer 13")
    );
    let person = machine.run(&["logs", NEW, "--at", place, "-n", "3"]);
    assert!(person.out.contains("▶"), "{person:?}");
    let gone = machine.run(&["logs", NEW, "--at", "7777777.0"]);
    assert_eq!(gone.code, Some(3), "{gone:?}");
}

#[test]
fn nothing_found_is_1_and_not_heard_is_6_and_nonsense_is_2() {
    let machine = two();
    assert_eq!(machine.run(&["search", "unheard-of"]).code, Some(1));
    assert_eq!(machine.run(&["search", "--regex", "("]).code, Some(2));
    assert_eq!(machine.run(&["search", " "]).code, Some(2));
    assert_eq!(machine.run(&["search"]).code, Some(2));
    assert_eq!(machine.run(&["search", "x", "--role", "robot"]).code, Some(2));
    // A conversation that cannot be read could have held it.
    let blocked = machine.home().join(".codex/sessions");
    std::fs::create_dir_all(blocked.parent().unwrap()).unwrap();
    std::fs::write(&blocked, "no folder").unwrap();
    let unheard = machine.run(&["search", "unheard-of"]);
    assert_eq!(unheard.code, Some(6), "{unheard:?}");
    assert_eq!(machine.run(&["search", "parser"]).code, Some(0), "what was found was found");
}

#[test]
fn a_line_that_may_fit_and_cannot_be_read_is_told() {
    let machine = Machine::empty();
    let at = |second: u32| format!("2026-11-11T10:00:{second:02}.000Z");
    let junk = "{\"type\":\"user\",\"message\":\"a torn needle\n";
    let torn = "{\"type\":\"user\",\"message\":\"a fresh needle";
    let lines = said("user", &at(1), "a needle") + junk + &said("user", &at(2), "a pin") + torn;
    machine.write(&format!(".claude/projects/-w/{NEW}.jsonl"), &lines);
    let found = machine.run(&["search", "needle"]);
    assert_eq!(found.code, Some(0), "what was found was found: {found:?}");
    assert!(found.err.contains("1 line that may fit cannot be read"), "{found:?}");
    let unheard = machine.run(&["search", "torn"]);
    assert_eq!(unheard.code, Some(6), "{unheard:?}");
    // What cannot fit says nothing about this search, and neither does a line that is still being written.
    for (word, code) in [("pin", 0), ("fresh", 1), ("nowhere", 1)] {
        let heard = machine.run(&["search", word]);
        assert!(heard.code == Some(code) && !heard.err.contains("cannot be read"), "{word}: {heard:?}");
    }
}

#[test]
fn what_is_hostile_is_shown_without_its_teeth() {
    let machine = Machine::empty();
    let at = "2026-11-11T10:00:00.000Z";
    let teeth = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}desrever\u{0}";
    let text = format!("before {teeth}\nneedle {teeth}\nafter {teeth}");
    machine.write(&format!(".claude/projects/-w/{NEW}.jsonl"), &said("user", at, &text));
    let around: [&[&str]; 5] = [
        &["needle"],
        &["needle", "--json"],
        &["desrever"],
        &["needle", "-C", "1"],
        &["needle", "-C", "1", "--json"],
    ];
    for arguments in around {
        let ended = machine.run(&[&["search"], arguments].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        // Once in the name of the session, and once more with the lines around.
        let shown = ended.out.matches("after ]").count();
        assert_eq!(shown, 1 + usize::from(arguments.contains(&"-C")), "{ended:?}");
        let hostile = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!ended.out.chars().any(hostile), "{ended:?}");
    }
}

/// Every entry that `logs` shows is found by each of its longer words, for every recorded agent.
#[test]
fn every_word_that_logs_show_is_found_in_every_recorded_home() {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            let target = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                copy(&entry.path(), &target);
            } else {
                std::fs::copy(entry.path(), target).unwrap();
            }
        }
    }
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded");
    let cases = [
        "claude-code/tool-calls",
        "codex/tools",
        "codex/legacy",
        "copilot/tool-call",
        "gemini/tool-call",
        "qwen/tool-call",
        "slate",
        "opencode",
        "pi",
    ];
    let mut words_seen = 0;
    for case in cases {
        let folder = recorded.join(case);
        let folder = if case.contains('/') {
            folder
        } else {
            std::fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.is_dir())
                .min()
                .unwrap()
        };
        if !folder.exists() {
            continue;
        }
        let machine = Machine::empty();
        copy(&folder, machine.home());
        for id in machine.ids(&[]).into_iter().take(2) {
            let logs = machine.run(&["logs", &id, "-n", "1000", "--json"]);
            let entries = logs.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            for entry in entries.take(4) {
                let text = entry["text"].as_str().unwrap();
                let words =
                    text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() > 5);
                let Some(word) = words.max_by_key(|word| word.len()) else { continue };
                let found = hits(&machine, &[word]);
                let own = found.iter().any(|hit| {
                    hit["sessionId"] == *id && hit["at"] == entry["at"] && hit["role"] == entry["role"]
                });
                assert!(own, "{case}: {word} of {entry:#} in {found:#?}");
                words_seen += 1;
            }
        }
    }
    assert!(words_seen > 12, "{words_seen}");
}

#[test]
fn a_reader_that_leaves_ends_the_search_quietly() {
    let machine = two();
    let mut search = machine.command(&["search", "parser", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(search.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    drop(out);
    assert!(first.starts_with('{'));
    let code = machine::code_of(search);
    assert_eq!(code, Some(0));
}

/// Ctrl-C ends a search at once, whatever a source does. This one has taken the connection and says nothing.
#[test]
fn an_interrupt_ends_a_search_at_once() {
    let machine = two();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = format!(
        "[adapters.openclaw]\ntimeout = \"10m\"\ngateways = [{{url = \"ws://{}\", token = \"t\"}}]\n",
        silent.local_addr().unwrap()
    );
    machine.write(".agentctl/config.toml", &settings);
    let search = machine.command(&["search", "unheard-of"]).stdout(Stdio::piped()).spawn().unwrap();
    let _connection = silent.accept().unwrap();
    assert_eq!(machine::interrupted(search), Some(130));
}

/// The limit is one for all sources together, and what is cut off is told.
#[test]
fn a_limit_is_one_for_all_sources() {
    let machine = two();
    let store =
        ".pi/agent/sessions/--w--/2026-11-15T06-53-06-724Z_aaaaaaaa-0000-4000-8000-00000000000a.jsonl";
    let header = json!({"type": "session", "version": 3, "id": "aaaaaaaa-0000-4000-8000-00000000000a", "cwd": "/w",
        "timestamp": "2026-11-15T06:53:06.724Z"});
    let message = |minute: u32| {
        let message = json!({"type": "message", "id": format!("m{minute}"), "parentId": null,
            "timestamp": format!("2026-11-15T06:{minute}:07.724Z"),
            "message": {"role": "user", "content": [{"type": "text", "text": "the parser of pi"}]}});
        format!("{message}\n")
    };
    machine.write(store, &format!("{header}\n{}{}", message(54), message(55)));
    let found = |limit: &str| -> Vec<String> {
        let ended = machine.run(&["search", "parser", "-n", limit, "--json"]);
        let hits = ended.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        hits.map(|hit| hit["adapter"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found("1"), ["pi"]);
    assert_eq!(found("3"), ["pi", "pi", "claude-code"]);
    assert_eq!(found("1000").len(), 42);
    let cut = machine.run(&["search", "parser", "-n", "3"]);
    assert!(cut.err.contains("there may be more than 3"), "{cut:?}");
}
