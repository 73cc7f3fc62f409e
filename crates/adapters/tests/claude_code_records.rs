//! Recorded transcripts of Claude Code, cut, mixed and damaged at any byte: nothing panics, nothing hangs,
//! and nothing is reported that is not in the bytes.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashMap;
use std::path::Path;

use agentctl_adapters::agents::claude_code::ClaudeCode;
use agentctl_adapters::{Adapter, Progress, Reach, Root, Scope};
use agentctl_model::text::clean;
use agentctl_model::{Facts, Harvest, OwnerIdentity, Tokens};
use proptest::prelude::*;
use serde_json::Value;

const ID: &str = "aaaaaaaa-0000-4000-8000-00000000000a";

const RECORDED: [&[u8]; 4] = [
    include_bytes!(
        "../../../tests/recorded/claude-code/tool-calls/.claude/projects/-home-dev-w-plain/22222222-2222-4222-8222-222222222222.jsonl"
    ),
    include_bytes!(
        "../../../tests/recorded/claude-code/resumed/.claude/projects/-home-dev-w-resumed/5e500000-0000-4000-8000-000000000001.jsonl"
    ),
    include_bytes!(
        "../../../tests/recorded/claude-code/sigint-mid-tool/.claude/projects/-home-dev-w-sig/a0000000-0000-4000-8000-000000000021.jsonl"
    ),
    include_bytes!(
        "../../../tests/recorded/claude-code/model-error-500/.claude/projects/-home-dev-w-err/e0000000-0000-4000-8000-000000000500.jsonl"
    ),
];
const REGISTRY: &[u8] =
    include_bytes!("../../../tests/recorded/claude-code/killed9-mid-tool/.claude/sessions/22889.json");

/// One kind of damage to a file. Positions are fractions of its length.
#[derive(Debug, Clone)]
enum Accident {
    /// The end, or the beginning, is missing.
    Truncate(f64),
    Behead(f64),
    /// Another recording is appended.
    Append(usize),
    LoseLine(f64),
    RepeatLine(f64),
    MoveLineToEnd(f64),
    /// Bytes are replaced: the only damage that can make new text out of old.
    Overwrite(f64, Vec<u8>),
}

impl Accident {
    fn befall(&self, bytes: &mut Vec<u8>) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
        #[expect(clippy::cast_precision_loss, reason = "recordings are small")]
        let position = |share: f64, length: usize| ((length as f64 * share) as usize).min(length);
        match self {
            Self::Truncate(share) => bytes.truncate(position(*share, bytes.len())),
            Self::Behead(share) => drop(bytes.drain(..position(*share, bytes.len()))),
            Self::Append(which) => bytes.extend(RECORDED[*which]),
            Self::Overwrite(share, new) => {
                let at = position(*share, bytes.len());
                let end = (at + new.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&new[..end - at]);
            }
            Self::LoseLine(share) | Self::RepeatLine(share) | Self::MoveLineToEnd(share) => {
                let mut lines: Vec<Vec<u8>> =
                    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
                let at = position(*share, lines.len());
                if at == lines.len() {
                    return;
                }
                match self {
                    Self::LoseLine(_) => drop(lines.remove(at)),
                    Self::RepeatLine(_) => lines.insert(at, lines[at].clone()),
                    _ => {
                        let line = lines.remove(at);
                        lines.push(line);
                    }
                }
                *bytes = lines.concat();
            }
        }
    }
}

/// Damage that leaves each line whole or cut.
fn clean_accident() -> impl Strategy<Value = Accident> {
    prop_oneof![
        (0.0..1.0).prop_map(Accident::Truncate),
        (0.0..1.0).prop_map(Accident::Behead),
        (0..RECORDED.len()).prop_map(Accident::Append),
        (0.0..1.0).prop_map(Accident::LoseLine),
        (0.0..1.0).prop_map(Accident::RepeatLine),
        (0.0..1.0).prop_map(Accident::MoveLineToEnd),
    ]
}

fn any_accident() -> impl Strategy<Value = Accident> {
    let overwrite = (0.0..1.0, prop::collection::vec(any::<u8>(), 1..6));
    let telling = (0.0..1.0, "[\"{}\\[\\],:\\\\\n0-9nu]{1,4}");
    prop_oneof![
        2 => clean_accident(),
        2 => overwrite.prop_map(|(at, bytes)| Accident::Overwrite(at, bytes)),
        2 => telling.prop_map(|(at, text)| Accident::Overwrite(at, text.into_bytes())),
    ]
}

