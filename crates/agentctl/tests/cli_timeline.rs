//! `agentctl timeline`: who worked, waited and rested when, from recorded times only.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

mod machine;

use std::path::Path;

use machine::Machine;
use machine::agent::Agent;
use serde_json::{Value, json};

const ID: &str = "11111111-0000-4000-8000-000000000001";
const OTHER: &str = "22222222-0000-4000-8000-000000000002";

fn record(id: &str, at: &str, kind: &str, message: &Value) -> String {
    let record = json!({
        "type": kind, "sessionId": id, "timestamp": at, "cwd": "/w", "isSidechain": false, "message": message,
    });
    format!("{record}\n")
}

fn prompt(id: &str, at: &str, words: &str) -> String {
    record(id, at, "user", &json!({"role": "user", "content": words}))
}

fn reply(id: &str, at: &str, stop: &str, content: &Value) -> String {
    record(
        id,
        at,
        "assistant",
        &json!({"role": "assistant", "model": "m", "stop_reason": stop, "content": content}),
    )
}

/// Two turns, with a question in the first.
fn day(id: &str) -> String {
    let asks = json!([{"type": "tool_use", "id": "t1", "name": "AskUserQuestion", "input": {}}]);
    let answer =
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "v5"}]});
    let words = json!([{"type": "text", "text": "done"}]);
    [
        prompt(id, "2026-11-15T08:00:00.000Z", "Fix <it> & \"go\""),
        reply(id, "2026-11-15T08:05:00.000Z", "tool_use", &asks),
        record(id, "2026-11-15T08:20:00.000Z", "user", &answer),
        reply(id, "2026-11-15T08:30:00.000Z", "end_turn", &words),
        prompt(id, "2026-11-15T10:00:00.000Z", "And now the docs"),
        reply(id, "2026-11-15T10:10:00.000Z", "end_turn", &words),
    ]
    .concat()
}

fn transcript(id: &str) -> String {
    format!(".claude/projects/-w/{id}.jsonl")
}

/// The spans of a lane as `08:00-08:05 running`.
fn spans(timeline: &Value, id: &str) -> Vec<String> {
    let lane = timeline["lanes"].as_array().unwrap().iter().find(|lane| lane["sessionId"] == id);
    let hour = |time: &Value| time.as_str().map_or(String::new(), |time| time[11..16].to_owned());
    let lane = lane.unwrap_or_else(|| panic!("no lane of {id}: {timeline:#}"));
    let spans = lane["spans"].as_array().unwrap().iter();
    spans
        .map(|span| {
            format!("{}-{} {}", hour(&span["from"]), hour(&span["to"]), span["status"].as_str().unwrap())
        })
        .collect()
}

#[test]
fn the_times_of_a_session_are_those_of_its_records() {
    let machine = Machine::empty();
    machine.write(&transcript(ID), &day(ID));
    let all = machine.json(&["timeline", "--since", "all", "--json"]);
    let day = [
        "08:00-08:05 running",
        "08:05-08:20 waiting",
        "08:20-08:30 running",
        "08:30-10:00 idle",
        "10:00-10:10 running",
    ];
    assert_eq!(spans(&all, ID), day);
    let lane = &all["lanes"][0];
    let keys: Vec<&String> = lane.as_object().unwrap().keys().collect();
    for key in ["sessionId", "host", "adapter", "configRoot", "spans"] {
        assert!(keys.iter().any(|known| *known == key), "{lane:#}");
    }
    assert_eq!((&lane["status"], &all["window"]["since"]), (&"stopped".into(), &Value::Null));
    // The window cuts: only what lies in it is told, and a session that did nothing in it has no lane.
    let later_on = machine.json(&["timeline", "--since", "2026-11-15T09:00:00Z", "--json"]);
    assert_eq!(spans(&later_on, ID), ["09:00-10:00 idle", "10:00-10:10 running"]);
    let later = machine.json(&["timeline", "--since", "2026-11-15T11:00:00Z", "--json"]);
    assert_eq!(later["lanes"], json!([]));
    // One that is asked for by its id has one all the same.
    let asked = machine.json(&["timeline", "1111", "--since", "2026-11-15T11:00:00Z", "--json"]);
    assert_eq!((asked["lanes"].as_array().unwrap().len(), spans(&asked, ID).len()), (1, 0));
    assert_eq!(machine.run(&["timeline", "9999", "--json"]).code, Some(3));
    assert_eq!(machine.run(&["timeline", "--since", "soon"]).code, Some(2));
}

