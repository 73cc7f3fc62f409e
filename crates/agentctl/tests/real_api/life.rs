//! The life of real sessions through HTTP alone.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use agentctl_testkit::agents::codex::AppServer;
use agentctl_testkit::{Claude, Codex, until, until_seen};
use serde_json::{Value, json};

use crate::steer::{ENDLESS, Scene, TIMEOUT, is_stored_below};
use crate::{Api, request};

fn claude() -> Option<Scene> {
    Scene::set("claude-code", |home, url| Claude::settle(home, url).map(drop))
}

#[test]
fn codex_is_launched_stopped_resumed_answered_and_spoken_to() {
    let mut server: Option<AppServer> = None;
    let settled = Scene::set("codex", |home, url| {
        server = Some(Codex::settle(home, url)?.app_server(home));
        Ok(())
    });
    let Some((scene, mut server)) = settled.zip(server) else { return };
    let api = Api::open(&scene, &[]);
    let prompt = format!("[[bash:{ENDLESS}]] [[hang]] at work");
    let launch = json!({"adapter": "codex", "prompt": prompt, "cwd": scene.cwd, "permissionMode": "bypass",
        "labels": {"ticket": "7"}});
    let launched = api.done("POST", "/v1/sessions", &launch);
    let id = launched["id"].as_str().unwrap().to_owned();
    assert_eq!(launched["status"], "running", "{launched:#}");
    assert_eq!(launched["launch"]["labels"]["ticket"], "7", "{launched:#}");
    assert!(is_stored_below(&scene.home.path().join(".codex"), &id), "{id} is not the agent's own");
    scene.wait_for_tool();

    // The holder of the directory is named; a live session is not resumed; a headless run has no way in.
    let second = api.ask("POST", "/v1/sessions", &launch);
    assert_eq!((second.status, &second.json()["code"]), (409, &json!("refused")), "{second:?}");
    assert!(second.json()["detail"].as_str().unwrap().contains(&id), "{second:?}");
    let session = format!("/v1/sessions/{id}");
    let live = api.ask("POST", &format!("{session}/resume"), &json!({"message": "more"}));
    assert_eq!(live.status, 409, "{live:?}");
    let shut = api.ask("POST", &format!("{session}/send"), &json!({"message": "more"}));
    assert_eq!(shut.status, 409, "{shut:?}");

    let stopped = api.done("POST", &format!("{session}/stop"), &json!({"grace": "20s"}));
    let report = &stopped["sessions"][0];
    assert_eq!((&report["stopped"], &report["survived"]), (&true.into(), &json!([])), "{stopped:#}");
    until(TIMEOUT, "the end of the tool", || {
        scene.processes().iter().all(|(_, line)| !line.contains(ENDLESS)).then_some(())
    });
    let again = json!({"message": "[[hang:second]] go on", "permissionMode": "bypass"});
    let resumed = api.done("POST", &format!("{session}/resume"), &again);
    assert_eq!((&resumed["id"], &resumed["status"]), (&id.as_str().into(), &"running".into()), "{resumed:#}");
    assert_ne!(resumed["launch"]["id"], launched["launch"]["id"]);
    scene.model.open("second");
    api.becomes(&id, "the end of the turn", |seen| {
        seen["outcome"] == "completed" && seen["launch"]["exitCode"] == 0
    });

    // A session that a server of the agent runs can be answered and spoken to.
    let settings = json!({"cwd": scene.cwd, "sandbox": "read-only", "approvalPolicy": "on-request"});
    let started = server.call("thread/start", &settings);
    let thread = started["thread"]["id"].as_str().unwrap().to_owned();
    let tool = json!({"cmd": "touch allowed", "sandbox_permissions": "require_escalated",
        "justification": "may I?"});
    let words = format!("[[tool:exec_command|{tool}]] [[text:after]]");
    server.call("turn/start", &json!({"threadId": thread, "input": [{"type": "text", "text": words}]}));
    api.becomes(&thread, "the request", |seen| seen["pending"][0]["answerable"] == true);
    let inbox = api.get("/v1/inbox");
    assert_eq!(inbox["items"][0]["session"]["id"], thread.as_str(), "{inbox:#}");
    let target = format!("/v1/sessions/{thread}");
    let wrong = api.ask("POST", &format!("{target}/answer"), &json!({"text": "words"}));
    assert_eq!(wrong.status, 409, "it waits for a decision: {wrong:?}");
    let taken = api.done("POST", &format!("{target}/answer"), &json!({"decision": "approve"}));
    assert_eq!((&taken["decision"], &taken["id"]), (&"allow-once".into(), &thread.as_str().into()));
    until(TIMEOUT, "what was approved", || scene.cwd.join("allowed").exists().then_some(()));
    api.becomes(&thread, "the end of the turn", |seen| seen["status"] == "idle");
    let taken = api.done("POST", &format!("{target}/send"), &json!({"message": "[[text:heard you]] listen"}));
    assert_eq!(taken["accepted"], "now", "{taken:#}");
    api.becomes(&thread, "its answer", |seen| seen["lastMessage"] == "heard you");
}

