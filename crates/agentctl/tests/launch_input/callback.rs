//! A session or agent in a gateway is notified how a session ended, by the runner, and the keys of the
//! gateway are never shown.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentctl_testkit::agents::openclaw::{Act, Ledger, ScriptedGateway, Step};
use agentctl_testkit::until_seen;
use serde_json::{Value, json};

use crate::scene::Scene;

const TIMEOUT: Duration = Duration::from_mins(2);
const TOKEN: &str = "token-of-the-gateway";

/// A Claude Code that does one turn and notes what it could see.
pub(crate) const WORKER: &str = r#"#!/bin/sh
printf '%s\n' "$@" > "$HOME/argv"
while [ "$1" != --session-id ]; do shift; done
folder="$HOME/.claude/projects/-work"
mkdir -p "$folder"
common="\"sessionId\":\"$2\",\"cwd\":\"$(pwd)\",\"version\":\"2.1.325\",\"timestamp\":\"2026-11-15T10:00:00Z\""
{
  echo "{\"type\":\"user\",\"uuid\":\"u1\",\"message\":{\"role\":\"user\",\"content\":\"go\"},$common}"
  echo "{\"type\":\"assistant\",\"uuid\":\"u2\",\"parentUuid\":\"u1\",\"message\":{\"role\":\"assistant\",\"model\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"All green.\"}],\"stop_reason\":\"end_turn\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}},$common}"
} > "$folder/$2.jsonl"
"#;

/// A gateway that goes away at the first notification, starts at the second try, and accepts it the next
/// time.
fn gateway(told: &Arc<Mutex<Vec<(String, Value)>>>, refuse: bool) -> ScriptedGateway {
    let (told, tellers) = (Arc::clone(told), AtomicUsize::new(0));
    ScriptedGateway::start(move |step| match step {
        Step::Request { method: "connect", params }
            if params["scopes"].to_string().contains("operator.write")
                && tellers.load(Ordering::Relaxed) < 2 =>
        {
            match tellers.fetch_add(1, Ordering::Relaxed) {
                0 => Act::Cut,
                _ => Act::Refuse(json!({"code": "UNAVAILABLE", "message": "gateway starting; retry shortly",
                    "retryable": true, "retryAfterMs": 10})),
            }
        }
        Step::Request { method: "sessions.send" | "chat.send", .. } if refuse => {
            Act::Refuse(json!({"code": "INVALID_REQUEST", "message": "session not found"}))
        }
        Step::Request { method: method @ ("sessions.send" | "chat.send"), params } => {
            told.lock().unwrap().push((method.to_owned(), params.clone()));
            Act::Proper(json!({"runId": "r", "status": "started"}))
        }
        other => Ledger::default().answer(other),
    })
}

fn scene_with(gateway: &ScriptedGateway) -> Scene {
    let scene = Scene::new();
    scene.put_on_path("claude", WORKER);
    let port = gateway.url().rsplit(':').next().unwrap().to_owned();
    std::fs::create_dir_all(scene.home.path().join(".openclaw")).unwrap();
    scene.file(
        ".openclaw/openclaw.json",
        format!("{{gateway: {{port: {port}, auth: {{token: '{TOKEN}'}}}}}}"),
    );
    scene
}

/// The `callback.json` of the only launch, once it is settled.
fn settled(scene: &Scene) -> Value {
    until_seen(TIMEOUT, "the end of the telling", || {
        let launches = scene.home.agentctl_home().join("launches");
        let folder = std::fs::read_dir(launches).unwrap().flatten().next().ok_or("no record")?.path();
        let text = std::fs::read_to_string(folder.join("callback.json")).map_err(|_| "no callback.json")?;
        let state: Value = serde_json::from_str(&text).unwrap();
        let over = state["deliveredAt"].is_string() || state["givenUp"] == true;
        if over { Ok(state) } else { Err("it is being tried") }
    })
}

