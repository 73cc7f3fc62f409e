//! A real agent that is launched, spoken with, approved and stopped over the bus.

use agentctl_testkit::{Claude, FakeModel, skip, until_seen};
use serde_json::{Value, json};

use crate::scene::{Asker, Machine, PATIENCE, door, get, open_server, post, reach};

#[test]
fn claude_code_is_held_and_approved_from_another_machine() {
    let asker = Asker::new();
    let Some(server) = open_server(&asker) else { return };
    let model = FakeModel::start();
    let mut machine = Machine::start("dev1", &server.url(), "serve = \"act\"");
    machine.daemon = None;
    if let Err(reason) = Claude::settle(&mut machine.house.home, &model.url()) {
        return skip(reason);
    }
    machine.resume();
    let bus = door(&server.url(), "bob", None);
    let mut road = reach(&bus, &machine.name);
    let cwd = machine.house.home.git_repo("project");
    let order = json!({"adapter": "claude-code", "prompt": "[[text:one]] first", "cwd": cwd, "hold": true});
    let (status, launched) = post(&mut road, "/v1/sessions", &order);
    assert_eq!(status, 200, "{launched:#}");
    let session = format!("/v1/sessions/{}", launched["id"].as_str().unwrap());
    let mut becomes = |what: &str, fits: &dyn Fn(&Value) -> bool| {
        until_seen(PATIENCE, what, || {
            let seen: Value = serde_json::from_slice(&get(&mut road, &session).body).unwrap();
            if fits(&seen) { Ok(seen) } else { Err(format!("{seen:#}")) }
        })
    };
    becomes("the end of the turn", &|seen| seen["status"] == "idle");
    let mut road = reach(&bus, &machine.name);
    let done = |road: &mut _, what: &str, body: Value| {
        let (status, answer) = post(road, &format!("{session}/{what}"), &body);
        assert_eq!(status, 200, "{what}: {answer:#}");
        answer
    };
    done(&mut road, "send", json!({"message": "[[bash:touch allowed]] [[text:two]]"}));
    let waits = becomes("the request", &|seen| seen["pending"][0]["answerable"] == true);
    let request = &waits["pending"][0]["id"];
    done(&mut road, "answer", json!({"decision": "approve", "request": request}));
    becomes("the end of the turn", &|seen| seen["status"] == "idle" && seen["lastMessage"] == "two");
    assert!(cwd.join("allowed").exists());
    // What is on that machine is also told by its name.
    let list = asker.home.agentctl(&["list", "--host", "all", "--json"]).ok().json();
    assert_eq!(
        (&list["sessions"][0]["host"], &list["sessions"][0]["status"]),
        (&json!("dev1"), &json!("idle")),
        "{list:#}"
    );
    let stopped = done(&mut road, "stop", json!({}));
    assert_eq!(stopped["sessions"][0]["stopped"], true, "{stopped:#}");
}
