//! Files of a terabyte that contain nothing, or almost nothing: they are left out with a warning, and the
//! others are reported.

#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use agentctl_adapters::agents::claude_code::ClaudeCode;
use agentctl_adapters::agents::codex::Codex;
use agentctl_adapters::agents::copilot::Copilot;
use agentctl_adapters::agents::gemini::Gemini;
use agentctl_adapters::agents::kimi::Kimi;
use agentctl_adapters::agents::pi::Pi;
use agentctl_adapters::agents::qwen::Qwen;
use agentctl_adapters::cancel::with_cancellation;
use agentctl_adapters::{Adapter, Progress, Reach, Root, Scope};
use agentctl_model::{Coverage, Harvest};

const TERABYTE: u64 = 1 << 40;

/// An agent, the path of the conversation with this id, and a recorded conversation.
struct Kept {
    adapter: &'static dyn Adapter,
    place: fn(&str) -> String,
    bytes: &'static [u8],
    /// Small files beside it that are read too, relative to the root.
    beside: &'static [&'static str],
}

const GOOD: &str = "c2000000-1111-4111-8111-111111111111";
const BAD: &str = "d3000000-2222-4222-8222-222222222222";

fn kept() -> Vec<Kept> {
    vec![
        Kept {
            adapter: &ClaudeCode,
            place: |id| format!("projects/-w/{id}.jsonl"),
            bytes: include_bytes!(
                "../../../tests/recorded/claude-code/tool-calls/.claude/projects/-home-dev-w-plain/22222222-2222-4222-8222-222222222222.jsonl"
            ),
            beside: &["sessions/4242.json"],
        },
        Kept {
            adapter: &Codex,
            place: |id| format!("sessions/2026/11/15/rollout-2026-11-15T07-01-35-{id}.jsonl"),
            bytes: include_bytes!(
                "../../../tests/recorded/codex/interrupted/.codex/sessions/2026/11/15/rollout-2026-11-15T07-00-51-01a1de02-3f69-7400-ad71-c7bf8fe9c780.jsonl"
            ),
            beside: &["session_index.jsonl"],
        },
        Kept {
            adapter: &Pi,
            place: |id| format!("sessions/--w--/2026-11-15T07-01-35-000Z_{id}.jsonl"),
            bytes: include_bytes!(
                "../../../tests/recorded/pi/tools-named/.pi/agent/sessions/--home-dev-w-tools--/2026-11-15T07-03-45-700Z_3f0c1a52-7a64-4c0e-9a1e-0d5b6a7c8d02.jsonl"
            ),
            beside: &["settings.json"],
        },
        Kept {
            adapter: &Copilot,
            place: |id| format!("session-state/{id}/events.jsonl"),
            bytes: include_bytes!(
                "../../../tests/recorded/copilot/tool-call/.copilot/session-state/c2000000-1111-4111-8111-111111111111/events.jsonl"
            ),
            beside: &["session-state/c2000000-1111-4111-8111-111111111111/workspace.yaml"],
        },
        Kept {
            adapter: &Gemini,
            place: |id| format!("tmp/w/chats/session-2026-11-15T07-05-{}.jsonl", &id[..8]),
            bytes: include_bytes!(
                "../../../tests/recorded/gemini/resumed/.gemini/tmp/gs2/chats/session-2026-11-15T07-09-dddddddd.jsonl"
            ),
            beside: &["projects.json", "tmp/w/.project_root"],
        },
        Kept {
            adapter: &Qwen,
            place: |id| format!("projects/-w/chats/{id}.jsonl"),
            bytes: include_bytes!(
                "../../../tests/recorded/qwen/tool-call/.qwen/projects/-home-dev-work-q1/chats/a2000000-1111-4111-8111-111111111111.jsonl"
            ),
            beside: &[],
        },
        Kept {
            adapter: &Kimi,
            place: |id| format!("sessions/wd_w_0/{id}/agents/main/wire.jsonl"),
            bytes: include_bytes!(
                "../../../tests/recorded/kimi/sessions-of-all-kinds/.kimi-code/sessions/wd_work2_c003ebeada68/session_6e6bbe9e-84bf-41c1-a2c5-ab4a8118f2b8/agents/main/wire.jsonl"
            ),
            beside: &["workspaces.json", "sessions/wd_w_0/c2000000-1111-4111-8111-111111111111/state.json"],
        },
    ]
}

