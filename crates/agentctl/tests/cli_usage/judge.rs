//! Every recorded session, counted by a slow program that shares nothing with agentctl.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::machine::Machine;

type Counts = BTreeMap<String, [Option<u64>; 4]>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// What the judge counts below each of these homes.
pub(crate) fn judged(homes: &[&Machine]) -> Vec<Counts> {
    let mut judge = Command::new("python3");
    judge.arg(root().join("tools/count-usage")).args(homes.iter().map(|machine| machine.home()));
    let judge = judge.output().unwrap();
    assert!(judge.status.success(), "{}", String::from_utf8_lossy(&judge.stderr));
    String::from_utf8(judge.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn counted(report: &Value) -> Counts {
    let row = |row: &Value| {
        let part = |name: &str| row["tokens"][name].as_u64();
        let name = format!("{} {}", row["adapter"].as_str().unwrap(), row["key"].as_str().unwrap());
        (name, [part("in"), part("out"), part("cacheRead"), part("cacheWrite")])
    };
    report["rows"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn every_recorded_session_is_counted_as_the_slow_counter_does() {
    let (mut names, mut homes) = (Vec::new(), Vec::new());
    for agent in ["claude-code", "codex", "copilot", "gemini", "kimi", "opencode", "pi", "pi-rust", "qwen"] {
        let folder = root().join("recorded").join(agent);
        let expected = fs::read(folder.join("expected.json")).unwrap_or_else(|_| b"{}".to_vec());
        let expected: Value = serde_json::from_slice(&expected).unwrap();
        for case in fs::read_dir(&folder).unwrap().map(Result::unwrap).filter(|case| case.path().is_dir()) {
            // A case with variables keeps its sessions where the judge does not look.
            let name = case.file_name().into_string().unwrap();
            if expected["cases"][&name]["env"].is_object() {
                continue;
            }
            let machine = Machine::empty();
            copy(&case.path(), machine.home());
            homes.push(machine);
            names.push(format!("{agent}/{name}"));
        }
    }
    let mut sessions = 0;
    for ((name, machine), judged) in names.iter().zip(&homes).zip(judged(&homes.iter().collect::<Vec<_>>())) {
        let report = machine.json(&["usage", "--by", "session", "--json"]);
        assert_eq!(counted(&report), judged, "{name}");
        sessions += judged.len();
    }
    assert!(sessions > 100, "only {sessions} sessions were compared");
}
