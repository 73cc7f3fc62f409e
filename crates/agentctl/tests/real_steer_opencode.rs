//! A real OpenCode, started, stopped and taken up again through the command line.

mod steer;

use agentctl_testkit::OpenCode;
use serde_json::json;
use steer::Scene;

/// Its configuration asks before a command: what runs was allowed by the launch.
fn scene() -> Option<Scene> {
    Scene::set("opencode", |home, url| OpenCode::settle(home, url, &json!({"bash": "ask"})).map(drop))
}

#[test]
fn launched_stopped_and_resumed() {
    let Some(scene) = scene() else { return };
    steer::launched_stopped_and_resumed(&scene, ".local/share/opencode");
}

#[test]
fn version_1_1_is_launched_stopped_and_resumed() {
    let Some(scene) = Scene::set("opencode", |home, url| OpenCode::settle_1_1(home, url).map(drop)) else {
        return;
    };
    steer::launched_stopped_and_resumed(&scene, ".local/share/opencode");
}

#[test]
fn a_refused_key_leaves_nothing() {
    let Some(scene) = scene() else { return };
    steer::refused_by_the_model(&scene, "the key is wrong");
}

#[test]
fn a_missing_agent_leaves_nothing() {
    steer::not_installed("opencode");
}
