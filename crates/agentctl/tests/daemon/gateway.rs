//! A session that lives in a gateway, through HTTP: it is launched, stopped and spoken to there, with no
//! local process.

use std::sync::{Arc, Mutex};

use agentctl_testkit::agents::openclaw::{Act, Ledger, ScriptedGateway, Step};
use agentctl_testkit::until;
use serde_json::{Value, json};

use crate::events::Listener;
use crate::house::{House, SOON};
use crate::webhooks::{Receiver, configure};

const KEY: &str = "agent:main:dashboard:1";

/// A gateway with this behaviour, and a house that knows it.
fn house_with(
    ledger: Ledger,
    act: impl Fn(&mut Ledger, &str, &Value) -> Option<Act> + Send + Sync + 'static,
) -> (ScriptedGateway, House) {
    let ledger = Mutex::new(ledger);
    let gateway = ScriptedGateway::start(move |step| {
        let mut ledger = ledger.lock().unwrap();
        let Step::Request { method, params } = step else { return ledger.answer(step) };
        act(&mut ledger, method, params).unwrap_or_else(|| ledger.answer(step))
    });
    let house = House::new();
    house.has_gateway(gateway.port());
    (gateway, house)
}

/// What a real gateway was observed to do with these.
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
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    let (gateway, house) = house_with(Ledger::default(), move |ledger, method, params| {
        log.lock().unwrap().push((method.to_owned(), params.clone()));
        act(ledger, method).map(Act::Proper)
    });
    let _daemon = house.daemon(&[]);
    let cwd = house.home.work_dir("project");
    let write = |target: &str, body: Value| {
        let reply = house.write("POST", target, &body.to_string());
        assert_eq!(reply.status, 200, "{target}: {reply:?}");
        reply.json()
    };
    let launch =
        |gateway: &str| json!({"adapter": "openclaw", "prompt": "go", "cwd": cwd, "gateway": gateway});
    let nobody = house.write("POST", "/v1/sessions", &launch("ws://nobody.local:1").to_string());
    assert_eq!((nobody.status, &nobody.json()["code"]), (404, &json!("not-found")), "{nobody:?}");
    assert!(nobody.json()["hint"].as_str().unwrap().contains(&gateway.url()), "{nobody:?}");
    let launched = write("/v1/sessions", launch(&gateway.url()));
    assert_eq!((&launched["id"], &launched["status"]), (&json!(KEY), &json!("running")), "{launched:#}");
    assert_eq!(launched["pid"], Value::Null);
    let at_work = house.write("POST", &format!("/v1/sessions/{KEY}/resume"), r#"{"message": "more"}"#);
    assert_eq!(at_work.status, 409, "{at_work:?}");
    let stopped = write(&format!("/v1/sessions/{KEY}/stop"), json!({}));
    assert_eq!(stopped["sessions"][0]["session"]["outcome"], "interrupted", "{stopped:#}");
    let resumed = write(&format!("/v1/sessions/{KEY}/resume"), json!({"message": "go on"}));
    assert_eq!(resumed["id"], KEY, "{resumed:#}");
    let sent = write(&format!("/v1/sessions/{KEY}/send"), json!({"message": "and on"}));
    assert_eq!(sent["accepted"], "now", "{sent:#}");
    // A gateway chooses its own folder unless one is given; a local process needs one.
    write("/v1/sessions", json!({"adapter": "openclaw", "prompt": "anywhere"}));
    let placeless = house.write("POST", "/v1/sessions", r#"{"adapter": "codex", "prompt": "go"}"#);
    assert!(placeless.status == 400 && placeless.body.contains("`cwd`"), "{placeless:?}");
    let asked = asked.lock().unwrap();
    let words: Vec<&Value> = asked
        .iter()
        .filter(|(method, _)| matches!(method.as_str(), "sessions.create" | "sessions.send"))
        .map(|(_, params)| &params["message"])
        .collect();
    assert_eq!(words, ["go", "go on", "and on", "anywhere"]);
    let folders: Vec<&Value> = asked
        .iter()
        .filter(|(method, _)| method == "sessions.create")
        .map(|(_, params)| &params["cwd"])
        .collect();
    assert_eq!(folders, [&json!(cwd), &Value::Null]);
}

#[test]
fn a_stop_that_failed_is_a_refusal_only_where_the_gateway_said_no() {
    let row = |key: &str| json!({"key": key, "hasActiveRun": true, "workspaceDir": "/w"});
    let ledger = Ledger { rows: ["cut", "stubborn", "never"].map(row).to_vec(), ..Ledger::default() };
    let (_gateway, house) = house_with(ledger, |_, method, params| {
        let key = params["sessionKey"].as_str().or(params["key"].as_str());
        match (method, key) {
            ("chat.abort", Some("cut")) => Some(Act::Cut),
            ("chat.abort", Some("stubborn")) => Some(Act::Proper(json!({"aborted": true, "runIds": []}))),
            ("chat.abort", Some("never")) => {
                Some(Act::Refuse(json!({"code": "INVALID_REQUEST", "message": "not yours to stop"})))
            }
            _ => None,
        }
    });
    let _daemon = house.daemon(&[]);
    for (key, status, code, said) in [
        ("cut", 504, "failed", "is not known"),
        ("stubborn", 502, "failed", "still says that session stubborn is running"),
        ("never", 409, "refused", "not yours to stop"),
    ] {
        let reply = house.write("POST", &format!("/v1/sessions/{key}/stop"), r#"{"grace": "0s"}"#);
        assert_eq!((reply.status, &reply.json()["code"]), (status, &json!(code)), "{key}: {reply:?}");
        assert!(reply.json()["detail"].as_str().unwrap().contains(said), "{key}: {reply:?}");
    }
}

/// A session in a gateway may end many times after one launch: each end is announced under its own id.
#[test]
fn every_end_in_a_gateway_is_told() {
    const CRON: &str = "agent:main:cron:job-1";
    let row = |running: bool| {
        json!({"key": CRON, "hasActiveRun": running, "status": if running { "running" } else { "done" },
        "workspaceDir": "/w", "lastRunId": "run-2"})
    };
    let running = Arc::new(Mutex::new(false));
    let now = running.clone();
    let (gateway, house) = house_with(Ledger::default(), move |ledger, method, _| {
        if method == "sessions.send" {
            *now.lock().unwrap() = true;
        }
        ledger.rows = vec![row(*now.lock().unwrap())];
        let taken = json!({"runId": "run-2", "status": "started"});
        (method == "sessions.send").then_some(Act::Proper(taken))
    });
    let receiver = Receiver::start(&[]);
    configure(&house, &receiver.url);
    let _daemon = house.daemon(&[]);
    house.settled();
    let mut events = Listener::open(&house, "", None);
    let resumed = house.write("POST", &format!("/v1/sessions/{CRON}/resume"), r#"{"message": "go on"}"#);
    assert_eq!(resumed.status, 200, "{resumed:?}");
    let launch = resumed.json()["launch"]["id"].clone();
    assert!(launch.is_string(), "{resumed:?}");
    for _ in 0..3 {
        *running.lock().unwrap() = true;
        gateway.push("sessions.changed", &json!({"sessionKey": CRON}));
        until(SOON, "it to run", || (house.get("/v1/daemon").json()["liveSessions"] == 1).then_some(()));
        *running.lock().unwrap() = false;
        gateway.push("sessions.changed", &json!({"sessionKey": CRON}));
        events.until("session.stopped", CRON);
    }
    let told = receiver.accepted(3);
    let ids: std::collections::BTreeSet<&str> =
        told.iter().map(|one| one.header("X-Agentctl-Delivery").unwrap()).collect();
    assert_eq!(ids.len(), 3, "{ids:?}");
}
