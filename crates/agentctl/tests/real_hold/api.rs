//! Held sessions through HTTP, and what the stream of events says of them.

use agentctl_testkit::{Background, until_seen};
use serde_json::{Value, json};

use crate::claude::CLAUDE_CODE;
use crate::manner::question_of;
use crate::road::{Client, Road};
use crate::steer::ENDLESS;
use crate::{PATIENCE, Stage};

impl Client {
    #[track_caller]
    fn done(&self, target: &str, body: &Value) -> Value {
        let reply = self.ask("POST", target, body);
        assert_eq!(reply.status, 200, "{target}: {reply:#?}");
        reply.json()
    }

    #[track_caller]
    fn becomes(&self, session: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        until_seen(PATIENCE, what, || {
            let seen = self.ask("GET", session, &Value::Null).json();
            if fits(&seen) { Ok(seen) } else { Err(format!("{seen:#}")) }
        })
    }
}

/// The events, as a person follows them.
fn listen(stage: &Stage, api: &Client) -> Background {
    let mut command = stage.scene.home.agentctl_command(&["events"]);
    command.env_remove("AGENTCTL_NO_DAEMON");
    let events = Background::spawn(&stage.scene.home, command);
    until_seen(PATIENCE, "the listener", || {
        let daemon = api.ask("GET", "/v1/daemon", &Value::Null).json();
        if daemon["listeners"].as_u64() > Some(0) { Ok(()) } else { Err(format!("{daemon:#}")) }
    });
    events
}

/// The first event of this kind that fits.
#[track_caller]
fn told(events: &Background, kind: &str, fits: impl Fn(&Value) -> bool) -> Value {
    until_seen(PATIENCE, kind, || {
        let out = events.stdout();
        let mut lines = out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|event| event["type"] == kind && fits(event)).ok_or(out)
    })
}

#[test]
fn claude_code_is_held_through_http() {
    let Some(stage) = Stage::set(&CLAUDE_CODE, Road::Http) else { return };
    let (scene, api) = (&stage.scene, Client::of(&stage.scene));
    let events = listen(&stage, &api);
    let order =
        json!({"adapter": "claude-code", "prompt": "[[text:one]] first", "cwd": scene.cwd, "hold": true});
    let launched = api.done("/v1/sessions", &order);
    let id = launched["id"].as_str().unwrap().to_owned();
    let session = format!("/v1/sessions/{id}");
    api.becomes(&session, "the end of the turn", |seen| seen["status"] == "idle");

    let message = json!({"message": "[[bash:touch allowed]] [[bash:touch denied]] [[text:two]]"});
    let sent = api.done(&format!("{session}/send"), &message);
    assert_eq!(sent["id"], id.as_str(), "{sent:#}");
    let asked = |event: &Value, command: &str| {
        let pending = &event["session"]["pending"][0];
        pending["summary"].as_str().is_some_and(|words| words.contains(command))
            && pending["answerable"] == true
    };
    let waits = told(&events, "session.waiting", |event| asked(event, "touch allowed"));
    let first = waits["session"]["pending"][0]["id"].clone();
    let answer = format!("{session}/answer");
    let wrong = api.ask("POST", &answer, &json!({"decision": "approve", "request": "another"}));
    assert_eq!(wrong.status, 409, "{wrong:#?}");
    let taken = api.done(&answer, &json!({"decision": "approve", "request": first}));
    assert_eq!(taken["request"], first, "{taken:#}");
    // The next request is another one, and is told as well.
    let waits = told(&events, "session.waiting", |event| asked(event, "touch denied"));
    let second = waits["session"]["pending"][0]["id"].clone();
    assert_ne!(first, second);
    let late = api.ask("POST", &answer, &json!({"decision": "approve", "request": first}));
    assert_eq!(late.status, 409, "{late:#?}");
    api.done(&answer, &json!({"decision": "deny", "request": second}));
    api.becomes(&session, "the end of the turn", |seen| {
        seen["status"] == "idle" && seen["lastMessage"] == "two"
    });
    assert!(scene.cwd.join("allowed").exists() && !scene.cwd.join("denied").exists());

    let message = json!({"message": format!("{} [[text:three]]", question_of("AskUserQuestion"))});
    api.done(&format!("{session}/send"), &message);
    api.becomes(&session, "the question", |seen| seen["pending"][0]["kind"] == "question");
    api.done(&answer, &json!({"text": "rather green"}));
    api.becomes(&session, "the end of the turn", |seen| seen["lastMessage"] == "three");
    scene.model.wait_request("the answer", |seen| seen.body.to_string().contains("rather green"));

    api.done(&format!("{session}/send"), &json!({"message": "[[hang:stream]] in a stream"}));
    scene.model.wait_turn("[[hang:stream]] in a stream", 0);
    let done = api.done(&format!("{session}/interrupt"), &Value::Null);
    assert_eq!(done["interrupted"], true, "{done:#}");
    api.becomes(&session, "the end of the turn", |seen| seen["outcome"] == "interrupted");
    let stopped = api.done(&format!("{session}/stop"), &Value::Null);
    assert_eq!(stopped["sessions"][0]["stopped"], true, "{stopped:#}");
    told(&events, "session.stopped", |event| event["sessionId"] == id.as_str());

    let again =
        json!({"message": format!("[[bash:{ENDLESS}]] again"), "hold": true, "permissionMode": "bypass"});
    let resumed = api.done(&format!("{session}/resume"), &again);
    assert_eq!(resumed["id"], id.as_str(), "{resumed:#}");
    scene.wait_for_tool();
    let done = api.done(&format!("{session}/interrupt"), &Value::Null);
    assert_eq!(done["interrupted"], true, "{done:#}");
    api.becomes(&session, "the end of the turn", |seen| seen["status"] == "idle");
    until_seen(PATIENCE, "the end of the tool", || {
        let left = scene.processes().into_iter().find(|(_, line)| line.contains(ENDLESS));
        left.map_or(Ok(()), |left| Err(format!("{left:?}")))
    });
}