/// A recording and the damage done to it.
type Story = (usize, Vec<Accident>);

fn story(accident: impl Strategy<Value = Accident>) -> impl Strategy<Value = Story> {
    (0..RECORDED.len(), prop::collection::vec(accident, 0..8))
}

fn after((which, accidents): &Story) -> Vec<u8> {
    let mut bytes = RECORDED[*which].to_vec();
    for accident in accidents {
        accident.befall(&mut bytes);
    }
    bytes
}

/// The harvest of a home that contains these two files.
fn survey(transcript: &[u8], note: Option<&[u8]>, text_limit: Option<usize>) -> Harvest {
    let home = tempfile::tempdir().unwrap();
    let write = |path: &str, bytes: &[u8]| {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let place = format!("projects/-w/{ID}.jsonl");
    write(&place, transcript);
    if let Some(note) = note {
        write("sessions/42.json", note);
    }
    let reach = Reach::All { since: None };
    let scope = Scope {
        reach,
        usage: true,
        calls: true,
        subagents: true,
        text_limit,
        progress: Progress::default(),
        memory: None,
    };
    let harvest = ClaudeCode.survey(&Root::at(home.path()), &scope);
    peek_says_only_what_is_there(&home.path().join(place), transcript);
    harvest
}

fn peek_says_only_what_is_there(place: &Path, bytes: &[u8]) {
    let known = strings(bytes);
    let last = ClaudeCode.read(place, ID, 50).unwrap();
    let followed = ClaudeCode.follow(place, ID, 50).unwrap().next().unwrap();
    for entry in last.iter().chain(&followed).filter(|entry| entry.tool.is_none()) {
        assert!(is_told(&entry.text, &known), "{entry:?}");
    }
}

/// Every string in every line that is JSON, as it would be shown, and the whole text.
fn strings(bytes: &[u8]) -> Vec<String> {
    fn walk(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::String(text) => into.push(clean(text)),
            Value::Array(list) => list.iter().for_each(|one| walk(one, into)),
            Value::Object(map) => map.values().for_each(|one| walk(one, into)),
            _ => {}
        }
    }
    let text = String::from_utf8_lossy(bytes);
    // The raw text covers lines that are JSON only in the part that is used.
    let mut all = vec![text.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\"")];
    for line in text.split('\n') {
        if let Ok(value) = serde_json::from_str::<Value>(line) {
            walk(&value, &mut all);
        }
    }
    all
}

/// Whether this text occurs in the file. The blocks of one message are shown joined, so each line may come
/// from another string, and cut ones end in an ellipsis.
fn is_told(shown: &str, known: &[String]) -> bool {
    let told = |line: &str| known.iter().any(|text| text.contains(line));
    shown.lines().all(|line| told(line) || line.strip_suffix('…').is_some_and(told))
}

fn says_only_what_is_there(facts: &Facts, bytes: &[u8]) {
    let known = strings(bytes);
    let meta = facts.meta.values().filter_map(Value::as_str);
    let texts = [&facts.cwd, &facts.branch, &facts.model, &facts.name, &facts.prompt, &facts.last_message];
    let parent = facts.parent.iter().map(|parent| parent.id.as_str());
    for text in texts.iter().filter_map(|text| text.as_deref()).chain(meta).chain(parent) {
        assert!(is_told(text, &known), "{text:?} is not in the file");
    }
    if let Some(detail) = facts.turn.as_ref().and_then(|turn| turn.detail.as_deref()) {
        // The tool's name and its description are joined.
        let (tool, words) = detail.split_once(": ").unwrap_or(("", detail));
        let one_line = |text: &String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let known: Vec<String> = known.iter().chain(&known).map(one_line).collect();
        let told = is_told(&words.split_whitespace().collect::<Vec<_>>().join(" "), &known);
        assert!(is_told(detail, &known) || (is_told(tool, &known) && told), "{detail:?}");
    }
}

