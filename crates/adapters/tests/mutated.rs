//! Recorded files that were cut, changed and glued at any byte: no panic, no hang, and nothing that is not in the bytes.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use agentctl_adapters::agents::copilot::Copilot;
use agentctl_adapters::agents::gemini::Gemini;
use agentctl_adapters::agents::kimi::Kimi;
use agentctl_adapters::agents::qwen::Qwen;
use agentctl_adapters::{Adapter, Reach, Root, Scope};
use agentctl_model::{Coverage, Found};
use proptest::prelude::*;

/// One recorded file and where its agent keeps it.
struct Recorded {
    adapter: &'static dyn Adapter,
    place: &'static str,
    /// What the path alone says of the id; empty if it says nothing.
    id: &'static str,
    bytes: &'static [u8],
}

const ID: &str = "c2000000-1111-4111-8111-111111111111";

fn recorded() -> Vec<Recorded> {
    let copilot = |bytes| Recorded {
        adapter: &Copilot,
        place: "session-state/c2000000-1111-4111-8111-111111111111/events.jsonl",
        id: ID,
        bytes,
    };
    let qwen = |bytes| Recorded {
        adapter: &Qwen,
        place: "projects/-w/chats/c2000000-1111-4111-8111-111111111111.jsonl",
        id: ID,
        bytes,
    };
    let gemini = |bytes| Recorded {
        adapter: &Gemini,
        place: "tmp/w/chats/session-2026-11-15T07-05-c2000000.jsonl",
        id: "",
        bytes,
    };
    let kimi = |bytes| Recorded {
        adapter: &Kimi,
        place: "sessions/wd_w_0/c2000000-1111-4111-8111-111111111111/agents/main/wire.jsonl",
        id: ID,
        bytes,
    };
    vec![
        copilot(include_bytes!("fixtures/copilot/tool-call.jsonl")),
        copilot(include_bytes!("fixtures/copilot/resumed.jsonl")),
        qwen(include_bytes!("fixtures/qwen/tool-call.jsonl")),
        qwen(include_bytes!("fixtures/qwen/model-error.jsonl")),
        gemini(include_bytes!("fixtures/gemini/resumed.jsonl")),
        gemini(include_bytes!("fixtures/gemini/interactive-permission.jsonl")),
        kimi(include_bytes!(
            "fixtures/kimi/home/sessions/wd_work2_c003ebeada68/session_6e6bbe9e-84bf-41c1-a2c5-ab4a8118f2b8/agents/main/wire.jsonl"
        )),
        kimi(include_bytes!(
            "fixtures/kimi/home/sessions/wd_w7_d288b3aadd63/session_6d16b19e-91db-4773-ac1d-54087170c1de/agents/main/wire.jsonl"
        )),
    ]
}

/// What happens to the bytes.
#[derive(Debug, Clone)]
enum Harm {
    Cut(prop::sample::Index, prop::sample::Index),
    Change(prop::sample::Index, u8),
    Twice(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
}

fn harm() -> impl Strategy<Value = Harm> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), at()).prop_map(|(a, b)| Harm::Cut(a, b)),
        (at(), any::<u8>()).prop_map(|(a, byte)| Harm::Change(a, byte)),
        at().prop_map(Harm::Twice),
        (at(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(a, more)| Harm::Insert(a, more)),
    ]
}

fn harmed(bytes: &[u8], harms: &[Harm]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for harm in harms {
        let length = bytes.len() + 1;
        match harm {
            Harm::Cut(a, b) => {
                let (a, b) = (a.index(length), b.index(length));
                bytes.drain(a.min(b)..a.max(b));
            }
            Harm::Change(at, byte) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Harm::Change(..) => {}
            Harm::Twice(at) => bytes.extend_from_within(at.index(length)..),
            Harm::Insert(at, more) => {
                let at = at.index(length);
                bytes.splice(at..at, more.iter().copied());
            }
        }
    }
    bytes
}

fn survey(recorded: &Recorded, root: &Path, bytes: &[u8]) -> (Vec<Found>, Coverage) {
    let path = root.join(recorded.place);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    let scope = Scope { usage: true, subagents: true, ..Scope::new(Reach::All { since: None }) };
    let harvest = recorded.adapter.survey(&Root::at(root), &scope);
    recorded.adapter.read(&path, ID, 50).unwrap();
    let mut follow = recorded.adapter.follow(&path, ID, 10).unwrap();
    follow.next().unwrap();
    (harvest.found, harvest.coverage)
}

/// Every number in the bytes, added up: no honest total is larger.
fn largest_total(bytes: &[u8]) -> u64 {
    let numbers = bytes.split(|byte| !byte.is_ascii_digit());
    let values = numbers.filter_map(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
    values.fold(0, u64::saturating_add)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn nothing_is_invented(which in 0..8usize, harms in prop::collection::vec(harm(), 0..5)) {
        let recorded = &recorded()[which];
        let bytes = harmed(recorded.bytes, &harms);
        let folder = tempfile::tempdir().unwrap();
        let (found, coverage) = survey(recorded, folder.path(), &bytes);
        prop_assert!(matches!(coverage, Coverage::Complete | Coverage::Partial));
        prop_assert!(found.len() <= 1, "one file is one session");
        let contains = |text: &str| memchr::memmem::find(&bytes, text.as_bytes()).is_some();
        for session in found {
            prop_assert!(session.id == recorded.id || contains(&session.id), "id {}", session.id);
            if let Some(cwd) = &session.facts.cwd {
                // Bytes that are no text, and escapes, are read as other characters.
                let plain = cwd.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
                prop_assert!(!plain || contains(cwd) || contains("\\u"), "cwd {cwd}");
            }
            if let Some(tokens) = session.facts.tokens {
                let largest = largest_total(&bytes);
                for part in [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write] {
                    prop_assert!(part.unwrap_or(0) <= largest);
                }
                prop_assert!(contains("okens\"") || contains("TokenCount\""));
            }
        }
    }
}

#[test]
fn unharmed_files_are_read_whole() {
    for recorded in recorded() {
        let folder = tempfile::tempdir().unwrap();
        let (found, coverage) = survey(&recorded, folder.path(), recorded.bytes);
        assert_eq!((found.len(), coverage), (1, Coverage::Complete));
        assert!(found[0].facts.turn.is_some() && found[0].facts.prompt.is_some());
    }
}
