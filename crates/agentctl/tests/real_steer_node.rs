//! Real Copilot, Gemini CLI, Qwen Code and Kimi Code, started, stopped and resumed through the command line.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]

mod steer;

use std::fs;

use agentctl_testkit::NodeAgent;
use steer::{Scene, until_its_end};

fn copilot() -> Option<Scene> {
    Scene::set("copilot", |home, url| NodeAgent::copilot(home, url).map(drop))
}

fn gemini() -> Option<Scene> {
    Scene::set("gemini", |home, url| NodeAgent::gemini(home, url).map(drop))
}

fn qwen() -> Option<Scene> {
    Scene::set("qwen", |home, url| NodeAgent::qwen(home, url).map(drop))
}

fn kimi() -> Option<Scene> {
    Scene::set("kimi", |home, url| NodeAgent::kimi(home, url).map(drop))
}

#[test]
fn copilot_is_launched_stopped_and_resumed() {
    let Some(scene) = copilot() else { return };
    steer::launched_stopped_and_resumed(&scene, ".copilot/session-state");
}

#[test]
fn gemini_is_launched_stopped_and_resumed() {
    let Some(scene) = gemini() else { return };
    steer::launched_stopped_and_resumed(&scene, ".gemini/tmp");
}

#[test]
fn qwen_is_launched_stopped_and_resumed() {
    let Some(scene) = qwen() else { return };
    steer::launched_stopped_and_resumed(&scene, ".qwen/projects");
}

#[test]
fn kimi_is_launched_stopped_and_resumed() {
    let Some(scene) = kimi() else { return };
    steer::launched_stopped_and_resumed(&scene, ".kimi-code/sessions");
}

#[test]
fn runs_that_fail_run_until_their_end() {
    for scene in [copilot(), gemini(), qwen(), kimi()].into_iter().flatten() {
        let prompt = until_its_end::prompt("[[err:401|for good]]");
        // Gemini CLI records nothing about such an end.
        until_its_end::runs_until_its_end(&scene, &prompt, &["failed", "died"]);
    }
}

#[test]
fn a_turn_of_kimi_that_is_over_at_once_is_a_launch() {
    let Some(scene) = kimi() else { return };
    let launched = scene.launch("[[text:Done at once.]] /quick", &[]).ok().json();
    scene.wait_for_silence();
    let done = scene.status(launched["id"].as_str().unwrap());
    assert_eq!(
        (&done["outcome"], &done["lastMessage"]),
        (&"completed".into(), &"Done at once.".into()),
        "{done:#}"
    );
}

#[test]
fn a_refused_key_leaves_nothing() {
    if let Some(scene) = copilot() {
        // It has its own message for this.
        steer::refused_by_the_model(&scene, "Authentication failed");
    }
    for scene in [gemini(), qwen(), kimi()].into_iter().flatten() {
        steer::refused_by_the_model(&scene, "the key is wrong");
    }
}

#[test]
fn a_missing_agent_leaves_nothing() {
    for adapter in ["copilot", "gemini", "qwen", "kimi"] {
        steer::not_installed(adapter);
    }
}

#[test]
fn a_folder_that_gemini_does_not_trust_is_said_in_its_words() {
    let Some(scene) = gemini() else { return };
    let settings = scene.home.path().join(".gemini/settings.json");
    let trusting = fs::read_to_string(&settings).unwrap();
    let wary = trusting.replace(r#""folderTrust":{"enabled":false}"#, r#""folderTrust":{"enabled":true}"#);
    assert_ne!(trusting, wary);
    fs::write(&settings, wary).unwrap();
    let failed = scene.launch("[[text:no]]", &[]);
    assert_eq!(failed.code, Some(1), "{failed:#?}");
    assert!(failed.stderr.contains("not running in a trusted directory"), "{failed:#?}");
    scene.assert_nothing_left();
}

#[test]
fn a_fork_of_qwen_is_a_session_of_its_own() {
    let Some(scene) = qwen() else { return };
    steer::forked(&scene);
}

#[test]
fn what_an_agent_has_no_way_to_do_is_refused_before_anything_starts() {
    let Some(scene) = copilot() else { return };
    let refused = scene.launch("[[text:no]]", &["--system-prompt-append", "be brief"]);
    assert_eq!(refused.code, Some(7), "{refused:#?}");
    assert!(refused.stderr.contains("Copilot has no way to append to its system prompt"), "{refused:#?}");
    scene.assert_nothing_left();
}