/// Counts tokens in the simplest way: it parses every record, counts every message once, and ignores copies
/// from another session.
fn counted(bytes: &[u8]) -> Option<Tokens> {
    let mut by_message: HashMap<String, [u64; 4]> = HashMap::new();
    let (mut own, mut nameless) = (false, 0);
    for line in bytes.split(|byte| *byte == b'\n') {
        if !own && line.starts_with(b"{\"type\":\"api-request") {
            // Copies from another session stand before the first request.
            by_message.clear();
            own = true;
        }
        let Ok(record) = serde_json::from_slice::<Value>(line) else { continue };
        let message = &record["message"];
        let is_reply = record["type"] == "assistant" && message["usage"].is_object();
        if !is_reply || message["model"] == "<synthetic>" {
            continue;
        }
        own |= record.get("requestRef").is_none();
        let keys =
            ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
        let usage = keys.map(|key| message["usage"][key].as_u64().unwrap_or(0));
        nameless += 1;
        let id = message["id"].as_str().map_or_else(|| format!("nameless {nameless}"), str::to_owned);
        by_message.insert(id, usage);
    }
    let total =
        by_message.into_values().reduce(|a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]])?;
    let [input, output, cache_read, cache_write] = total.map(Some);
    Some(Tokens { input, output, cache_read, cache_write })
}

/// The sum of every number that follows this key, in any context.
fn all_numbers(bytes: &[u8], key: &str) -> u128 {
    let text = String::from_utf8_lossy(bytes);
    let key = format!("\"{key}\"");
    let numbers = text.split(&key).skip(1).map(|rest| {
        let rest = rest.trim_start_matches([' ', ':', '\t', '\r', '\n']);
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse::<u128>().unwrap_or(0)
    });
    numbers.sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Whole lines are understood wherever they stand, and the tokens are exactly those of the whole lines.
    #[test]
    fn cut_and_mixed_recordings_count_what_is_whole(story in story(clean_accident())) {
        let bytes = after(&story);
        let harvest = survey(&bytes, None, None);
        prop_assert!(harvest.found.len() <= 1);
        for found in &harvest.found {
            prop_assert_eq!(found.id.as_str(), ID);
            says_only_what_is_there(&found.facts, &bytes);
            prop_assert_eq!(found.facts.tokens, counted(&bytes));
        }
        let is_record = |line| serde_json::from_slice::<Value>(line).is_ok_and(|value| value.is_object());
        if bytes.split(|byte| *byte == b'\n').any(is_record) {
            prop_assert_eq!(harvest.found.len(), 1, "{:?}", harvest.warnings);
        }
    }

    /// Whatever the bytes have become, nothing is reported that is not in them.
    #[test]
    fn damaged_recordings_are_never_embroidered(story in story(any_accident())) {
        let bytes = after(&story);
        let harvest = survey(&bytes, None, None);
        for found in &harvest.found {
            prop_assert_eq!(found.id.as_str(), ID);
            says_only_what_is_there(&found.facts, &bytes);
            if let Some(tokens) = found.facts.tokens {
                prop_assert!(u128::from(tokens.input.unwrap_or(0)) <= all_numbers(&bytes, "input_tokens"));
                prop_assert!(u128::from(tokens.output.unwrap_or(0)) <= all_numbers(&bytes, "output_tokens"));
            }
        }
        survey(&bytes, None, Some(200));
    }

    /// A damaged note names no process, or exactly the one that its bytes name.
    #[test]
    fn a_damaged_note_names_nobody_else(accidents in prop::collection::vec(any_accident(), 1..4)) {
        let mut bytes = REGISTRY.to_vec();
        for accident in &accidents {
            accident.befall(&mut bytes);
        }
        let harvest = survey(RECORDED[0], Some(&bytes), None);
        prop_assert_eq!(harvest.found.len(), 1, "the transcript is sound");
        for note in &harvest.registrations {
            let said: Value = serde_json::from_str(&String::from_utf8_lossy(&bytes)).unwrap();
            prop_assert_eq!(Some(note.id.clone()), said["sessionId"].as_str().map(clean));
            let OwnerIdentity::Process { pid, start, .. } = note.holder.clone() else { panic!("{note:?}") };
            prop_assert_eq!(Some(u64::from(pid)), said["pid"].as_u64());
            prop_assert_eq!(Some(start), said["procStart"].as_str().and_then(|start| start.parse().ok()));
        }
        prop_assert!(harvest.registrations.len() + harvest.warnings.len() >= 1, "silently passed over");
    }
}
