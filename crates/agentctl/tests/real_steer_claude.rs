//! A real Claude Code, started, stopped and resumed through the command line.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]

mod steer;

use agentctl_testkit::Claude;
use steer::{Scene, until_its_end};

fn scene() -> Option<Scene> {
    Scene::set("claude-code", |home, url| Claude::settle(home, url).map(drop))
}

#[test]
fn launched_stopped_and_resumed() {
    let Some(scene) = scene() else { return };
    steer::launched_stopped_and_resumed(&scene, ".claude");
}

#[test]
fn a_run_that_fails_runs_until_its_end() {
    let Some(scene) = scene() else { return };
    until_its_end::runs_until_its_end(&scene, &until_its_end::prompt("[[err:400|for good]]"), &["failed"]);
}

#[test]
fn forked() {
    let Some(scene) = scene() else { return };
    steer::forked(&scene);
}

#[test]
fn a_refused_key_leaves_nothing() {
    let Some(scene) = scene() else { return };
    steer::refused_by_the_model(&scene, "the key is wrong");
}

#[test]
fn a_missing_agent_leaves_nothing() {
    steer::not_installed("claude-code");
}
