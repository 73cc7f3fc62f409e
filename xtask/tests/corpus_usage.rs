//! What `usage` counts in a made-up corpus of every agent that there is a generator for, beside the slow counter and
//! beside what the generator itself wrote down.

#![allow(clippy::disallowed_methods, reason = "tests run programs and read files")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use agentctl_testkit::skip;
use serde_json::Value;

type Counts = BTreeMap<String, [Option<u64>; 4]>;

#[track_caller]
fn run(command: &mut Command) -> Value {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap_or_default()
}

fn parts(tokens: &Value) -> [Option<u64>; 4] {
    ["in", "out", "cacheRead", "cacheWrite"].map(|part| tokens[part].as_u64())
}

#[test]
fn every_session_of_a_corpus_is_counted_as_the_slow_counter_does() {
    let built = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("agentctl");
    let program = agentctl_testkit::tested(built);
    if !program.is_file() {
        return skip("no agentctl beside xtask: `cargo build -p agentctl` makes it");
    }
    let sessions = if std::env::var_os("AGENTCTL_LONG").is_some() { "3000" } else { "140" };
    let home = tempfile::tempdir().unwrap();
    let mut corpus = Command::new(env!("CARGO_BIN_EXE_xtask"));
    corpus.args(["corpus", "--sessions", sessions, "--agents", "all", "--mean-scale", "0.1", "--home"]);
    run(corpus.arg(home.path()));
    let mut usage = Command::new(&program);
    usage.args(["usage", "--by", "session", "--json"]).env_clear().env("HOME", home.path());
    let report = run(usage.env("TZ", "UTC").env("PATH", "/nowhere").env("AGENTCTL_NO_DAEMON", "1"));
    let named =
        |row: &Value, id: &str| format!("{} {}", row["adapter"].as_str().unwrap(), row[id].as_str().unwrap());
    let rows = report["rows"].as_array().unwrap().iter();
    let counted: Counts = rows.map(|row| (named(row, "key"), parts(&row["tokens"]))).collect();

    let judge = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tools/count-usage");
    let judged: Counts =
        serde_json::from_value(run(Command::new("python3").arg(judge).arg(home.path()))).unwrap();
    assert_eq!(counted, judged);

    let manifest: Value =
        serde_json::from_slice(&fs::read(home.path().join("manifest.json")).unwrap()).unwrap();
    let written = manifest["rows"].as_array().unwrap().iter();
    let written = written.filter(|row| row["expected"]["tokens"].is_object());
    let mut compared = 0;
    for row in written {
        let name = named(row, "id");
        assert_eq!(counted.get(&name), Some(&parts(&row["expected"]["tokens"])), "{name}");
        compared += 1;
    }
    assert!(compared > 50, "only {compared} sessions say what they spent");
}
