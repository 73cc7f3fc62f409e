use std::fmt::Write as _;
use std::fs;

use agentctl_model::EntryKind;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What is shown of a line in these tests: `{"t": text}` is a message, `{"j": "json"}` a tool call.
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

fn pattern(words: &[&str]) -> Pattern {
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    Pattern::new(&words, false, false).unwrap()
}

fn found(bytes: &[u8], pattern: &Pattern) -> Vec<Place> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file.jsonl");
    fs::write(&path, bytes).unwrap();
    let asked = Search { pattern, roles: &[], since: None, limit: 100_000, around: 0 };
    search(&Conversation::lines(&path, entries, |_| Vec::new()), &asked).unwrap().places
}

/// The slow reader: every line is decoded, whatever its bytes are.
fn slow(bytes: &[u8], pattern: &Pattern) -> Vec<(String, String)> {
    let mut at = 0;
    let mut all = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        for (index, entry) in entries(line).iter().enumerate() {
            if let Some(shown) = pattern.find(entry, 0) {
                all.push((format!("{at}.{index}"), shown.line));
            }
        }
        at += line.len();
    }
    all.reverse();
    all
}

fn agree(bytes: &[u8], pattern: &Pattern) {
    let fast: Vec<(String, String)> =
        found(bytes, pattern).into_iter().map(|place| (place.position, place.shown.line)).collect();
    assert_eq!(fast, slow(bytes, pattern), "{}", String::from_utf8_lossy(bytes));
}

