//! Sessions that a server of the agent runs, steered through the command line: interrupted, spoken to,
//! answered.

use std::path::Path;

use agentctl_testkit::{until, until_seen};
use serde_json::Value;

use super::{ENDLESS, Scene, TIMEOUT, is_stored_below};

/// Waits until the session is in the wanted state.
#[track_caller]
pub(crate) fn becomes(scene: &Scene, id: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    until_seen(TIMEOUT, what, || {
        // A session that was just created may not be stored yet.
        let said = scene.agentctl(&["status", id, "--json"]);
        let seen: Value = serde_json::from_str(&said.stdout).unwrap_or_default();
        if fits(&seen) { Ok(seen) } else { Err(format!("{seen:#}\n{}", said.stderr)) }
    })
}

/// A turn is stopped in its tool: the tool ends, the server lives.
pub(crate) fn broken_off(scene: &Scene, id: &str, server: u32) {
    scene.wait_for_tool();
    let stopped = scene.agentctl(&["stop", id, "--json"]).ok().json();
    assert_eq!(stopped["sessions"][0]["survived"], Value::Array(Vec::new()), "{stopped:#}");
    // The report of the stop matches the list.
    let report = &stopped["sessions"][0];
    match report["session"]["status"].as_str() {
        Some("idle") => {
            let place = report["openIn"].as_str().unwrap_or_default();
            assert!(place.contains(&format!("process {server}")), "{stopped:#}");
            let again = scene.agentctl(&["stop", id]).ok().stdout;
            assert!(again.contains("was idle already") && again.contains(place), "{again}");
        }
        Some("stopped") => assert!(report["openIn"].is_null(), "{stopped:#}"),
        _ => panic!("{stopped:#}"),
    }
    becomes(scene, id, "the turn broken off", |seen| seen["outcome"] == "interrupted");
    until(TIMEOUT, "the end of the tool", || {
        let left = scene.processes().into_iter().find(|(_, line)| line.contains(ENDLESS));
        left.is_none().then_some(())
    });
    assert!(scene.processes().iter().any(|(pid, _)| *pid == server), "the server was ended");
}

/// A session that waits for permission to create `file` gets it.
pub(crate) fn approved(scene: &Scene, id: &str, file: &Path) {
    // That something waits is known even where the server had no time to say what.
    let waiting = becomes(scene, id, "the request", |seen| {
        seen["status"] == "waiting" && seen["pending"][0]["answerable"] == true
    });
    assert_eq!(waiting["pending"][0]["kind"], "approval", "{waiting:#}");
    let wrong = scene.agentctl(&["answer", id, "some words"]);
    assert_eq!(wrong.code, Some(7), "{wrong:#?}");
    let _ = scene.agentctl(&["approve", id]).ok();
    until(TIMEOUT, "what was approved", || file.exists().then_some(()));
}

/// The same, but permission is denied.
pub(crate) fn denied(scene: &Scene, id: &str, file: &Path) {
    becomes(scene, id, "the request", |seen| seen["status"] == "waiting");
    let _ = scene.agentctl(&["deny", id]).ok();
    becomes(scene, id, "the end of the turn", |seen| {
        !matches!(seen["status"].as_str(), Some("waiting" | "running"))
    });
    assert!(!file.exists(), "it was denied");
    let nothing = scene.agentctl(&["approve", id]);
    assert_eq!(nothing.code, Some(7), "nothing waits any more: {nothing:#?}");
}

/// A copy continues under an id of its own, and the original stays as it was.
pub(crate) fn forked(scene: &Scene, store: &str) {
    let words = "[[text:the first]] begin";
    let first = scene.launch(words, &["--wait"]).ok().json();
    let id = first["id"].as_str().unwrap();
    let arguments = [
        "resume",
        id,
        "--fork",
        "[[text:the second]] go on",
        "--permission-mode",
        "bypass",
        "--wait",
        "--json",
    ];
    let second = scene.agentctl(&arguments).ok().json();
    let copy = second["id"].as_str().unwrap();
    assert_ne!(copy, id, "{second:#}");
    assert!(is_stored_below(&scene.home.path().join(store), copy), "{copy} is not the agent's own");
    assert_eq!(second["lastMessage"], "the second", "{second:#}");
    assert_eq!(scene.status(id)["lastMessage"], "the first");
    scene.wait_for_silence();
}
