//! Session files of Pi and Pi Rust: recorded ones (`pi-rust.jsonl` is written by hand from its source), and
//! the same files cut, mixed and damaged at any byte.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use std::path::{Path, PathBuf};

use agentctl_adapters::agents::pi::Pi;
use agentctl_adapters::agents::pi_rust::PiRust;
use agentctl_adapters::{Adapter, Reach, Root, Scope};
use agentctl_model::{Found, Harvest, Role, TurnState};
use proptest::prelude::*;

const RECORDED: [&[u8]; 8] = [
    include_bytes!(
        "../../../tests/recorded/pi/two-writers-branch/.pi/agent/sessions/--home-dev-w-conc--/2026-11-15T07-04-11-587Z_3f0c1a52-7a64-4c0e-9a1e-0d5b6a7c8d10.jsonl"
    ),
    include_bytes!(
        "../../../tests/recorded/pi/forked/.pi/agent/sessions/--home-dev-w-forkdst--/2026-11-15T07-04-10-763Z_3f0c1a52-7a64-4c0e-9a1e-0d5b6a7c8d0e.jsonl"
    ),
    include_bytes!(
        "../../../tests/recorded/pi/model-error-500-retries/.pi/agent/sessions/--home-dev-w-err500--/2026-11-15T07-03-48-637Z_3f0c1a52-7a64-4c0e-9a1e-0d5b6a7c8d05.jsonl"
    ),
    include_bytes!(
        "../../../tests/recorded/pi/old-0.73.1/.pi/agent/sessions/--home-dev-w-old73--/2026-11-15T07-05-05-599Z_01a1de06-1f3a-74f6-8011-8c23f070ca4a.jsonl"
    ),
    include_bytes!(
        "../../../tests/recorded/pi/compacted/.pi/agent/sessions/--home-dev-w-compact--/2026-11-15T07-04-48-769Z_3f0c1a52-7a64-4c0e-9a1e-0d5b6a7c8d0f.jsonl"
    ),
    include_bytes!(
        "../../../tests/recorded/pi/tools-named/.pi/agent/sessions/--home-dev-w-tools--/2026-11-15T07-03-45-700Z_3f0c1a52-7a64-4c0e-9a1e-0d5b6a7c8d02.jsonl"
    ),
    include_bytes!(
        "../../../tests/recorded/pi/user-bash-last/.pi/agent/sessions/--home-dev-w-userbash--/2026-11-15T07-04-53-918Z_3f0c1a52-7a64-4c0e-9a1e-0d5b6a7c8d13.jsonl"
    ),
    include_bytes!(
        "../../../tests/recorded/pi-rust/written-by-hand/.pi/agent/sessions/--home-dev-w-rust--/2026-02-22T16-29-54.096Z_0b6f1c7e.jsonl"
    ),
];

/// A store with one file, whose name does not show which agent created it.
fn survey(adapter: &dyn Adapter, bytes: &[u8], usage: bool) -> (tempfile::TempDir, PathBuf, Harvest) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sessions/--w--/any.jsonl");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, bytes).unwrap();
    let scope =
        Scope { usage, subagents: true, text_limit: Some(200), ..Scope::new(Reach::All { since: None }) };
    let harvest = adapter.survey(&Root::at(folder.path()), &scope);
    (folder, file, harvest)
}

fn one(adapter: &dyn Adapter, bytes: &[u8]) -> Found {
    let (_folder, _, harvest) = survey(adapter, bytes, true);
    assert_eq!(harvest.found.len(), 1, "{harvest:?}");
    assert_eq!((harvest.warnings.len(), harvest.drift.len()), (0, 0), "{harvest:?}");
    harvest.found.into_iter().next().unwrap()
}

