//! Days, weeks, months and zones; folders and their worktrees.

use std::process::Command;

use serde_json::{Value, json};

use crate::machine::Machine;
use crate::{ONE, TWO, prompt, reply, rows, transcript};

/// Two calls around midnight, one a week later, one a month later.
fn calls() -> Machine {
    let machine = Machine::empty();
    let times = [
        "2026-11-01T23:30:00.000Z",
        "2026-11-02T00:30:00.000Z",
        "2026-11-09T12:00:00.000Z",
        "2026-12-01T12:00:00.000Z",
    ];
    let replies =
        times.iter().enumerate().map(|(index, at)| reply(ONE, &format!("m{index}"), at, &json!({})));
    machine.write(&transcript(ONE), &[prompt(ONE, times[0]), replies.collect::<String>()].concat());
    machine
}

fn keys(report: &Value) -> Vec<(&str, u64)> {
    rows(report).into_iter().map(|(key, tokens, _)| (key.unwrap(), tokens[0].unwrap())).collect()
}

#[test]
fn a_call_counts_on_the_day_of_its_zone() {
    let machine = calls();
    let by = |by: &str, more: &[&str]| machine.json(&[&["usage", "--json", "--by", by], more].concat());
    let days = by("day", &[]);
    assert_eq!(
        keys(&days),
        [("2026-11-01", 100), ("2026-11-02", 100), ("2026-11-09", 100), ("2026-12-01", 100)]
    );
    assert_eq!(keys(&by("day", &["--tz", "Europe/Berlin"]))[0], ("2026-11-02", 200));
    assert_eq!(keys(&by("day", &["--tz", "-01:00"]))[0], ("2026-11-01", 200));
    assert_eq!(
        keys(&by("week", &[])),
        [("2026-W44", 100), ("2026-W45", 100), ("2026-W46", 100), ("2026-W49", 100)]
    );
    assert_eq!(keys(&by("month", &[])), [("2026-11", 300), ("2026-12", 100)]);
}

#[test]
fn a_window_is_about_calls_and_not_about_sessions() {
    let machine = calls();
    let total = |more: &[&str]| {
        let report = machine.json(&[&["usage", "--json"], more].concat());
        report["total"]["tokens"]["in"].as_u64().unwrap_or(0)
    };
    assert_eq!(total(&["--since", "2026-11-02"]), 300);
    assert_eq!(total(&["--since", "2026-11-02", "--tz", "Europe/Berlin"]), 400);
    assert_eq!(total(&["--until", "2026-11-02"]), 200, "the whole of that day");
    assert_eq!(total(&["--since", "2026-11-02T00:30:00Z", "--until", "2026-11-09T12:00:00Z"]), 100);
    assert_eq!(total(&["--since", "2027-01-01"]), 0);
}

#[test]
fn worktrees_count_for_their_repository() {
    let machine = Machine::empty();
    let repository = machine.home().join("repo");
    let tree = machine.home().join("repo-try");
    std::fs::create_dir(&repository).unwrap();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-C"])
            .arg(&repository)
            .args(arguments);
        assert!(git.output().unwrap().status.success(), "{arguments:?}");
    };
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "first"]);
    git(&["worktree", "add", "--quiet", tree.to_str().unwrap()]);
    std::fs::create_dir(repository.join("src")).unwrap();
    let at = "2026-11-02T00:30:00.000Z";
    for (id, folder) in [(ONE, repository.join("src")), (TWO, tree)] {
        let text = [prompt(id, at), reply(id, id, at, &json!({}))].concat();
        machine.write(&transcript(id), &text.replace("\"/w\"", &json!(folder).to_string()));
    }
    let report = machine.json(&["usage", "--by", "cwd", "--json"]);
    let real = std::fs::canonicalize(&repository).unwrap();
    assert_eq!(rows(&report), [(real.to_str(), [Some(200), Some(20), Some(0), Some(0)], 2)]);
    let narrowed = machine.json(&["usage", "--cwd", repository.to_str().unwrap(), "--json"]);
    assert_eq!(narrowed["total"]["sessions"], 1, "--cwd means the folder itself, as in `list`");
}
