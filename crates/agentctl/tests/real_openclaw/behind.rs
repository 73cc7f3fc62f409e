//! A gateway that runs Claude Code: two agents store one conversation, and it is shown once.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use agentctl_testkit::agents::claude::KEY;
use agentctl_testkit::{Claude, FakeModel, Skip, TestHome, until_seen};
use serde_json::{Value, json};

use crate::scene::{Scene, TIMEOUT, words};

const MODEL: &str = "anthropic/claude-opus-5";

/// Claude Code on the `PATH` of the gateway, which removes the variables that lead to the model.
fn furnish(home: &mut TestHome, model: &FakeModel) -> Result<(), Skip> {
    let claude = Claude::settle(home, &model.url())?;
    let script = home.path().join("claude-of-the-gateway");
    let text = format!(
        "#!/bin/sh\nexport ANTHROPIC_BASE_URL='{}' ANTHROPIC_API_KEY='{KEY}'\nexec '{}' \"$@\"\n",
        model.url(),
        claude.executable().display()
    );
    fs::write(&script, text)
        .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)))
        .expect("write the script");
    home.put_on_path("claude", &script);
    let path = home.path().join(".openclaw/openclaw.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).expect("the config")).expect("JSON");
    config["agents"]["defaults"]["models"] = json!({MODEL: {"agentRuntime": {"id": "claude-cli"}}});
    config["agents"]["entries"]["coder"] = json!({"model": MODEL});
    fs::write(&path, config.to_string()).expect("write OpenClaw's config");
    Ok(())
}

#[test]
fn a_conversation_that_claude_code_carries_is_one_session() {
    let Some(scene) = Scene::set_with(furnish) else { return };
    let create = json!({"agentId": "coder", "message": "[[text:Well done.]] go"});
    let created = scene.openclaw.rpc(&[]).call("sessions.create", &create).expect("a session");
    let key = created["key"].as_str().expect("its key").to_owned();
    let status = |id: &str| scene.home.agentctl(&["status", id, "--json"]).ok().json();
    let front = until_seen(TIMEOUT, "the end of the first turn", || {
        let front = status(&key);
        if words(&front) == ("idle", Some("completed")) { Ok(front) } else { Err(format!("{front:#}")) }
    });
    assert_eq!(front["meta"]["runtime"], "claude-cli", "{front:#}");
    let native = front["meta"]["native"]["id"].as_str().unwrap_or_else(|| panic!("{front:#}")).to_owned();
    let behind = status(&native);
    assert_eq!((&behind["adapter"], &behind["lastMessage"]), (&json!("claude-code"), &front["lastMessage"]));

    // Its process may or may not be kept for the next turn: one of the two is shown either way.
    let shown = |arguments: &[&str]| -> Vec<String> {
        let listed = scene.home.agentctl(&[&["list", "-q"], arguments].concat()).ok().stdout;
        listed.lines().filter(|id| *id == key || *id == native).map(str::to_owned).collect()
    };
    assert_eq!(shown(&["-a"]).len(), 1);
    assert_eq!(shown(&["-a", "--all-agents"]).len(), 1);

    // While it works, the gateway session is shown.
    let send = json!({"key": key, "message": "[[slow:600|500]] go on"});
    scene.openclaw.rpc(&[]).call("sessions.send", &send).expect("a second turn");
    until_seen(TIMEOUT, "both at work", || {
        let both = [status(&key)["status"].clone(), status(&native)["status"].clone()];
        if both == ["running", "running"] { Ok(()) } else { Err(format!("{both:?}")) }
    });
    assert_eq!(shown(&[]), [key.as_str()]);
    assert_eq!(shown(&["-a", "--all-agents"]), [key.as_str()]);
    assert_eq!(shown(&["--adapter", "claude-code"]), [native.as_str()], "nobody stands before it");
    let _ = scene.home.agentctl(&["stop", &key]).ok();
}
