//! Search: the sieve passes every line that the slow reader finds something in.

use std::fs;
use std::path::PathBuf;

use agentctl_adapters::Conversation;
use agentctl_adapters::search::{Pattern, Search, search};
use agentctl_model::{Entry, EntryKind, Role};

/// What is found is what is found by decoding every line.
pub fn agree(conversation: &Conversation<'_>, bytes: &[u8], parse: fn(&[u8]) -> Vec<Entry>, words: &str) {
    for ignores_case in [false, true] {
        let Ok(pattern) = Pattern::new(&[words.to_owned()], false, ignores_case) else { return };
        let asked = Search { pattern: &pattern, roles: &[], since: None, limit: 1000, around: 0 };
        // A file without one readable record is an error.
        let Ok(found) = search(conversation, &asked) else { return };
        let fast: Vec<(String, String)> =
            found.places.into_iter().map(|place| (place.position, place.shown.line)).collect();
        assert_eq!(fast, slow(bytes, parse, &pattern), "{words:?}");
    }
}

fn slow(bytes: &[u8], parse: fn(&[u8]) -> Vec<Entry>, pattern: &Pattern) -> Vec<(String, String)> {
    let (mut at, mut all) = (0, Vec::new());
    for whole in bytes.split_inclusive(|byte| *byte == b'\n') {
        let line = whole.strip_suffix(b"\n").unwrap_or(whole);
        let mut entries = parse(line);
        if entries.is_empty() && std::str::from_utf8(line).is_err() {
            entries = parse(String::from_utf8_lossy(line).as_bytes());
        }
        for (index, entry) in entries.iter().enumerate() {
            if let Some(shown) = pattern.find(entry, 0) {
                all.push((format!("{at}.{index}"), shown.line));
            }
        }
        at += whole.len();
    }
    all.reverse();
    all
}

/// `{"t": text}` is a message, `{"j": "json"}` what a tool was given.
fn entries(line: &[u8]) -> Vec<Entry> {
    let Ok(record) = serde_json::from_slice::<serde_json::Value>(line) else { return Vec::new() };
    let entry = |role, kind, text: &str| {
        let text = agentctl_model::text::clean(text);
        Entry { at: None, role, kind, text, tool: None }
    };
    let said = record["t"].as_str().map(|text| entry(Role::User, EntryKind::Message, text));
    let called = record["j"].as_str().map(|text| entry(Role::Tool, EntryKind::ToolCall, text));
    said.into_iter().chain(called).collect()
}

/// The first line of an input is what is searched, the others are the file.
pub fn check(bytes: &[u8]) {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
    let Ok(words) = std::str::from_utf8(&bytes[..end]) else { return };
    let path: PathBuf = std::env::temp_dir().join(format!("agentctl-fuzz-{}.jsonl", std::process::id()));
    fs::write(&path, &bytes[end + 1..]).expect("the input");
    let conversation = Conversation::lines(&path, entries, |_| Vec::new());
    agree(&conversation, &bytes[end + 1..], entries, words);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let lines = br#"{"t":"say \"hi\"\nand go"}
{"t":"sch\u00f6n \u0041BC \ud83d\ude00 \u212a"}
{"j":"{\"command\":\"echo \\\"done\\\" > C:\\\\temp\"}"}
{"t":"nothing\\nhere"}
"#;
    let words =
        ["say", "hi\"", "schön abc", "k", "K", "done", "C:\\temp", "a go", "\\n", "and\tgo", "ß", "I"];
    words.iter().map(|words| [words.as_bytes(), b"\n", lines].concat()).collect()
}
