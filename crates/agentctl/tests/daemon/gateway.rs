//! A session that lives in a gateway, through HTTP: launched, stopped and spoken to there, with no process here.

use std::sync::{Arc, Mutex};

use agentctl_testkit::openclaw::{Act, Ledger, ScriptedGateway, Step};
use serde_json::{Value, json};

use crate::house::House;

const KEY: &str = "agent:main:dashboard:1";

/// What a real gateway was seen to do with these.
fn act(ledger: &mut Ledger, method: &str) -> Option<Value> {
    match method {
        "sessions.create" => {
            ledger.rows =
                vec![json!({"key": KEY, "sessionId": "s-1", "hasActiveRun": true, "status": "running",
                "workspaceDir": "/w"})];
            Some(json!({"ok": true, "key": KEY, "sessionId": "s-1", "runId": "run-1"}))
        }
        "chat.abort" => {
            ledger.row(KEY)["hasActiveRun"] = json!(false);
            ledger.row(KEY)["status"] = json!("killed");
            Some(json!({"aborted": true, "runIds": []}))
        }
        "sessions.send" => {
            ledger.row(KEY)["status"] = json!("done");
            ledger.row(KEY)["lastRunId"] = json!("run-2");
            Some(json!({"runId": "run-2", "status": "started"}))
        }
        _ => None,
    }
}

#[test]
fn it_is_launched_stopped_resumed_and_spoken_to_where_it_lives() {
    let (ledger, asked) = (Mutex::new(Ledger::default()), Arc::new(Mutex::new(Vec::new())));
    let log = asked.clone();
    let gateway = ScriptedGateway::start(move |step| {
        let mut ledger = ledger.lock().unwrap();
        let Step::Request { method, params } = step else { return ledger.answer(step) };
        log.lock().unwrap().push((method.to_owned(), params.clone()));
        act(&mut ledger, method).map_or_else(|| ledger.answer(step), Act::Proper)
    });
    let house = House::new();
    house.has_gateway(gateway.port());
    let _daemon = house.daemon(&[]);
    let cwd = house.home.work_dir("project");
    let write = |target: &str, body: Value| {
        let reply = house.write("POST", target, &body.to_string());
        assert_eq!(reply.status, 200, "{target}: {reply:?}");
        reply.json()
    };
    let launched = write("/v1/sessions", json!({"adapter": "openclaw", "prompt": "go", "cwd": cwd}));
    assert_eq!((&launched["id"], &launched["status"]), (&json!(KEY), &json!("running")), "{launched:#}");
    assert_eq!(launched["pid"], Value::Null);
    let at_work = house.write("POST", &format!("/v1/sessions/{KEY}/resume"), r#"{"message": "more"}"#);
    assert_eq!(at_work.status, 409, "{at_work:?}");
    let stopped = write(&format!("/v1/sessions/{KEY}/stop"), json!({}));
    assert_eq!(stopped["sessions"][0]["session"]["outcome"], "interrupted", "{stopped:#}");
    let resumed = write(&format!("/v1/sessions/{KEY}/resume"), json!({"message": "go on"}));
    assert_eq!(resumed["id"], KEY, "{resumed:#}");
    let sent = write(&format!("/v1/sessions/{KEY}/send"), json!({"message": "and on"}));
    assert_eq!(sent["accepted"], true, "{sent:#}");
    let asked = asked.lock().unwrap();
    let words: Vec<&Value> = asked
        .iter()
        .filter(|(method, _)| matches!(method.as_str(), "sessions.create" | "sessions.send"))
        .map(|(_, params)| &params["message"])
        .collect();
    assert_eq!(words, ["go", "go on", "and on"]);
}