#[test]
fn a_session_and_an_agent_are_told_once_though_the_gateway_was_away() {
    for (flags, method, key) in [
        (&["--callback-session", "agent:main:boss"][..], "sessions.send", "agent:main:boss"),
        (&["--callback-session", "boss", "--callback-agent", "ops"], "sessions.send", "agent:ops:boss"),
        (&["--callback-agent", "ops"], "chat.send", "agent:ops:main"),
    ] {
        let told = Arc::new(Mutex::new(Vec::new()));
        let gateway = gateway(&told, false);
        let scene = scene_with(&gateway);
        let launched = scene.launch(&[&["claude-code", "-p", "go", "--json"], flags].concat()).ok().json();
        let id = launched["id"].as_str().unwrap();
        assert!(settled(&scene)["deliveredAt"].is_string());
        let told = told.lock().unwrap();
        let [(by, params)] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(by, method);
        let named = params["key"].as_str().or(params["sessionKey"].as_str());
        assert_eq!(named, Some(key), "{params}");
        let words = params["message"].as_str().unwrap();
        assert!(words.contains(&format!("claude-code session {id} completed, exit code 0.")), "{words}");
        assert!(words.contains("All green."), "{words}");
        assert_eq!(
            params["idempotencyKey"],
            format!("agentctl-{}", launched["launch"]["id"].as_str().unwrap())
        );

        // The keys of the gateway are in no file of ours and in no process's arguments.
        let mut grep = scene.home.command("grep");
        grep.args(["-rl", TOKEN]).arg(scene.home.agentctl_home());
        assert_eq!(scene.home.run(grep).stdout, "");
        assert!(!scene.argv().unwrap().join(" ").contains(TOKEN));
        assert!(!scene.home.agentctl(&["doctor"]).stdout.contains("callback"));
    }
}

#[test]
fn of_several_gateways_the_one_that_was_named_is_told() {
    let (first, second) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (one, other) = (gateway(&first, false), gateway(&second, false));
    let scene = scene_with(&one);
    std::fs::create_dir_all(scene.home.agentctl_home()).unwrap();
    let config =
        format!("[adapters.openclaw]\ngateways = [{{url = \"{}\", token = \"{TOKEN}\"}}]\n", other.url());
    std::fs::write(scene.home.agentctl_home().join("config.toml"), config).unwrap();
    let flags = [
        "claude-code",
        "-p",
        "go",
        "--json",
        "--callback-session",
        "agent:main:boss",
        "--gateway",
        &other.url(),
    ];
    let _ = scene.launch(&flags).ok();
    assert!(settled(&scene)["deliveredAt"].is_string());
    assert_eq!((first.lock().unwrap().len(), second.lock().unwrap().len()), (0, 1));
}

#[test]
fn a_telling_that_failed_is_seen_by_the_doctor() {
    let gateway = gateway(&Arc::default(), true);
    let scene = scene_with(&gateway);
    let flags = ["claude-code", "-p", "go", "--json", "--callback-session", "agent:main:gone"];
    let launched = scene.launch(&flags).ok().json();
    let state = settled(&scene);
    assert!(state["error"].as_str().unwrap().contains("session not found"), "{state:#}");
    let report = scene.home.agentctl(&["doctor", "--json"]).json();
    let untold = &report["untold"][0];
    assert_eq!(
        (&untold["session"], &untold["sessionId"]),
        (&json!("agent:main:gone"), &launched["id"]),
        "{report:#}"
    );
    let shown = scene.home.agentctl(&["doctor"]).stdout;
    assert!(shown.contains("agent:main:gone was never told that"), "{shown}");
}

#[test]
fn without_a_gateway_nobody_can_be_told_and_nothing_begins() {
    let scene = Scene::new();
    scene.refuses(&["claude-code", "-p", "go", "--callback-agent", "ops"], 7, &["no gateway", "gateways"]);
}