#[test]
fn several_are_launched_shown_and_stopped_as_a_group() {
    let Some(scene) = claude() else { return };
    let api = Api::open(&scene, &[]);
    let body = json!({"prompt": "[[hang]] side by side", "cwd": scene.cwd, "permissionMode": "bypass",
        "launches": [{"adapter": "claude-code"}, {"adapter": "nobody"}, {"adapter": "claude-code", "branch": "mine"}]});
    let made = api.done("POST", "/v1/groups", &body);
    assert_eq!(made["sessions"].as_array().unwrap().len(), 2, "{made:#}");
    assert_eq!(made["failed"][0]["slot"], "nobody", "{made:#}");
    let group = made["group"].as_str().unwrap();
    let shown = api.get(&format!("/v1/groups/{group}"));
    let branches: Vec<&str> =
        shown["slots"].as_array().unwrap().iter().map(|slot| slot["branch"].as_str().unwrap()).collect();
    assert_eq!(branches, [format!("try/{group}/claude-code").as_str(), "mine"], "{shown:#}");
    assert_eq!(api.get("/v1/groups")["groups"][0]["slots"][0]["status"], "running");
    let stopped = api.done("POST", &format!("/v1/groups/{group}/stop"), &Value::Null);
    let reports = stopped["sessions"].as_array().unwrap();
    assert!(reports.len() == 2 && reports.iter().all(|report| report["stopped"] == true), "{stopped:#}");
    api.wait_for_silence();
}

/// The daemon does not know the caller's home; the launch happens there all the same.
#[test]
fn a_launch_happens_in_the_environment_of_whoever_asks() {
    let Some(scene) = claude() else { return };
    let elsewhere = scene.home.work_dir("elsewhere");
    // An agent may have started the daemon: the variables that it leaves in the environment must not be
    // passed on.
    let api = Api::open(&scene, &[("HOME", elsewhere.to_str().unwrap()), ("PATH", "/usr/bin:/bin")]);
    let variables: BTreeMap<String, String> = scene
        .home
        .command("x")
        .get_envs()
        .map(|(name, value)| {
            (name.to_string_lossy().into_owned(), value.unwrap().to_string_lossy().into_owned())
        })
        .chain([
            ("CLAUDECODE".to_owned(), "1".to_owned()),
            ("AGENTCTL_LAUNCH_ID".to_owned(), "l-other".to_owned()),
        ])
        .collect();
    let mut body = json!({"adapter": "claude-code", "prompt": "[[text:first]] begin", "cwd": scene.cwd});
    let missing = api.ask("POST", "/v1/sessions", &body);
    assert_eq!(missing.status, 502, "the daemon's own PATH has no agent: {missing:?}");
    body["environment"] = json!(variables);
    let launched = api.done("POST", "/v1/sessions", &body);
    let id = launched["id"].as_str().unwrap();
    let root = scene.home.path().join(".claude");
    assert_eq!(launched["configRoot"], json!(root), "{launched:#}");
    assert_eq!(
        scene.agentctl(&["status", id, "--json"]).ok().json()["launch"]["id"],
        launched["launch"]["id"]
    );
    api.wait_for_silence();
    let target = format!("/v1/sessions/{id}/resume");
    let unknown = api.ask("POST", &target, &json!({"message": "[[text:second]] go on"}));
    assert_eq!(unknown.status, 404, "it is not in the daemon's own home: {unknown:?}");
    let again = json!({"message": "[[text:second]] go on", "environment": variables});
    let resumed = api.done("POST", &target, &again);
    assert_eq!(resumed["id"], id, "{resumed:#}");
    api.wait_for_silence();
    assert_eq!(scene.status(id)["lastMessage"], "second");
}

#[test]
fn whoever_goes_away_in_the_middle_leaves_no_half_launch() {
    let Some(scene) = claude() else { return };
    let mut api = Api::open(&scene, &[]);
    let body = json!({"adapter": "claude-code", "prompt": "[[hang]] on and on", "cwd": scene.cwd,
        "permissionMode": "bypass"});
    // The runner has started the agent, and there is no session to return yet.
    let begun = |before: &[PathBuf]| {
        until(TIMEOUT, "the launch to begin", || {
            let new = scene.launches().into_iter().filter(|folder| !before.contains(folder));
            new.filter_map(|folder| record(&folder)).any(|record| record["process"].is_object()).then_some(())
        });
    };
    let running = |known: &str| {
        until_seen(TIMEOUT, "the launch to end well", || {
            let list = scene.agentctl(&["list", "--json"]).ok().json();
            let found = list["sessions"].as_array().unwrap().iter().find(|session| session["id"] != known);
            let id = found.filter(|session| session["status"] == "running" && is_settled(&scene, session));
            id.map(|session| session["id"].as_str().unwrap().to_owned()).ok_or(format!("{list:#}"))
        })
    };
    let mut gone = api.connect().unwrap();
    gone.write_all(request("POST", "/v1/sessions", &body.to_string()).as_bytes()).unwrap();
    begun(&[]);
    drop(gone);
    let id = running("");
    api.done("POST", &format!("/v1/sessions/{id}/stop"), &json!({"force": true}));
    api.wait_for_silence();

    // The daemon itself may be killed: the runner owns the launch.
    let before = scene.launches();
    let mut gone = api.connect().unwrap();
    gone.write_all(request("POST", "/v1/sessions", &body.to_string()).as_bytes()).unwrap();
    begun(&before);
    api.daemon.signal(rustix::process::Signal::KILL);
    api.daemon.wait(TIMEOUT);
    let id = running(&id);
    let _ = scene.agentctl(&["stop", &id]).ok();
    scene.wait_for_silence();
}

/// Whether the record shows that the runner has completed the launch.
fn is_settled(scene: &Scene, session: &Value) -> bool {
    let Some(launch) = session["launch"]["id"].as_str() else { return false };
    let folder = scene.home.agentctl_home().join("launches").join(launch);
    record(&folder).is_some_and(|record| record["settled"] == true)
}

fn record(folder: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(folder.join("launch.json")).ok()?).ok()
}