#[test]
fn a_file_of_pi_rust_is_read_from_the_leaf_that_its_header_names() {
    let bytes = RECORDED[7];
    assert!(survey(&Pi, bytes, false).2.found.is_empty(), "it is not Pi's");
    let found = one(&PiRust, bytes);
    let facts = &found.facts;
    assert_eq!(found.id, "0b6f1c7e-55d2-4b19-9a40-6f2c1d9e8a71");
    assert_eq!(
        facts.turn.as_ref().unwrap().state,
        TurnState::Finished,
        "the error is on an abandoned branch"
    );
    assert_eq!(
        (facts.model.as_deref(), facts.cwd.as_deref()),
        (Some("fake/fake-1"), Some("/home/dev/w/rust"))
    );
    assert_eq!(facts.prompt.as_deref(), Some("list the files"));
    assert_eq!(facts.last_message.as_deref(), Some("There is one file."));
    let tokens = facts.tokens.unwrap();
    assert_eq!(
        (tokens.input, tokens.output, tokens.cache_read),
        (Some(271), Some(21), Some(100)),
        "all branches"
    );
}

#[test]
fn a_prompt_whose_line_is_not_ended_is_the_prompt() {
    let header = r#"{"type":"session","version":3,"id":"a","cwd":"/w"}"#;
    let prompt = r#"{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"hi"}}"#;
    let found = one(&Pi, format!("{header}\n{prompt}").as_bytes());
    assert_eq!(found.facts.prompt.as_deref(), Some("hi"));
    assert_eq!(one(&Pi, header.as_bytes()).facts.cwd.as_deref(), Some("/w"));
}

#[test]
fn an_early_title_that_was_replaced_in_the_middle_is_never_shown() {
    let long = "x".repeat(3000);
    let reply = format!(
        r#"{{"type":"message","id":"r","parentId":"n","message":{{"role":"assistant","stopReason":"stop","provider":"p","model":"m","content":"{long}"}}}}"#
    );
    for (given, expected) in [("later", Some("later")), ("", None)] {
        let title = format!(r#"{{"type":"session_info","id":"n","parentId":null,"name":"{given}"}}"#);
        let bytes =
            [RECORDED[5], title.as_bytes(), b"\n", format!("{reply}\n").repeat(20).as_bytes()].concat();
        for usage in [false, true] {
            let (_folder, _, harvest) = survey(&Pi, &bytes, usage);
            assert_eq!(harvest.found[0].facts.name.as_deref(), expected, "usage: {usage}");
        }
    }
}

#[test]
fn a_peek_shows_the_active_branch_and_only_the_last_of_several_attempts() {
    let texts = |bytes: &[u8], limit: usize| -> Vec<(Role, String)> {
        let (_folder, file, _) = survey(&Pi, bytes, false);
        let entries = Pi.read(&file, "", limit).unwrap();
        entries.into_iter().map(|entry| (entry.role, entry.text.trim().to_owned())).collect()
    };
    let branch = texts(RECORDED[0], 20);
    assert!(branch.iter().all(|(_, text)| !text.contains("other writer")), "{branch:?}");
    assert!(branch.last().unwrap().1.starts_with("tick0"));
    assert_eq!(texts(RECORDED[0], 2).len(), 2);
    let errors = texts(RECORDED[2], 20);
    assert_eq!(errors.iter().filter(|(role, _)| *role == Role::System).count(), 1, "{errors:?}");
    let bang = texts(RECORDED[6], 20);
    assert_eq!(bang.iter().rfind(|(role, _)| *role == Role::Agent).unwrap().1, "before bang");
}

#[test]
fn following_begins_with_the_branch_and_goes_on_with_what_is_written() {
    let (_folder, file, _) = survey(&Pi, RECORDED[0], false);
    let mut follower = Pi.follow(&file, "", 3).unwrap();
    let texts =
        |entries: Vec<agentctl_model::Entry>| entries.into_iter().map(|one| one.text).collect::<Vec<_>>();
    let first = texts(follower.next().unwrap());
    assert_eq!((first.len(), first[1].as_str()), (3, "SLOW 5"), "{first:?}");
    assert!(follower.next().unwrap().is_empty());
    let more =
        br#"{"type":"message","id":"f0","parentId":"9b928780","message":{"role":"user","content":"more"}}"#;
    append(&file, more);
    assert!(follower.next().unwrap().is_empty(), "half a line is not an entry");
    append(&file, b"\n");
    assert_eq!(texts(follower.next().unwrap()), ["more"]);
}

fn append(file: &Path, bytes: &[u8]) {
    use std::io::Write;
    std::fs::File::options().append(true).open(file).unwrap().write_all(bytes).unwrap();
}

/// The sum of all numbers that follow `"key":` anywhere.
fn sum_of(bytes: &[u8], key: &str) -> u64 {
    let text = String::from_utf8_lossy(bytes);
    let key = format!("\"{key}\":");
    let number = |piece: &str| {
        let digits: String = piece.trim_start().chars().take_while(char::is_ascii_digit).collect();
        if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u64::MAX) }
    };
    text.split(&key).skip(1).map(number).fold(0, u64::saturating_add)
}

