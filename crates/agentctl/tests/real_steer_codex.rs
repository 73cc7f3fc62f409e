//! A real Codex, started, stopped and resumed through the command line.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

mod steer;

use std::path::PathBuf;

use agentctl_testkit::Codex;
use agentctl_testkit::agents::codex::AppServer;
use serde_json::{Value, json};
use steer::{Scene, served, until_its_end};

const STORE: &str = ".codex";

fn scene() -> Option<Scene> {
    Scene::set("codex", |home, url| Codex::settle(home, url).map(drop))
}

#[test]
fn launched_stopped_and_resumed() {
    let Some(scene) = scene() else { return };
    steer::launched_stopped_and_resumed(&scene, STORE);
}

#[test]
fn the_old_version_is_launched_stopped_and_resumed() {
    let old = Scene::set("codex", |home, url| Codex::settle_without_locks(home, url).map(drop));
    let Some(scene) = old else { return };
    steer::launched_stopped_and_resumed(&scene, STORE);
}

#[test]
fn a_run_that_fails_runs_until_its_end() {
    let Some(scene) = scene() else { return };
    until_its_end::runs_until_its_end(&scene, &until_its_end::prompt("[[err:500|for good]]"), &["failed"]);
}

#[test]
fn a_copy_goes_on_by_itself() {
    let Some(scene) = scene() else { return };
    served::forked(&scene, STORE);
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

#[test]
fn a_folder_that_is_not_trusted_leaves_nothing() {
    let Some(scene) = scene() else { return };
    let folder = scene.home.work_dir("no repository");
    let failed = scene.agentctl(&["launch", "codex", "-p", "[[text:no]]", "--cwd", folder.to_str().unwrap()]);
    assert_eq!(failed.code, Some(1), "{failed:#?}");
    assert!(failed.stderr.contains("Not inside a trusted directory"), "{failed:#?}");
    scene.assert_nothing_left();
}

#[test]
fn what_the_agent_cannot_take_is_refused_before_anything_starts() {
    let Some(scene) = scene() else { return };
    let prompt = scene.home.path().join("prompt");
    std::fs::write(&prompt, "x".repeat(2 << 20)).unwrap();
    let mut command = scene.home.agentctl_command(&["launch", "codex", "-p", "-"]);
    command.current_dir(&scene.cwd).stdin(std::fs::File::open(&prompt).unwrap());
    let refused = scene.home.run(command);
    assert_eq!(refused.code, Some(7), "{refused:#?}");
    assert!(refused.stderr.contains("1048576 characters"), "{refused:#?}");
    scene.assert_nothing_left();
}

/// A server with a client, and the home they are in.
struct Served {
    server: AppServer,
    scene: Scene,
}

impl Served {
    fn set() -> Option<Self> {
        let mut server = None;
        let scene = Scene::set("codex", |home, url| {
            let codex = Codex::settle(home, url)?;
            server = Some(codex.app_server(home));
            Ok(())
        })?;
        Some(Self { server: server?, scene })
    }

    fn thread(&mut self, sandbox: &str, approval: &str) -> String {
        let settings = json!({"cwd": self.scene.cwd, "sandbox": sandbox, "approvalPolicy": approval});
        let started = self.server.call("thread/start", &settings);
        started["thread"]["id"].as_str().unwrap().to_owned()
    }

    fn turn(&mut self, thread: &str, prompt: &str, more: &Value) {
        let mut turn = json!({"threadId": thread, "input": [{"type": "text", "text": prompt}]});
        turn.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        self.server.call("turn/start", &turn);
    }

    /// A turn that asks for permission to create a file.
    fn ask_for(&mut self, thread: &str, name: &str) -> PathBuf {
        let tool = json!({"cmd": format!("touch {name}"), "sandbox_permissions": "require_escalated",
            "justification": "may I?"});
        self.turn(thread, &format!("[[tool:exec_command|{tool}]] [[text:after]]"), &Value::Null);
        self.scene.cwd.join(name)
    }
}

#[test]
fn a_thread_of_a_server_is_broken_off_and_spoken_to() {
    let Some(mut served) = Served::set() else { return };
    let id = served.thread("danger-full-access", "never");
    let prompt = format!("[[bash:{}]] [[hang]]", steer::ENDLESS);
    served.turn(&id, &prompt, &Value::Null);
    served::broken_off(&served.scene, &id, served.server.process.pid());

    // An idle session begins a turn; a working one takes the message up in the same turn.
    let scene = &served.scene;
    let _ = scene.agentctl(&["send", &id, "[[hang]] begin again"]).ok();
    served::becomes(scene, &id, "the new turn", |seen| seen["status"] == "running");
    scene.model.wait_turn("begin again", 0);
    let told = scene.agentctl(&["stop", &id]).ok().stdout;
    let place = format!("still open in its server, process {}", served.server.process.pid());
    assert!(told.contains("turn ended, interrupted") && told.contains(&place), "{told}");
    assert!(!told.contains("stopped"), "a list says idle: {told}");
    let _ = scene.agentctl(&["send", &id, "[[hang]] begin once more"]).ok();
    served::becomes(scene, &id, "a third turn", |seen| seen["status"] == "running");
    scene.model.wait_turn("begin once more", 0);
    let _ = scene.agentctl(&["send", &id, "[[text:heard you]] listen"]).ok();
    served::becomes(scene, &id, "its answer", |seen| {
        seen["status"] == "idle" && seen["lastMessage"] == "heard you"
    });
}

#[test]
fn a_thread_of_a_server_is_answered() {
    let Some(mut served) = Served::set() else { return };
    let id = served.thread("read-only", "on-request");
    let file = served.ask_for(&id, "allowed");
    served::approved(&served.scene, &id, &file);
    served::becomes(&served.scene, &id, "the end of the turn", |seen| seen["status"] == "idle");
    let file = served.ask_for(&id, "forbidden");
    served::denied(&served.scene, &id, &file);

    let question = json!({"questions": [{"id": "colour", "header": "Colour", "question": "Which colour?",
        "options": [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}]}]});
    let plan = json!({"collaborationMode": {"mode": "plan", "settings": {"model": "fake-model"}}});
    served.turn(&id, &format!("[[tool:request_user_input|{question}]] [[text:thanks]]"), &plan);
    let scene = &served.scene;
    let waiting = served::becomes(scene, &id, "the question", |seen| seen["status"] == "waiting");
    assert_eq!(waiting["pending"][0]["kind"], "question", "{waiting:#}");
    assert_eq!(scene.agentctl(&["approve", &id]).code, Some(7));
    let _ = scene.agentctl(&["answer", &id, "Blue"]).ok();
    served::becomes(scene, &id, "its thanks", |seen| {
        seen["status"] == "idle" && seen["lastMessage"] == "thanks"
    });
    let said = scene.agentctl(&["peek", &id, "--json"]).ok().stdout;
    assert!(said.contains("Blue"), "{said}");
}

#[test]
fn a_run_has_no_door() {
    let Some(scene) = scene() else { return };
    let launched = scene.launch("[[hang]] at work", &[]).ok().json();
    let id = launched["id"].as_str().unwrap();
    for arguments in [&["send", id, "hello"][..], &["approve", id]] {
        let refused = scene.agentctl(arguments);
        assert_eq!(refused.code, Some(7), "{refused:#?}");
        assert!(refused.stderr.contains("no way in"), "{refused:#?}");
    }
}
