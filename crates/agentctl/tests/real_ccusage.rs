//! Usage side by side with ccusage, which others wrote: equal, or different for a reason that a record proves.
//! `docs/usage.md` has the same table in words.
#![allow(clippy::disallowed_methods, reason = "tests run the binary")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

mod machine;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use agentctl_testkit::{skip, tools};
use machine::Machine;
use serde_json::Value;

type Counts = [u64; 4];
/// The agent, the case (all if empty), what ccusage counts instead, and why.
type Difference = (&'static str, &'static str, fn(Counts) -> Counts, &'static str);

/// Where ccusage differs.
const DIFFERENCES: [Difference; 10] = [
    (
        "claude-code",
        "",
        |[i, o, r, _]| [i, o, r, 0],
        "cache_creation_input_tokens is not counted where cache_creation has zeros",
    ),
    ("codex", "approval-killed", |_| [0; 4], "a token_usage_record without a token_count is not counted"),
    ("codex", "killed", |_| [0; 4], "a token_usage_record without a token_count is not counted"),
    ("opencode", "v1.18-sqlite", |_| [3710, 1068, 319, 0], "what forks copied counts again"),
    ("pi", "compacted", |_| [3600, 102, 2400, 0], "the usage of compactions is not counted"),
    ("pi", "forked", |_| [3600, 102, 2400, 0], "what a fork copied counts again"),
    ("qwen", "odd-cwd", |[i, o, r, w]| [i + r, o, r, w], "what a cache supplied counts as input too"),
    ("qwen", "resumed", |[i, o, r, w]| [i + r, o, r, w], "what a cache supplied counts as input too"),
    ("qwen", "tool-call", |[i, o, r, w]| [i + r, o, r, w], "what a cache supplied counts as input too"),
    ("kimi", "sessions-of-all-kinds", |_| [945, 90, 180, 0], "what forks copied counts again"),
];

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

fn theirs(program: &Path, agent: &str, home: &Path) -> Counts {
    let command = if agent == "claude-code" { "claude" } else { agent };
    let mut ccusage = Command::new(program);
    ccusage.args([command, "daily", "--json", "--offline"]).env_clear().env("HOME", home).env("TZ", "UTC");
    ccusage.env("PATH", std::env::var_os("PATH").unwrap());
    let answer = ccusage.output().unwrap();
    // It answers also where nothing was spent: without an answer it failed, and counted nothing.
    let failed = || format!("{agent} in {}: {answer:?}", home.display());
    assert!(answer.status.success(), "{}", failed());
    let report: Value = serde_json::from_slice(&answer.stdout).unwrap_or_else(|_| panic!("{}", failed()));
    if report["daily"].as_array().is_some_and(Vec::is_empty) {
        return [0; 4];
    }
    ["inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens"]
        .map(|name| report["totals"][name].as_u64().unwrap_or_else(|| panic!("no {name}: {}", failed())))
}

#[test]
fn every_difference_to_ccusage_is_known() {
    if std::env::var_os("AGENTCTL_LONG").is_none() {
        return skip("side by side with ccusage: only with AGENTCTL_LONG");
    }
    let program = match tools::ccusage() {
        Ok(program) => program,
        Err(reason) => return skip(reason),
    };
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded");
    let mut unexpected = BTreeMap::new();
    let mut compared = 0;
    for agent in ["claude-code", "codex", "copilot", "gemini", "kimi", "opencode", "pi", "qwen"] {
        let folder = recorded.join(agent);
        let expected = fs::read(folder.join("expected.json")).unwrap_or_else(|_| b"{}".to_vec());
        let expected: Value = serde_json::from_slice(&expected).unwrap();
        for case in fs::read_dir(&folder).unwrap().map(Result::unwrap).filter(|case| case.path().is_dir()) {
            let name = case.file_name().into_string().unwrap();
            if expected["cases"][&name]["env"].is_object() {
                continue;
            }
            let machine = Machine::empty();
            copy(&case.path(), machine.home());
            let tokens = machine.json(&["usage", "--json"])["total"]["tokens"].clone();
            let ours =
                ["in", "out", "cacheRead", "cacheWrite"].map(|part| tokens[part].as_u64().unwrap_or(0));
            let known =
                DIFFERENCES.iter().find(|(of, at, ..)| *of == agent && (at.is_empty() || *at == name));
            let foreseen = known.map_or(ours, |(_, _, differs, _)| differs(ours));
            let theirs = theirs(&program, agent, machine.home());
            compared += 1;
            if theirs != foreseen {
                unexpected.insert(format!("{agent}/{name}"), (ours, theirs, foreseen));
            }
        }
    }
    assert!(compared > 60, "{compared}");
    assert!(unexpected.is_empty(), "ours, theirs, foreseen: {unexpected:#?}");
}
