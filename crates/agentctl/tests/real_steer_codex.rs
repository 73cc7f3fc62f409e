//! A real Codex, started, stopped and taken up again through the command line.

mod steer;

use agentctl_testkit::Codex;
use steer::Scene;

fn scene() -> Option<Scene> {
    Scene::set("codex", |home, url| Codex::settle(home, url).map(drop))
}

#[test]
fn launched_stopped_and_resumed() {
    let Some(scene) = scene() else { return };
    steer::launched_stopped_and_resumed(&scene, ".codex");
}

#[test]
fn the_old_version_is_launched_stopped_and_resumed() {
    let old = Scene::set("codex", |home, url| Codex::settle_without_locks(home, url).map(drop));
    let Some(scene) = old else { return };
    steer::launched_stopped_and_resumed(&scene, ".codex");
}

#[test]
fn a_refused_key_leaves_nothing() {
    let Some(scene) = scene() else { return };
    steer::refused_by_the_model(&scene, "the key is wrong");
}

#[test]
fn a_missing_agent_leaves_nothing() {
    steer::not_installed("codex");
}
