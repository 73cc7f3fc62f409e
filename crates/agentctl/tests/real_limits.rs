//! A provider that refuses for a quota, as each real agent records it: the session says so, and until when where its
//! records do.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests write what is read")]

mod steer;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentctl_testkit::agents::pi;
use agentctl_testkit::{Act, Claude, Codex, FakeModel, NodeAgent, OpenCode, Pi, Reply, TestHome, until_seen};
use jiff::Timestamp;
use serde_json::json;
use steer::{Scene, TIMEOUT};

/// The quota is free again after this many seconds.
const RESET: i64 = 600;

fn limited_and_resumed(scene: &Scene, says_until: bool) {
    // Some agents ask more than once before they give up.
    let refusals = format!("[[limit:{RESET}]] ").repeat(6);
    let before = Timestamp::now().as_second();
    let launched = scene.launch(&format!("{refusals} work"), &["--wait"]);
    assert_eq!(launched.code, Some(1), "{launched:#?}");
    scene.wait_for_silence();
    let list = scene.agentctl(&["list", "--all", "--json"]).ok().json();
    let session = &list["sessions"][0];
    let id = session["id"].as_str().unwrap();
    assert_eq!(
        (&session["status"], &session["outcome"]),
        (&"stopped".into(), &"failed".into()),
        "{session:#}"
    );
    assert_eq!(session["pending"].as_array().unwrap().len(), 1, "{session:#}");
    let pending = &session["pending"][0];
    assert_eq!((&pending["kind"], &pending["answerable"]), (&"limit".into(), &false.into()), "{session:#}");
    let until = pending["limitedUntil"].as_str().map(|text| text.parse::<Timestamp>().unwrap().as_second());
    match until {
        Some(until) if says_until => {
            assert!((before + RESET..=Timestamp::now().as_second() + RESET).contains(&until), "{session:#}");
        }
        until => assert!(until.is_none() && !says_until, "{session:#}"),
    }
    let inbox = scene.agentctl(&["inbox", "--json"]).ok().json();
    let item = &inbox["items"][0];
    assert_eq!((&item["kind"], &item["session"]["id"]), (&"limit".into(), &id.into()), "{inbox:#}");
    assert_eq!(item["next"][0], format!("agentctl resume {id} MESSAGE"), "{inbox:#}");
    let resumed = scene.agentctl(&["resume", id, "[[text:done]] go on", "--wait", "--json"]).ok().json();
    assert_eq!((&resumed["outcome"], &resumed["pending"]), (&"completed".into(), &json!([])));
}

#[test]
fn claude_code_with_a_plan_says_until_when() {
    let scene = Scene::set("claude-code", |home, url| {
        Claude::settle(home, url)?;
        home.set_env("ANTHROPIC_API_KEY", "");
        home.set_env("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-of-a-test");
        Ok(())
    });
    if let Some(scene) = scene {
        limited_and_resumed(&scene, true);
    }
}

#[test]
fn claude_code_with_a_key_does_not_say_until_when() {
    let scene = Scene::set("claude-code", |home, url| Claude::settle(home, url).map(drop));
    if let Some(scene) = scene {
        limited_and_resumed(&scene, false);
    }
}

#[test]
fn codex_says_until_when() {
    let scene = Scene::set("codex", |home, url| Codex::settle(home, url).map(drop));
    if let Some(scene) = scene {
        limited_and_resumed(&scene, true);
    }
}

#[test]
fn copilot_does_not_say_until_when() {
    let scene = Scene::set("copilot", |home, url| NodeAgent::copilot(home, url).map(drop));
    if let Some(scene) = scene {
        limited_and_resumed(&scene, false);
    }
}

#[test]
fn pi_does_not_say_until_when() {
    let scene = Scene::set("pi", |home, url| Pi::settle(home, url).map(drop));
    if let Some(scene) = scene {
        limited_and_resumed(&Scene { model_name: Some(pi::MODEL), ..scene }, false);
    }
}

/// A model whose quota is used up when it is asked first, and that is then asked again and answers nothing.
fn refuses_once() -> FakeModel {
    let asked = AtomicUsize::new(0);
    FakeModel::with_rule(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::new(Act::Limit(Duration::from_secs(1))),
        _ => Reply::hang("again"),
    })
}

/// These ask again when the quota is free. Until then they are at work, and nothing is pending.
fn goes_on_trying(scene: &Scene) {
    let launched = scene.launch("work", &[]).ok().json();
    let id = launched["id"].as_str().unwrap();
    until_seen(TIMEOUT, "that it asks again", || match scene.model.held_streams() {
        held if held.is_empty() => Err(format!("{} requests", scene.model.look(<[_]>::len))),
        _ => Ok(()),
    });
    let now = scene.status(id);
    assert_eq!((&now["status"], &now["pending"]), (&"running".into(), &json!([])), "{now:#}");
    let _ = scene.agentctl(&["stop", id]).ok();
}

#[test]
fn kimi_goes_on_trying() {
    let scene = Scene::with_model(refuses_once(), "kimi", |home, url| NodeAgent::kimi(home, url).map(drop));
    if let Some(scene) = scene {
        goes_on_trying(&scene);
    }
}

#[test]
fn qwen_goes_on_trying() {
    let scene = Scene::with_model(refuses_once(), "qwen", |home, url| NodeAgent::qwen(home, url).map(drop));
    if let Some(scene) = scene {
        goes_on_trying(&scene);
    }
}

#[test]
fn opencode_goes_on_trying() {
    let settle = |home: &mut TestHome, url: &str| OpenCode::settle(home, url, &json!({})).map(drop);
    let scene = Scene::with_model(refuses_once(), "opencode", settle);
    if let Some(scene) = scene {
        goes_on_trying(&scene);
    }
}
