//! A held agent asks, and a program answers.

use agentctl_testkit::{Claude, FakeModel, TestHome, skip};
use serde_json::json;

use crate::line::Client;

#[test]
fn a_request_is_shown_whole_and_answered_by_its_id() {
    let model = FakeModel::start();
    let mut home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    if let Err(reason) = Claude::settle(&mut home, &model.url()) {
        return skip(reason);
    }
    let cwd = home.git_repo("project");
    let mut client = Client::greeted(&home, "launch,send,answer,interrupt,stop");
    let padding = "x".repeat(3000);
    let prompt = format!("[[bash:touch allowed # {padding} the end]] [[text:did it]]");
    let launch = json!({"adapter": "claude-code", "prompt": prompt, "cwd": cwd, "hold": true});
    let session = client.done("launch_session", &launch);
    let id = session["session"]["id"].as_str().unwrap().to_owned();
    let waiting = client.done("wait_for", &json!({"id": id, "until": ["waiting"], "timeout": "3m"}));
    assert_eq!(waiting["reached"][0]["waitsFor"], json!(["approval"]), "{waiting:#}");

    // The id of a request can be had by other means; it must have been shown here.
    let status = home.agentctl(&["status", &id, "--json"]).ok().json();
    let request = status["pending"][0]["id"].as_str().unwrap().to_owned();
    let answer = |decision: &str| json!({"id": id, "request": request, "decision": decision});
    assert!(
        client.refused("answer_request", &answer("approve")).contains("was not shown on this connection")
    );
    let inbox = client.done("inbox", &json!({}));
    let shown = &inbox["items"][0]["pending"][0];
    assert_eq!(shown["id"], request.as_str(), "{inbox:#}");
    let words = shown["summary"].as_str().unwrap();
    assert!(
        words.contains("the end") && words.starts_with("<untrusted "),
        "it is whole, and fenced: {words}"
    );
    assert!(
        client
            .refused("answer_request", &json!({"id": id, "request": "another", "decision": "approve"}))
            .contains("refused")
    );
    let mut second = Client::greeted(&home, "answer");
    assert!(
        second.refused("answer_request", &answer("approve")).contains("was not shown on this connection")
    );

    let taken = client.done("answer_request", &answer("approve"));
    assert_eq!(taken["decision"], "approve", "{taken:#}");
    let done = client.done("wait_for", &json!({"id": id, "timeout": "3m"}));
    assert_eq!(done["reached"][0]["status"], "idle", "{done:#}");
    assert!(cwd.join("allowed").exists());
    assert!(client.refused("answer_request", &answer("deny")).starts_with("refused:"), "it is gone");

    let sent = client.done(
        "send_message",
        &json!({"id": id, "message": "[[bash:touch began; tail -f /dev/null]] [[hang]]"}),
    );
    assert_eq!(sent["accepted"], "now", "{sent:#}");
    client.done("wait_for", &json!({"id": id, "until": ["waiting"], "timeout": "3m"}));
    let shown = client.done("session_status", &json!({"id": id}));
    let request = shown["session"]["pending"][0]["id"].clone();
    client.done(
        "answer_request",
        &json!({"id": id, "request": request, "decision": "deny", "message": "not now"}),
    );
    client.done("wait_for", &json!({"id": id, "until": ["running", "idle"], "timeout": "3m"}));
    let broken = client.done("interrupt_session", &json!({"id": id}));
    assert!(broken["interrupted"].is_boolean(), "{broken:#}");
    assert!(!cwd.join("began").exists());
    let stopped = client.done("stop_session", &json!({"id": id}));
    assert_eq!(stopped["session"]["status"], "stopped", "{stopped:#}");
    // A session that nobody runs is taken up again only if that is asked for.
    assert!(client.refused("send_message", &json!({"id": id, "message": "hello"})).contains("is stopped"));
    let resumed = json!({"id": id, "message": "[[text:taken up]]", "resume": true});
    assert!(second.call("send_message", &resumed).is_null(), "it is not offered there");
    client.done("send_message", &resumed);
    client.done("wait_for", &json!({"id": id, "timeout": "3m"}));
    let after = client.done("session_status", &json!({"id": id}));
    assert_eq!(after["session"]["status"], "idle", "{after:#}");
    assert!(after["session"]["lastMessage"].as_str().unwrap().contains("taken up"), "{after:#}");
    client.done("stop_session", &json!({"id": id}));
}