#[test]
fn a_long_file_is_searched_from_its_end_and_says_the_same() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file.jsonl");
    let mut bytes = String::new();
    for number in 0..60 {
        match number % 7 {
            3 => bytes.push_str("{\"t\": \"a word\n"),
            5 => writeln!(bytes, r#"{{"t": "nothing {number}"}}"#).unwrap(),
            _ => writeln!(bytes, r#"{{"t":"word {number}"}}"#).unwrap(),
        }
    }
    fs::write(&path, &bytes).unwrap();
    assert!(halves::cut(bytes.as_bytes(), bytes.len() as u64).unwrap().is_some(), "it is long enough");
    let pattern = pattern(&["word"]);
    let all = slow(bytes.as_bytes(), &pattern);
    for limit in [0, 1, 2, 3, 10, all.len() - 1, all.len(), 1000] {
        let asked = Search { pattern: &pattern, roles: &[], since: None, limit, around: 0 };
        let found = search(&Conversation::lines(&path, entries, |_| Vec::new()), &asked).unwrap();
        let places = found.places.into_iter().map(|place| (place.position, place.shown.line));
        assert_eq!(places.collect::<Vec<_>>(), all[..limit.min(all.len())], "limit {limit}");
        let unread = found.unread.unwrap();
        assert!(unread.ends_with("9 lines that may fit cannot be read"), "limit {limit}: {unread}");
    }
}

/// One text in one of the spellings that JSON allows: each character as it is, or escaped.
fn spelled(text: &str, dice: &[u8]) -> String {
    let mut spelled = String::from("\"");
    for (index, letter) in text.chars().enumerate() {
        let choice = dice.get(index % dice.len().max(1)).copied().unwrap_or(0);
        let mut units = [0; 2];
        match (letter, choice % 4) {
            ('\n', 0 | 1) => spelled.push_str("\\n"),
            ('\r', 0 | 1) => spelled.push_str("\\r"),
            ('"', 0 | 1) => spelled.push_str("\\\""),
            ('\\', 0 | 1) => spelled.push_str("\\\\"),
            (letter, 3) => {
                for unit in letter.encode_utf16(&mut units) {
                    if choice > 127 {
                        write!(spelled, "\\u{unit:04X}").unwrap();
                    } else {
                        write!(spelled, "\\u{unit:04x}").unwrap();
                    }
                }
            }
            (letter, _) if letter < ' ' || letter == '"' || letter == '\\' => {
                write!(spelled, "\\u{:04x}", u32::from(letter)).unwrap();
            }
            (letter, _) => spelled.push(letter),
        }
    }
    spelled.push('"');
    spelled
}

fn text() -> impl Strategy<Value = String> {
    let letter = prop_oneof![
        8 => prop::sample::select(vec!['a', 'b', 'A', 'B', '1', ' ', '-', '.']),
        2 => prop::sample::select(vec!['ä', 'Ä', 'ß', '日', '\u{212a}', 'k', 'K', '😀', 'İ']),
        1 => prop::sample::select(vec!['\n', '\t', '\r', '"', '\\', '/', '\u{1b}', '\u{0}']),
        2 => prop::sample::select(vec!['\u{7f}', '\u{85}', '\u{9f}', '\u{202e}', '\u{2066}', '\u{2014}']),
    ];
    prop::collection::vec(letter, 0..12).prop_map(|letters| letters.into_iter().collect())
}

proptest! {
    #[test]
    fn the_sieve_loses_nothing(
        lines in prop::collection::vec((text(), prop::collection::vec(any::<u8>(), 1..6), any::<[bool; 2]>()), 0..20),
        words in prop::collection::vec(text().prop_filter("words", |words| !words.trim().is_empty()), 1..3),
        from_a_line in any::<prop::sample::Index>(),
        torn in any::<bool>(),
        has_many_escapes in any::<bool>(),
    ) {
        let mut bytes = String::new();
        if has_many_escapes {
            writeln!(bytes, "{{\"t\":\"{}\"}}", "-\\r\\n".repeat(100)).unwrap();
        }
        for (text, dice, [is_call, is_spelled]) in &lines {
            if *is_call {
                // What a tool was given is JSON within JSON.
                let inner = format!("{{\"cmd\":{}}}", spelled(text, dice));
                // The quotes and backslashes of the inner text may be escaped by their numbers, too.
                let outer: &[u8] = if *is_spelled { &[2] } else { &[0] };
                writeln!(bytes, "{{\"j\":{}}}", spelled(&inner, outer)).unwrap();
            } else {
                writeln!(bytes, "{{\"t\":{}}}", spelled(text, dice)).unwrap();
            }
        }
        // A file that has nothing but half a record was not heard.
        if torn && !lines.is_empty() { bytes.push_str("{\"t\":\"half a"); }
        agree(bytes.as_bytes(), &Pattern::new(&words, false, false).unwrap());
        agree(bytes.as_bytes(), &Pattern::new(&words, false, true).unwrap());
        // A part of what was really written is searched too.
        if !lines.is_empty() {
            let (text, ..) = &lines[from_a_line.index(lines.len())];
            let part: String = agentctl_model::text::clean(text).chars().skip(1).take(4).collect();
            if !part.trim().is_empty() {
                agree(bytes.as_bytes(), &Pattern::new(&[part], false, false).unwrap());
            }
        }
    }
}

/// None of these has to be escaped, and none is shown.
#[test]
fn a_word_is_found_through_characters_that_nobody_sees() {
    for hidden in ["\u{7f}", "\u{85}", "\u{202e}", "\u{2069}", "\u{202a}\u{7f}\u{9f}", "\u{7f}\u{1b}"] {
        let bytes = format!("{}\n{}\n", json!({"t": "other"}), json!({"t": format!("nee{hidden}dle")}));
        assert_eq!(found(bytes.as_bytes(), &pattern(&["needle"])).len(), 1, "{hidden:?}");
        assert!(sieve(&pattern(&["needle"]))(bytes.as_bytes()), "{hidden:?}");
    }
}

/// A file is read in pieces. Wherever a piece ends, a word is found once.
#[test]
fn a_word_is_found_wherever_a_piece_ends() {
    use crate::transcript::jsonl::whole::CHUNK;
    let line = format!("{}\n", json!({"t": "some needle here"}));
    for shift in 0..line.len() + 2 {
        let empty = json!({"t": ""}).to_string().len() + 1;
        let filler = "x".repeat(CHUNK - shift - empty);
        let bytes = format!("{}\n{line}{}\n", json!({"t": filler}), json!({"t": "needle again"}));
        let places = found(bytes.as_bytes(), &pattern(&["needle"]));
        let lines: Vec<&str> = places.iter().map(|place| place.shown.line.as_str()).collect();
        assert_eq!(lines, ["needle again", "some needle here"], "{shift}");
        let at: usize = places[1].position.split_once('.').unwrap().0.parse().unwrap();
        assert!(bytes[at..].starts_with(&line), "{shift}");
    }
    // One line over many pieces, with the word where two of them meet.
    let long = format!("{}\n", json!({"t": format!("{}needle{}", "x".repeat(CHUNK - 9), "y".repeat(CHUNK))}));
    assert_eq!(found(long.as_bytes(), &pattern(&["needle"])).len(), 1);
}

#[test]
fn texts_are_found_as_they_were_meant_and_not_as_they_are_written() {
    let bytes = [
        json!({"t": "say \"hi\"\nand go"}).to_string(),
        r#"{"t":"sch\u00f6n \u0041BC"}"#.to_owned(),
        json!({"j": json!({"command": "echo \"done\" > C:\\temp"}).to_string()}).to_string(),
        json!({"t": "nothing\\nhere"}).to_string(),
    ]
    .join("\n");
    let count = |words: &[&str]| found(bytes.as_bytes(), &pattern(words)).len();
    assert_eq!(count(&["say \"hi\""]), 1);
    assert_eq!(count(&["schön"]), 1);
    assert_eq!(count(&["SCHÖN"]), 0, "a capital letter counts");
    assert_eq!(count(&["abc"]), 1, "an escape may stand for a letter");
    assert_eq!(count(&["echo \"done\" > C:\\temp"]), 1, "what a tool was given");
    assert_eq!(count(&["nothing\nhere"]), 0, "a backslash is no line break");
    assert_eq!(count(&["say", "go"]), 1, "all words in one message");
    assert_eq!(count(&["say", "schön"]), 0);
}

#[test]
fn regular_expressions_case_roles_and_limits() {
    let lines: Vec<String> =
        (0..50).map(|number| json!({"t": format!("Error {number}")}).to_string()).collect();
    let bytes = lines.join("\n");
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file.jsonl");
    fs::write(&path, &bytes).unwrap();
    let conversation = Conversation::lines(&path, entries, |_| Vec::new());
    let count = |pattern: &Pattern, roles: &[Role], limit| {
        let asked = Search { pattern, roles, since: None, limit, around: 0 };
        search(&conversation, &asked).unwrap().places
    };
    let expression = Pattern::new(&["error [45]$".to_owned()], true, false).unwrap();
    assert_eq!(count(&expression, &[], 10).len(), 2);
    assert_eq!(count(&pattern(&["ERROR"]), &[], 10).len(), 0);
    assert_eq!(count(&Pattern::new(&["ERROR".to_owned()], false, true).unwrap(), &[], 99).len(), 50);
    assert_eq!(count(&pattern(&["error"]), &[Role::Tool], 99).len(), 0);
    let newest = count(&pattern(&["error"]), &[Role::User], 3);
    let lines: Vec<&str> = newest.iter().map(|place| place.shown.line.as_str()).collect();
    assert_eq!(lines, ["Error 49", "Error 48", "Error 47"], "the newest, newest first");
    assert!(Pattern::new(&["(".to_owned()], true, false).is_err());
    assert!(Pattern::new(&["a{1000}{1000}".to_owned()], true, false).is_err(), "no expression of a person");
    assert!(Pattern::new(&[" ".to_owned()], false, false).is_err());
}

#[test]
fn a_long_line_is_shown_around_what_fits_with_the_lines_beside_it() {
    let text = format!("before\n{}needle{}\nafter", "ä".repeat(1000), "y".repeat(1000));
    let entry = Entry { at: None, role: Role::User, kind: EntryKind::Message, text, tool: None };
    let shown = pattern(&["NEEDLE".to_lowercase().as_str()]).find(&entry, 1).unwrap();
    let (start, end) = shown.matches[0];
    let marked: String = shown.line.chars().skip(start).take(end - start).collect();
    assert_eq!(marked, "needle");
    assert!(shown.line.chars().count() <= 300);
    assert_eq!((shown.before, shown.after), (vec!["before".to_owned()], vec!["after".to_owned()]));
}

#[test]
fn a_conversation_opens_at_every_hit_and_says_when_it_is_gone() {
    let lines: Vec<String> = (0..30)
        .map(|number| {
            format!("{}\n", json!({"t": format!("say {number}"), "j": format!("{{\"n\":{number}}}")}))
        })
        .collect();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file.jsonl");
    fs::write(&path, lines.concat()).unwrap();
    let conversation = Conversation::lines(&path, entries, |_| Vec::new());
    let asked = Search { pattern: &pattern(&["say"]), roles: &[], since: None, limit: 99, around: 0 };
    let places = search(&conversation, &asked).unwrap().places;
    assert_eq!(places.len(), 30);
    for (number, place) in places.iter().rev().enumerate() {
        let (around, at) = read_around(&conversation, &place.position, (3, 4)).unwrap().unwrap();
        assert_eq!(around[at].text, format!("say {number}"));
        assert_eq!(at, (number * 2).min(3));
        assert_eq!(around.len() - at - 1, (59 - number * 2).min(4));
    }
    for gone in ["999999.0", "0.7", "1.0", "x", "", "0"] {
        assert_eq!(read_around(&conversation, gone, (3, 3)).unwrap(), None, "{gone}");
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(search(&conversation, &asked).unwrap().places, [], "deleted since it was listed");
}

#[test]
fn a_compressed_file_is_searched_and_opened_like_any_other() {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let lines: Vec<String> =
        (0..2000).map(|number| json!({"t": format!("say {number}")}).to_string()).collect();
    let lines = lines.join("\n");
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file.jsonl.zst");
    fs::write(&path, compress_to_vec(lines.as_bytes(), CompressionLevel::Fastest)).unwrap();
    let conversation = Conversation::Lines { path, parse: entries, marks: |_| Vec::new(), compressed: true };
    let asked = Search { pattern: &pattern(&["say 1234"]), roles: &[], since: None, limit: 9, around: 0 };
    let places = search(&conversation, &asked).unwrap().places;
    let [place] = places.as_slice() else { panic!("{places:?}") };
    let (around, at) = read_around(&conversation, &place.position, (2, 2)).unwrap().unwrap();
    let texts: Vec<&str> = around.iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!((texts, at), (vec!["say 1232", "say 1233", "say 1234", "say 1235", "say 1236"], 2));
}
