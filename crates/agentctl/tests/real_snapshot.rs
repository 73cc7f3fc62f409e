//! A snapshot of real agents in the middle of a turn: the replay says what the machine said.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start processes and stop at surprises"
)]

#[path = "steer/mod.rs"]
mod steer;

use agentctl_snapshot::archive;
use agentctl_testkit::{Claude, Codex, OpenCode, Skip, TestHome, until_seen};
use serde_json::{Value, json};
use steer::{ENDLESS, Scene, TIMEOUT};

const CANARY: &str = "zqcanary";

/// Leaves out when it was looked at and how long it took, and the sources that no snapshot holds.
fn normalise(value: &mut Value) {
    match value {
        Value::Array(values) => {
            values.retain(|value| {
                let adapter = value["adapter"].as_str().unwrap_or_default();
                !(value.get("coverage").is_some() && (adapter == "openclaw" || adapter.starts_with("acp:")))
            });
            values.iter_mut().for_each(normalise);
        }
        Value::Object(pairs) => {
            for key in ["tookMs", "asOf", "hosts"] {
                pairs.remove(key);
            }
            if pairs.get("source").is_some_and(|source| source == "kernel") {
                pairs.remove("at");
            }
            pairs.values_mut().for_each(normalise);
        }
        _ => {}
    }
}

/// What is equal in a redacted one too: no text.
fn gist(session: &Value) -> Value {
    let keys = [
        "id",
        "adapter",
        "status",
        "outcome",
        "since",
        "pid",
        "startedAt",
        "updatedAt",
        "tokens",
        "capabilities",
    ];
    keys.iter().map(|key| session[*key].clone()).collect::<Vec<_>>().into()
}

fn replayed_in_mid_turn(adapter: &'static str, settle: impl FnOnce(&mut TestHome, &str) -> Result<(), Skip>) {
    let Some(scene) = Scene::set(adapter, settle) else { return };
    let prompt = format!("[[bash:{ENDLESS}]] [[hang]] {CANARY} in a prompt");
    let launched = scene.launch(&prompt, &["--label", &format!("who={CANARY}")]).ok().json();
    let id = launched["id"].as_str().unwrap().to_owned();
    scene.wait_for_tool();
    let ask = |args: &[&str]| {
        let mut answer = scene.agentctl(args).ok().json();
        normalise(&mut answer);
        answer
    };
    let place = |name: &str| scene.home.path().join(name).to_str().unwrap().to_owned();
    let (whole, redacted) = (place("whole.snapshot"), place("redacted.snapshot"));
    let answers = || (ask(&["list", "--json"]), ask(&["explain", &id, "--json"]));
    // An agent may write a record at any moment: only what was the same before and after is about one moment.
    let (list, explain) = until_seen(TIMEOUT, "a moment in which the agent writes nothing", || {
        let before = answers();
        for file in [&whole, &redacted] {
            drop(std::fs::remove_file(file));
        }
        let taken = ask(&["snapshot", &whole, "--with-text", "--yes", "--json"]);
        let _ = scene.agentctl(&["snapshot", &redacted, &id, "--yes"]).ok();
        let after = answers();
        // A file that the agent took away meanwhile is not carried.
        if before != after || taken["notCarried"] != json!([]) {
            return Err(format!("{before:#?} became {after:#?}; {taken:#}"));
        }
        assert!(taken["processes"].as_u64().unwrap() > 0, "{taken:#}");
        Ok(after)
    });
    assert_eq!(list["sessions"][0]["status"], "running", "{list:#}");

    assert_eq!(ask(&["--replay", &whole, "list", "--json"]), list);
    assert_eq!(ask(&["--replay", &whole, "explain", &id, "--json"]), explain);
    let replay = ask(&["--replay", &redacted, "list", "--json"]);
    assert_eq!(gist(&replay["sessions"][0]), gist(&list["sessions"][0]), "{replay:#}");
    let told = ask(&["--replay", &redacted, "explain", &id, "--json"]);
    assert_eq!((&told["rule"], &told["status"]), (&explain["rule"], &explain["status"]), "{told:#}");
    let bytes = std::fs::read(&redacted).unwrap();
    let parts = archive::unpack(&bytes).unwrap();
    let all = [&[parts.manifest][..], &parts.files].concat().concat();
    let text = String::from_utf8_lossy(&all).to_lowercase();
    let at = text.find(CANARY).map(|at| &text[at.saturating_sub(200)..(at + 40).min(text.len())]);
    assert_eq!(at, None);

    // The moment is over, and the replay still says what was.
    let _ = scene.agentctl(&["stop", &id, "--force"]).ok();
    scene.wait_for_silence();
    assert_eq!(ask(&["--replay", &whole, "list", "--json"]), list);
}

#[test]
fn claude_code_is_replayed_in_the_middle_of_a_turn() {
    replayed_in_mid_turn("claude-code", |home, url| Claude::settle(home, url).map(drop));
}

#[test]
fn codex_is_replayed_in_the_middle_of_a_turn() {
    replayed_in_mid_turn("codex", |home, url| Codex::settle(home, url).map(drop));
}

#[test]
fn opencode_is_replayed_in_the_middle_of_a_turn() {
    replayed_in_mid_turn("opencode", |home, url| OpenCode::settle(home, url, &json!("allow")).map(drop));
}