fn holds(bytes: &[u8], text: &str) -> bool {
    // Damaged bytes are not UTF-8, but the text that was read from them was.
    bytes.windows(text.len().max(1)).any(|window| window == text.as_bytes())
}

fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let file = prop::sample::select(RECORDED.to_vec());
    let piece =
        (file, any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(file, a, b)| {
            let (a, b) = (a.index(file.len() + 1), b.index(file.len() + 1));
            file[a.min(b)..a.max(b)].to_vec()
        });
    let whole = prop::sample::select(RECORDED.to_vec()).prop_map(<[u8]>::to_vec);
    let parts = prop::collection::vec(prop_oneof![whole, piece], 1..4).prop_map(|parts| parts.concat());
    let hits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8);
    (parts, hits).prop_map(|(mut bytes, hits)| {
        for (at, byte) in hits {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn no_damage_invents_anything(bytes in damaged()) {
        for adapter in [&Pi as &dyn Adapter, &PiRust] {
            let (_folder, file, harvest) = survey(adapter, &bytes, true);
            for found in &harvest.found {
                prop_assert!(holds(&bytes, &found.id), "invented id {}", found.id);
                if let Some(cwd) = found.facts.cwd.as_deref().filter(|cwd| !cwd.contains('\u{fffd}')) {
                    prop_assert!(bytes.contains(&b'\\') || holds(&bytes, cwd), "invented cwd {cwd}");
                }
                let tokens = found.facts.tokens.unwrap_or_default();
                for (key, part) in [
                    ("input", tokens.input),
                    ("output", tokens.output),
                    ("cacheRead", tokens.cache_read),
                    ("cacheWrite", tokens.cache_write),
                ] {
                    prop_assert!(part.unwrap_or(0) <= sum_of(&bytes, key), "invented {key} {part:?}");
                }
            }
            let _ = adapter.read(&file, "", 50).unwrap();
            let _ = adapter.follow(&file, "", 50).unwrap().next().unwrap();
        }
    }
}

#[test]
fn the_folder_that_the_settings_name_is_watched_like_the_agents_own() {
    let folder = tempfile::tempdir().unwrap();
    let (root, moved) = (folder.path().join("agent"), folder.path().join("moved"));
    std::fs::create_dir(&root).unwrap();
    let watched = |adapter: &dyn Adapter, root: &Root| -> Vec<PathBuf> {
        adapter.watch(root).into_iter().map(|target| target.path).collect()
    };
    let own = Root::at(&root);
    assert_eq!(watched(&Pi, &own), std::slice::from_ref(&root));
    let settings = format!(r#"{{"sessionDir":"{}"}}"#, moved.display());
    std::fs::write(root.join("settings.json"), settings).unwrap();
    assert_eq!(watched(&Pi, &own), [root.clone(), moved.clone()]);
    assert_eq!(watched(&PiRust, &own), std::slice::from_ref(&root), "it reads no such settings");
    let named = Root { store: Some(folder.path().join("named")), ..own };
    assert_eq!(watched(&Pi, &named), [root, folder.path().join("named")], "a variable is stronger");
}
