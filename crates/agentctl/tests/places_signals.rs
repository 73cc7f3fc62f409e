//! Every place in the product that sends a signal is listed in `docs/signals.md` with the check in front of
//! it. A new place fails this test until its check has been written down.

#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Calls that send a signal, or pass one to code that does.
const CALLS: [&str; 10] = [
    ".signal(",
    "platform::send(",
    "pidfd_send_signal(",
    "kill_process(",
    "kill_process_group(",
    "kill_current_process_group(",
    "kill_with(",
    ".kill()",
    "libc::kill",
    "new(\"kill\")",
];

fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// `file: code` of every call, without tests and comments.
fn calls() -> BTreeSet<String> {
    let mut files = Vec::new();
    for room in ["model", "files", "process", "adapters", "fleet", "daemon", "agentctl"] {
        sources(&root().join("crates").join(room).join("src"), &mut files);
    }
    let mut calls = BTreeSet::new();
    for file in files {
        let name = file.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        if name.ends_with("_tests.rs") || name.ends_with("/tests.rs") || name.ends_with("/made.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for line in product.lines().map(str::trim) {
            // Reading the signal of an exit status sends none.
            let code = line.split("//").next().unwrap_or_default();
            let sends = code.replace(".signal()", "");
            if CALLS.iter().any(|call| sends.contains(call)) && !code.contains("use ") {
                calls.insert(format!("{name}: {}", code.trim()));
            }
        }
    }
    calls
}

/// The rows of the table: place, check.
fn written() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("docs/signals.md")).unwrap();
    let rows =
        text.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | "));
    rows.map(|(place, check)| (place.replace("\\|", "|"), check.to_owned())).collect()
}

#[test]
fn every_place_that_sends_a_signal_is_written_down_with_its_check() {
    let (calls, written) = (calls(), written());
    let known: BTreeSet<String> = written.iter().map(|(place, _)| place.clone()).collect();
    let new: Vec<_> = calls.difference(&known).collect();
    let gone: Vec<_> = known.difference(&calls).collect();
    assert!(new.is_empty(), "not in docs/signals.md, with the check in front of it: {new:#?}");
    assert!(gone.is_empty(), "in docs/signals.md, and not in the source: {gone:#?}");
    assert!(written.iter().all(|(_, check)| check.len() > 10), "a place without its check: {written:#?}");
}

#[test]
fn signals_are_sent_through_a_proof_only() {
    // `signal::pidfd` and `signal::polled` signal any process they are given, so only the proof may call
    // them.
    let mut files = Vec::new();
    for room in ["adapters", "fleet", "daemon", "agentctl"] {
        sources(&root().join("crates").join(room).join("src"), &mut files);
    }
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for way in ["signal::pidfd", "signal::polled", "pidfd_send_signal"] {
            assert!(!text.contains(way), "{} reaches for {way}", file.display());
        }
    }
}
