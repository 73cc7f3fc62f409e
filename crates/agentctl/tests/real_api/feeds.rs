//! Servers of real agents that announce changes to the daemon: connected while they live, and no burden when
//! they end.

use std::time::{Duration, Instant};

use agentctl_testkit::agents::codex::Codex;
use agentctl_testkit::agents::opencode::OpenCode;
use agentctl_testkit::{Background, until, until_seen};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::Api;
use crate::steer::{Scene, TIMEOUT};

/// What the daemon reports of the servers of this agent.
fn feeds(api: &Api<'_>, adapter: &str) -> Vec<Value> {
    let feeds = api.get("/v1/daemon")["feeds"].as_array().cloned().unwrap_or_default();
    feeds.into_iter().filter(|feed| feed["adapter"] == adapter).collect()
}

fn heard(api: &Api<'_>, adapter: &str) {
    until_seen(TIMEOUT, "a server that is heard", || match feeds(api, adapter).as_slice() {
        [feed] if feed["heard"] == true => Ok(()),
        other => Err(format!("{other:#?}")),
    });
}

/// The events, as a person follows them.
fn listen(scene: &Scene, api: &Api<'_>) -> Background {
    let mut command = scene.home.agentctl_command(&["events"]);
    command.env_remove("AGENTCTL_NO_DAEMON");
    let events = Background::spawn(&scene.home, command);
    until_seen(TIMEOUT, "the listener", || match api.get("/v1/daemon")["listeners"].as_u64() {
        Some(1..) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    events
}

fn told(events: &Background, kind: &str, id: &str) {
    until_seen(TIMEOUT, kind, || {
        let out = events.stdout();
        let mut lines = out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        if lines.any(|event| event["type"] == kind && event["sessionId"] == id) { Ok(()) } else { Err(out) }
    });
}

/// A server that is asked to end does so while the daemon is connected to it, and its feed ends with it.
fn ends(api: &Api<'_>, adapter: &str, server: &mut Background) {
    // On a busy machine OpenCode was seen to lose the first signal.
    let mut asked: Option<Instant> = None;
    until(TIMEOUT, "the end of the server", || {
        if asked.is_none_or(|asked| asked.elapsed() > Duration::from_secs(10)) {
            server.signal(Signal::TERM);
            asked = Some(Instant::now());
        }
        server.try_wait()
    });
    until_seen(TIMEOUT, "the end of the line", || match feeds(api, adapter).as_slice() {
        [] => Ok(()),
        left => Err(format!("{left:#?}")),
    });
}

#[test]
fn a_server_of_opencode_is_listened_to() {
    let mut server = None;
    let set = Scene::set("opencode", |home, url| {
        let opencode = OpenCode::settle(home, url, &json!({"*": "ask", "bash": {"*": "ask"}}))?;
        server = Some(opencode.serve(home, &home.work_dir("elsewhere")));
        Ok(())
    });
    let (Some(scene), Some(mut server)) = (set, server) else { return };
    let api = Api::open(&scene, &[]);
    heard(&api, "opencode");
    let events = listen(&scene, &api);
    let ask = |path: &str, body: &Value| {
        let target = format!("{path}?directory={}", scene.cwd.display());
        server.ask("POST", &target, &body.to_string()).expect("the server takes it")
    };
    let made: Value = serde_json::from_str(&ask("/session", &json!({"title": "served"}))).unwrap();
    let id = made["id"].as_str().unwrap();
    let words = "[[bash:touch made]] [[text:after]]";
    ask(&format!("/session/{id}/prompt_async"), &json!({"parts": [{"type": "text", "text": words}]}));
    told(&events, "session.waiting", id);
    ends(&api, "opencode", &mut server.process);
    told(&events, "session.stopped", id);
}

#[test]
fn an_app_server_of_codex_is_listened_to() {
    let mut server = None;
    let set = Scene::set("codex", |home, url| {
        let codex = Codex::settle(home, url)?;
        server = Some(codex.app_server(home));
        Ok(())
    });
    let (Some(scene), Some(mut server)) = (set, server) else { return };
    let api = Api::open(&scene, &[]);
    heard(&api, "codex");
    let events = listen(&scene, &api);
    let settings = json!({"cwd": scene.cwd, "sandbox": "read-only", "approvalPolicy": "on-request"});
    let started = server.call("thread/start", &settings);
    let id = started["thread"]["id"].as_str().unwrap().to_owned();
    let tool =
        json!({"cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": "may I?"});
    let words = format!("[[tool:exec_command|{tool}]] [[text:after]]");
    server.call("turn/start", &json!({"threadId": id, "input": [{"type": "text", "text": words}]}));
    told(&events, "session.waiting", &id);
    // A server that is asked to end finishes its turns first.
    let _ = scene.agentctl(&["approve", &id]).ok();
    told(&events, "session.idle", &id);
    ends(&api, "codex", &mut server.process);
    told(&events, "session.stopped", &id);
}
