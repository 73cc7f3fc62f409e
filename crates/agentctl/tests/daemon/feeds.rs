//! Servers that announce changes by themselves: an announcement makes the daemon survey, and does nothing
//! else.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentctl_testkit::agents::openclaw::{Ledger, ScriptedGateway, Step};
use agentctl_testkit::until;
use serde_json::json;

use crate::events::Listener;
use crate::house::{House, SOON};
use crate::stand_in::StandIn;

const KEY: &str = "agent:main:x";
/// By periodic surveys alone, this many changes would take minutes.
const CHANGES: usize = 12;
const BY_BEING_TOLD: Duration = Duration::from_mins(1);

#[test]
fn a_push_is_a_reason_to_look_and_never_a_fact() {
    let house = House::new();
    let ledger = Arc::new(Mutex::new(Ledger { boot: "b1".into(), ..Ledger::default() }));
    let subscribed = Arc::new(Mutex::new(Vec::new()));
    let (known, log) = (Arc::clone(&ledger), Arc::clone(&subscribed));
    let gateway = ScriptedGateway::start(move |step| {
        if let Step::Request { method: "sessions.subscribe", params } = step {
            log.lock().unwrap().push(params.clone());
        }
        known.lock().unwrap().answer(step)
    });
    house.has_gateway(gateway.port());
    let set = |running: bool| {
        let status = if running { "running" } else { "done" };
        let row = json!({"key": KEY, "hasActiveRun": running, "status": status, "workspaceDir": "/w"});
        ledger.lock().unwrap().rows = vec![row];
    };
    set(false);
    let daemon = house.daemon(&[]);
    until(SOON, "the subscription", || (subscribed.lock().unwrap().len() == 1).then_some(()));
    let mut events = Listener::open(&house, "", None);

    // The content of an announcement is not trusted: only the list is.
    gateway.push("sessions.changed", &json!({"sessionKey": KEY, "session": {"hasActiveRun": true}}));
    let began = Instant::now();
    for change in 0..CHANGES {
        let running = change % 2 == 0;
        set(running);
        gateway.push("sessions.changed", &json!({"sessionKey": KEY}));
        let kind = match change {
            0 => "session.started",
            _ if running => "session.running",
            _ => "session.idle",
        };
        let event = events.until(kind, KEY);
        assert_eq!(event["session"]["status"], if running { "running" } else { "idle" }, "{event:#}");
    }
    assert!(began.elapsed() < BY_BEING_TOLD, "{:?}", began.elapsed());

    // A client learns only from the run itself that it waits for an approval.
    set(true);
    gateway.push("sessions.changed", &json!({}));
    events.until("session.running", KEY);
    let began = Instant::now();
    let approval = json!({"id": "a-1", "request": {"command": "rm x", "sessionKey": KEY}});
    for change in 0..CHANGES {
        let (waits, phase, kind) = match change % 2 {
            0 => (true, "waiting-approval", "session.waiting"),
            _ => (false, "approval-resolved", "session.running"),
        };
        ledger.lock().unwrap().approvals = waits.then(|| approval.clone()).into_iter().collect();
        let told = json!({"sessionKey": KEY, "stream": "lifecycle", "data": {"phase": phase}});
        gateway.push("agent", &told);
        events.until(kind, KEY);
    }
    assert!(began.elapsed() < BY_BEING_TOLD, "{:?}", began.elapsed());
    set(false);
    gateway.push("sessions.changed", &json!({}));
    events.until("session.idle", KEY);

    // One connection serves all of it; when it is cut, it is opened again and no session changes.
    assert_eq!(subscribed.lock().unwrap().len(), 1);
    let restarts = || house.get("/v1/daemon").json()["feeds"][0]["restarts"].as_u64();
    assert_eq!(restarts(), Some(0));
    gateway.cut_all();
    until(SOON, "the next subscription", || (subscribed.lock().unwrap().len() == 2).then_some(()));
    // The first time it is the same gateway; the next time it is another one.
    assert_eq!(restarts(), Some(0));
    ledger.lock().unwrap().boot = "b2".into();
    gateway.cut_all();
    until(SOON, "the gateway's next life", || (restarts() == Some(1)).then_some(()));
    set(true);
    gateway.push("sessions.changed", &json!({}));
    events.until("session.running", KEY);
    drop(daemon);
}

#[test]
fn a_gateway_that_hangs_does_not_hold_up_the_news_of_others() {
    let house = House::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // The kernel accepts the connection, and nothing ever answers.
    house.has_gateway(listener.local_addr().unwrap().port());
    let _daemon = house.daemon(&[]);
    house.settled();
    let mut events = Listener::open(&house, "", None);
    let agent = StandIn::start(&house.home);
    events.until("session.started", &agent.id);
    let began = Instant::now();
    for _ in 0..CHANGES / 2 {
        agent.finish();
        events.until("session.idle", &agent.id);
        agent.say("busy");
        events.until("session.running", &agent.id);
    }
    assert!(began.elapsed() < BY_BEING_TOLD, "{:?}", began.elapsed());
    let sources = house.get("/v1/daemon").json()["sources"].clone();
    let gateway = sources.as_array().unwrap().iter().find(|source| source["adapter"] == "openclaw");
    assert!(gateway.is_some_and(|source| source["coverage"] != "complete"), "{sources:#}");
}
