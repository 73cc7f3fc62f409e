//! Transcripts whose bytes are not what they should be.

use std::path::Path;

use serde_json::Value;

use crate::storage::{HURT, Storage, answered, asked, conversation};

/// Three turns, line by line.
fn lines() -> Vec<String> {
    vec![
        asked(HURT, "first"),
        answered(HURT, "m1", "one"),
        asked(HURT, "second"),
        answered(HURT, "m2", "two"),
        asked(HURT, "third"),
        answered(HURT, "m3", "it is done"),
    ]
}

fn completed(row: &Value) {
    assert_eq!(
        (row["status"].as_str(), row["outcome"].as_str()),
        (Some("stopped"), Some("completed")),
        "{row:#}"
    );
    assert_eq!(row["lastMessage"], "it is done");
    assert_eq!(row["cwd"], "/work");
}

#[test]
fn a_file_without_a_single_record_is_left_out() {
    for bytes in
        [&b"\n\n"[..], b"{\"type\":\"us", b"\xff\xfe\x00\xff\n", b"no json at all\nnone here\n", &[0; 4096]]
    {
        let storage = Storage::sound();
        std::fs::write(storage.hurt(), bytes).unwrap();
        let seen = storage.examine();
        assert!(seen.row(HURT).is_none());
        seen.left_out(&storage.hurt());
    }
}

#[test]
fn an_empty_file_is_no_conversation_yet() {
    let storage = Storage::sound();
    std::fs::write(storage.hurt(), b"").unwrap();
    let seen = storage.examine();
    assert!(seen.row(HURT).is_none());
    seen.complete();
    seen.without_warnings();
}

type Damage = fn(&str) -> Vec<u8>;

#[test]
fn damage_in_the_first_the_middle_and_the_last_line() {
    let damages: [(&str, Damage); 3] = [
        ("corrupt", |line| line.replacen(':', ";", 3).into_bytes()),
        ("truncated", |line| [&line.as_bytes()[..line.len() / 2], b"\n"].concat()),
        ("with NULs", |line| [&[0; 512][..], line.as_bytes()].concat()),
    ];
    for (what, damage) in damages {
        let total = lines().len();
        for hit in [0, 3, total - 1] {
            let storage = Storage::sound();
            let mut bytes = Vec::new();
            for (number, line) in lines().iter().enumerate() {
                if number == hit { bytes.extend(damage(line)) } else { bytes.extend(line.as_bytes()) }
            }
            std::fs::write(storage.hurt(), bytes).unwrap();
            let seen = storage.examine();
            let row = seen.kept_with_a_warning(HURT, &storage.hurt());
            if hit == total - 1 {
                // The last reply is lost with its line, so the turn is open and no process owns it.
                assert_eq!(row["outcome"], "died", "{what}: {row:#}");
                assert_eq!(row["lastMessage"], "two");
            } else {
                completed(row);
            }
            assert_eq!(row["tokens"]["in"], if hit == 0 { 33 } else { 22 }, "{what} in line {hit}");
            assert_eq!(row["prompt"], if hit == 0 { "second" } else { "first" }, "{what} in line {hit}");
        }
    }
}

#[test]
fn bytes_that_are_not_utf8_are_replaced_and_the_record_counts() {
    const REPLACED: &str = "\u{fffd}\u{fffd}\u{fffd}(";
    let last = lines().len() - 1;
    for (hit, text) in [(0, "first"), (3, "two"), (last, "it is done")] {
        let storage = Storage::sound();
        let mut bytes = Vec::new();
        for (number, line) in lines().iter().enumerate() {
            let mut line = line.as_bytes().to_vec();
            if number == hit {
                let quoted = format!("\"{text}\"");
                let at = line.windows(quoted.len()).position(|part| part == quoted.as_bytes()).unwrap();
                let end = at + quoted.len() - 1;
                line.splice(end..end, *b"\xff\xfe\xc3\x28");
            }
            bytes.extend(line);
        }
        std::fs::write(storage.hurt(), bytes).unwrap();
        let seen = storage.examine();
        seen.complete();
        let row = seen.row(HURT).unwrap();
        assert_eq!((&row["status"], &row["outcome"]), (&"stopped".into(), &"completed".into()), "{row:#}");
        assert_eq!(row["tokens"]["in"], 33, "every record counts: {row:#}");
        let shown = |number, text: &str| text.to_owned() + if hit == number { REPLACED } else { "" };
        assert_eq!(row["prompt"], shown(0, "first"), "{row:#}");
        assert_eq!(row["lastMessage"], shown(last, "it is done"), "{row:#}");
        let peeked = storage.home.agentctl(&["peek", HURT, "--json"]).ok().stdout;
        assert!(peeked.contains(&format!("{text}{REPLACED}")), "{peeked}");
    }
}