#[test]
fn what_still_lasts_has_no_end_and_a_longer_record_changes_nothing_before_it() {
    let machine = Machine::empty();
    let cwd = machine.home().join("w");
    std::fs::create_dir_all(&cwd).unwrap();
    machine.write(&transcript(ID), &day(ID));
    let before = machine.json(&["timeline", "--since", "all", "--json"]);
    let agent = Agent::start(&machine, ID, &cwd);
    agent.says(&machine, r#""status":"idle""#);
    let alive = machine.json(&["timeline", "--since", "all", "--json"]);
    let (then, now) = (spans(&before, ID), spans(&alive, ID));
    assert_eq!(now[..then.len()], then[..]);
    // The process began after the last record: when the one before it ended nobody says.
    assert!(now[5].starts_with("10:10-") && now[5].ends_with("unknown"), "{now:?}");
    assert!(now[6].ends_with("- idle"), "{now:?}");
    assert_eq!(alive["lanes"][0]["spans"][6]["to"], Value::Null);
}

#[test]
fn a_conversation_that_cannot_be_read_is_said_and_the_others_are_drawn() {
    let machine = Machine::empty();
    machine.write(&transcript(ID), &day(ID));
    // A line that is no record, and half a record at the end: what can be read is.
    let torn = format!("{}nonsense\n{}", day(OTHER), &prompt(OTHER, "2026-11-15T11:00:00.000Z", "x")[..60]);
    machine.write(&transcript(OTHER), &torn);
    let all = machine.json(&["timeline", "--since", "all", "--json"]);
    assert_eq!(spans(&all, OTHER), spans(&all, ID));
}

#[test]
fn the_terminal_shows_it_in_any_width_and_without_colour() {
    let machine = Machine::empty();
    machine.write(&transcript(ID), &day(ID));
    for width in ["80", "200"] {
        let mut command = machine.command(&["timeline", "--since", "2026-11-15T07:00:00Z"]);
        let ended = machine::Ended::of(&command.env("COLUMNS", width).output().unwrap());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        for line in ended.out.lines() {
            assert!(line.chars().count() <= width.parse().unwrap(), "{line}");
        }
        assert!(
            ended.out.contains("Fix <it>") && ended.out.contains('█') && ended.out.contains('▚'),
            "{}",
            ended.out
        );
        assert!(!ended.out.contains('\u{1b}'));
    }
    let nothing = machine.run(&["timeline", "--since", "2026-11-15T11:00:00Z"]);
    assert_eq!((nothing.code, nothing.out.as_str()), (Some(0), "nothing is recorded of this time\n"));
    assert!(nothing.err.contains("--since 7d"), "{nothing:?}");
}

#[test]
fn the_picture_is_well_formed_harmless_and_names_both_times() {
    let machine = Machine::empty();
    let hostile = "</title><script>alert(1)</script>\u{1b}[31m\u{202e}&\"' onload=x";
    machine.write(&transcript(ID), &day(ID));
    let words = json!([{"type": "text", "text": "ok"}]);
    let other = prompt(OTHER, "2026-11-15T09:00:00.000Z", hostile)
        + &reply(OTHER, "2026-11-15T09:01:00.000Z", "end_turn", &words);
    machine.write(&transcript(OTHER), &other);
    let file = machine.home().join("day.svg");
    let ended = machine.run(&["timeline", "--since", "all", "--svg", file.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let picture = std::fs::read_to_string(&file).unwrap();
    let lower = picture.to_lowercase();
    for forbidden in
        ["<script", "<a ", "href", "<image", "<foreignobject", "<use", "@import", "<!", "\u{1b}", "\u{202e}"]
    {
        assert!(!lower.contains(forbidden), "{forbidden}: {picture}");
    }
    assert_eq!(lower.matches("://").count(), 1, "only the name of the format: {picture}");
    assert!(
        picture.contains("<title>waiting, 2026-11-15T08:05:00Z to 2026-11-15T08:20:00Z</title>"),
        "{picture}"
    );
    assert!(picture.contains("prefers-color-scheme: dark") && picture.contains("url(#hatch)"));
    assert!(is_well_formed(&file), "{picture}");
    // The same on standard output, and again over a file that is there.
    let printed = machine.run(&["timeline", "--since", "all", "--svg", "-"]);
    assert!(printed.out.starts_with("<svg ") && printed.out.ends_with("</svg>\n"), "{printed:?}");
    assert_eq!(machine.run(&["timeline", "--since", "all", "--svg", file.to_str().unwrap()]).code, Some(0));
    let nowhere = machine.run(&["timeline", "--svg", "/nowhere/x.svg"]);
    assert_eq!(nowhere.code, Some(1), "{nowhere:?}");
}

/// By a parser that others wrote.
fn is_well_formed(file: &Path) -> bool {
    let parse = "import sys, xml.dom.minidom as m; d = m.parse(sys.argv[1]); \
        bad = [n for e in d.getElementsByTagName('*') for n in e.attributes.keys() if n.lower().startswith('on')]; \
        sys.exit(len(bad))";
    let run = std::process::Command::new("python3").args(["-c", parse]).arg(file).status();
    run.unwrap().success()
}