fn write(path: &Path, bytes: &[u8]) -> File {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = File::create(path).unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn survey(adapter: &dyn Adapter, root: &Path, usage: bool, progress: &Progress) -> Harvest {
    let scope = Scope {
        usage,
        subagents: true,
        progress: progress.clone(),
        ..Scope::new(Reach::All { since: None })
    };
    with_cancellation(Some(progress), || adapter.survey(&Root::at(root), &scope))
}

#[test]
fn a_transcript_of_a_terabyte_is_left_out_and_the_others_are_told() {
    for Kept { adapter, place, bytes, .. } in kept() {
        for beginning in [&b""[..], bytes] {
            for usage in [false, true] {
                let root = tempfile::tempdir().unwrap();
                write(&root.path().join(place(GOOD)), bytes);
                let path = root.path().join(place(BAD));
                write(&path, beginning).set_len(TERABYTE).unwrap();
                let harvest = survey(adapter, root.path(), usage, &Progress::default());
                let name = adapter.card().name;
                assert_eq!(harvest.coverage, Coverage::Partial, "{name} {:?}", harvest.warnings);
                assert_eq!(harvest.found.len(), 1, "{name} {:?}", harvest.warnings);
                let named = harvest.warnings.iter().any(|warning| warning.contains(path.to_str().unwrap()));
                assert!(named, "{name} {:?}", harvest.warnings);
                assert!(adapter.read(&path, BAD, 50).is_err(), "{name}");
            }
        }
    }
}

/// The facts requested most often are at the end of a file, and are found there whatever comes before.
#[test]
fn a_hole_before_the_records_costs_a_list_nothing() {
    for Kept { adapter, place, bytes, .. } in kept() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(place(BAD));
        let mut file = write(&path, b"");
        file.seek(SeekFrom::Start(TERABYTE)).unwrap();
        file.write_all(bytes).unwrap();
        for usage in [false, true] {
            let harvest = survey(adapter, root.path(), usage, &Progress::default());
            let name = adapter.card().name;
            let fit = matches!(harvest.coverage, Coverage::Complete | Coverage::Partial);
            assert!(fit, "{name} {:?} {:?}", harvest.coverage, harvest.warnings);
        }
    }
}

#[test]
fn a_small_file_that_is_a_terabyte_hides_nobody() {
    for Kept { adapter, place, bytes, beside } in kept() {
        for small in beside {
            let root = tempfile::tempdir().unwrap();
            write(&root.path().join(place(GOOD)), bytes);
            write(&root.path().join(small), b"").set_len(TERABYTE).unwrap();
            let harvest = survey(adapter, root.path(), false, &Progress::default());
            let name = adapter.card().name;
            assert_eq!(harvest.found.len(), 1, "{name} {small} {:?}", harvest.warnings);
        }
    }
}

#[test]
fn whoever_is_given_up_on_reads_no_further() {
    for Kept { adapter, place, bytes, .. } in kept() {
        let root = tempfile::tempdir().unwrap();
        write(&root.path().join(place(GOOD)), bytes);
        write(&root.path().join(place(BAD)), b"").set_len(TERABYTE).unwrap();
        let progress = Progress::default();
        progress.give_up();
        let harvest = survey(adapter, root.path(), true, &progress);
        assert!(harvest.found.is_empty(), "{}", adapter.card().name);
        // Progress advances once per file and never within one.
        assert!(progress.count() <= 8, "{} {}", adapter.card().name, progress.count());
    }
}