#[test]
fn a_last_line_that_is_still_being_written_is_no_damage() {
    let storage = Storage::sound();
    let half = answered(HURT, "m9", "never finished");
    let text = conversation(HURT, "first") + &half[..half.len() / 2];
    std::fs::write(storage.hurt(), text).unwrap();
    let seen = storage.examine();
    completed(seen.row(HURT).unwrap());
    seen.complete();
    seen.without_warnings();
}

#[test]
fn a_line_of_a_hundred_megabytes_costs_only_itself() {
    // Once as a tool's answer in the middle, and once as the very last record.
    for last in [false, true] {
        let storage = Storage::sound();
        let mut bytes = conversation(HURT, "first").into_bytes();
        bytes.extend(b"{\"type\":\"user\",\"message\":{\"content\":\"");
        bytes.resize(bytes.len() + (100 << 20), b'x');
        bytes.extend(b"\"}}\n");
        if !last {
            bytes.extend(answered(HURT, "m2", "it is done").as_bytes());
        }
        std::fs::write(storage.hurt(), bytes).unwrap();
        let seen = storage.examine();
        completed(seen.kept_with_a_warning(HURT, &storage.hurt()));
    }
}

#[test]
fn hostile_text_reaches_no_terminal() {
    const EVIL: &str = "\\u001b]0;owned\\u0007\\u001b[2J\\u009b31m\\u202egnp.exe\\r\\u0000 plain words";
    let storage = Storage::sound();
    let line = |text: String| text.replace("EVIL", EVIL);
    let text = [
        line(asked(HURT, "EVIL")),
        line(answered(HURT, "m1", "EVIL"))
            .replace("\"/work\"", &format!("\"/work/{EVIL}\""))
            .replace("\"main\"", &format!("\"{EVIL}\""))
            .replace("claude-x", EVIL),
        format!("{{\"type\":\"custom-title\",\"customTitle\":\"{EVIL}\",\"sessionId\":\"{HURT}\"}}\n"),
    ]
    .concat();
    std::fs::write(storage.hurt(), text).unwrap();
    // A name that a warning will quote.
    let folder = "projects/-\u{1b}[31m\u{9b}\u{202e}-plain-words";
    std::fs::create_dir_all(storage.path(&format!("{folder}/bad00000-0000-4000-8000-00000000000d.jsonl")))
        .unwrap();
    let seen = storage.examine();
    seen.left_out(Path::new("-plain-words"));
    let row = seen.row(HURT).unwrap();
    for key in ["name", "prompt", "lastMessage", "cwd", "branch", "model"] {
        let text = row[key].as_str().unwrap();
        assert!(text.contains("plain words") && text.contains("owned"), "{key} lost its words: {row:#}");
        assert!(!text.chars().any(is_hostile), "{key}: {text:?}");
    }
    for arguments in [
        &["list", "--since", "all"][..],
        &["list", "--since", "all", "--tree", "--usage"],
        &["list", "--since", "all", "--json"],
        &["status", HURT],
        &["explain", HURT],
        &["peek", HURT],
        &["logs", HURT],
        &["doctor"],
        &["doctor", "--json"],
    ] {
        let output = storage.home.agentctl(arguments);
        let shown = output.stdout + &output.stderr;
        assert!(!shown.chars().any(is_hostile), "{arguments:?}: {shown:?}");
        let escaped = ["\\u001b", "\\u009b", "\\u202e", "\\u0000"];
        assert!(!escaped.iter().any(|escape| shown.contains(escape)), "{arguments:?}: {shown}");
    }
}

/// Whether this character could move the cursor or reverse text.
fn is_hostile(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
