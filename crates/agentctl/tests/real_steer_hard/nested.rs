//! An agent whose tool launched another agent: stopping the outer one leaves the inner one at work.

use std::fs;

use agentctl_testkit::until_seen;
use serde_json::Value;

use crate::scene;
use crate::steer::TIMEOUT;

#[test]
fn stopping_an_agent_does_not_stop_what_it_launched() {
    let Some(scene) = scene() else { return };
    let inner_cwd = scene.home.git_repo("inner");
    let script = scene.cwd.join("launch-inner.sh");
    let agentctl = env!("CARGO_BIN_EXE_agentctl");
    let text = format!(
        "exec '{agentctl}' launch claude-code --cwd '{}' -p '[[hang]] inner' --permission-mode bypass --json > '{}'\n",
        inner_cwd.display(),
        scene.cwd.join("inner.json").display(),
    );
    fs::write(&script, text).unwrap();
    let outer = scene.launch("[[bash:sh launch-inner.sh]] [[hang]] outer", &[]).ok().json();
    let outer = outer["id"].as_str().unwrap();
    let inner: Value = until_seen(TIMEOUT, "the inner launch", || {
        let text = fs::read_to_string(scene.cwd.join("inner.json")).unwrap_or_default();
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    });
    let inner_id = inner["id"].as_str().unwrap();
    let pid = u32::try_from(inner["pid"].as_u64().unwrap()).unwrap();
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let environ = String::from_utf8_lossy(&environ);
    assert!(!environ.contains(outer), "it carries the mark of the one that called: {environ}");

    let stopped = scene.agentctl(&["stop", outer, "--json"]).ok().json();
    assert_eq!(stopped["sessions"][0]["survived"], Value::Array(Vec::new()), "{stopped:#}");
    assert_eq!(scene.status(outer)["status"], "stopped");
    let after = scene.status(inner_id);
    assert_eq!((&after["status"], &after["pid"]), (&"running".into(), &inner["pid"]), "{after:#}");
    let orphans = scene.agentctl(&["doctor", "--json"]).json();
    assert_eq!(orphans["orphans"], Value::Array(Vec::new()), "{orphans:#}");
    let _ = scene.agentctl(&["stop", inner_id]).ok();
    scene.wait_for_silence();
}
