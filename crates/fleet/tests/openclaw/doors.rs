//! Connecting, staying connected, and what is reported when that fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentctl_adapters::agents::openclaw::{GatewayClient, OpenClaw, Watch};
use agentctl_adapters::feed::FeedMessage;
use agentctl_adapters::{Adapter, Feed, Gateway as _, Keys, Pin, Root, Secret};
use agentctl_fleet::{Fleet, Selector, Source};
use agentctl_model::{Outcome, SessionKey, Status};
use agentctl_testkit::agents::openclaw::{Act, Ledger, ScriptedGateway, Step, tls};
use agentctl_testkit::until;
use serde_json::{Value, json};

use super::{PATIENT, Scene, active, everything, fleet, keys, root, session};

fn ready(key: &str) -> Value {
    json!({"key": key, "hasActiveRun": false, "status": "done", "workspaceDir": "/w"})
}

#[test]
fn a_machine_without_openclaw_is_asked_nothing() {
    let home = tempfile::tempdir().unwrap();
    let environ = [("HOME", home.path().to_str().unwrap())].into_iter().collect();
    let survey = fleet(vec![OpenClaw.root(&environ).unwrap()], PATIENT).survey(&everything());
    assert_eq!(survey.sources[0].coverage.as_str(), "not-installed");
}

#[test]
fn a_stranger_tells_who_it_is_and_then_what_to_do() {
    let (approved, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (asked, log) = (Arc::clone(&approved), Arc::clone(&seen));
    let gateway = ScriptedGateway::start(move |step| {
        let mut ledger = Ledger { rows: vec![ready("agent:main:x")], ..Ledger::default() };
        let Step::Request { method: "connect", params } = step else { return ledger.answer(step) };
        log.lock().unwrap().push(params.clone());
        if params["device"].is_null() {
            ledger.scopes = Some(Vec::new());
        } else if asked.load(Ordering::Relaxed) == 0 {
            return Act::Refuse(json!({
                "code": "NOT_PAIRED", "message": "pairing required: device is not approved yet",
                "details": {"code": "PAIRING_REQUIRED", "requestId": "req-7", "reason": "not-paired"},
            }));
        }
        ledger.answer(step)
    });
    let told = |root: Root| fleet(vec![root], PATIENT).survey(&everything()).sources[0].clone();
    let alone = told(root(&gateway));
    assert!(alone.error.unwrap().contains("grants no operator.read scope"));

    let mut known = root(&gateway);
    known.keys.as_mut().unwrap().device = Secret::new("07".repeat(32));
    let refused = told(known.clone()).error.unwrap();
    assert!(refused.contains("`openclaw devices approve req-7`"), "{refused}");
    assert!(!refused.contains("s3cret-of-the-test") && !refused.contains("0707"), "{refused}");
    approved.store(1, Ordering::Relaxed);
    assert_eq!(told(known).coverage.as_str(), "complete");
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|params| params["scopes"] == json!(["operator.read"])), "no more than it needs");
    assert_eq!(seen.last().unwrap()["device"]["nonce"], "n-1");
    assert!(seen.last().unwrap()["device"]["signedAt"] == 1_794_725_739_451_i64, "by the gateway's clock");
}

#[test]
fn second_answers_events_and_short_pauses_confuse_nobody() {
    let refused = AtomicUsize::new(0);
    let ledger =
        Ledger { rows: vec![ready("agent:main:x"), ready("agent:main:cron:j")], ..Ledger::default() };
    let gateway = ScriptedGateway::start(move |step| {
        let Act::Proper(payload) = ledger.answer(step) else { panic!("{step:?}") };
        match step {
            Step::Request { method: "sessions.list", .. } if refused.fetch_add(1, Ordering::Relaxed) == 0 => {
                Act::Refuse(json!({"code": "UNAVAILABLE", "retryable": true, "retryAfterMs": 5}))
            }
            Step::Request { method: "sessions.list", .. } => Act::Twice(payload, json!({"sessions": []})),
            Step::Request { method: "cron.list", .. } => {
                Act::After(vec![json!({"type": "event", "event": "tick", "payload": {}, "seq": 1})], payload)
            }
            _ => Act::Proper(payload),
        }
    });
    let survey = fleet(vec![root(&gateway)], PATIENT).survey(&everything());
    assert_eq!((survey.sources[0].coverage.as_str(), survey.sessions.len()), ("complete", 2));
    assert_eq!(session(&survey, "agent:main:cron:j").unwrap().status, Status::Stopped);
}

#[test]
fn without_the_cron_jobs_no_automation_is_called_stopped() {
    let ledger =
        Ledger { rows: vec![ready("agent:main:x"), ready("agent:main:cron:j")], ..Ledger::default() };
    let gateway = ScriptedGateway::start(move |step| match step {
        Step::Request { method: "cron.list", .. } => {
            Act::Refuse(json!({"code": "FORBIDDEN", "message": "no"}))
        }
        other => ledger.answer(other),
    });
    let survey = fleet(vec![root(&gateway)], PATIENT).survey(&everything());
    assert_eq!(survey.sources[0].coverage.as_str(), "partial");
    assert!(survey.sources[0].warnings[0].contains("cron.list: no (FORBIDDEN)"));
    assert_eq!(session(&survey, "agent:main:cron:j").unwrap().status, Status::Unknown);
    let other = session(&survey, "agent:main:x").unwrap();
    assert_eq!((other.status, other.outcome), (Status::Idle, Some(Outcome::Completed)));
}

#[test]
fn a_list_that_moves_while_it_is_read_is_no_whole_list() {
    let ledger = Ledger { rows: vec![ready("agent:main:x")], ..Ledger::default() };
    let gateway = ScriptedGateway::start(move |step| match (step, ledger.answer(step)) {
        (Step::Request { method: "sessions.list", .. }, Act::Proper(mut page)) => {
            page["totalCount"] = json!(3);
            Act::Proper(page)
        }
        (_, answer) => answer,
    });
    let root = root(&gateway);
    let key = |id: &str| SessionKey {
        adapter: "openclaw".into(),
        root: root.path.to_str().unwrap().into(),
        id: id.into(),
        variant: None,
    };
    let absent = key("agent:main:elsewhere");
    let survey = fleet(vec![root.clone()], PATIENT).survey(&everything());
    assert_eq!(survey.sources[0].coverage.as_str(), "partial");
    assert_eq!(survey.prove_ended(&absent), None);
}

#[test]
fn during_an_outage_there_is_no_verdict_and_afterwards_the_truth() {
    let scene = Scene::set();
    scene.ledger().rows = vec![json!({"key": "agent:main:x", "hasActiveRun": true, "workspaceDir": "/w"})];
    let root = root(&scene.gateway);
    assert_eq!(active(&scene.survey()), 1);
    drop(scene);
    let fleet = fleet(vec![root.clone()], PATIENT);
    let survey = fleet.survey(&everything());
    assert_eq!(survey.sources[0].error.as_deref(), Some("connection refused"));
    let (adapter, path) = ("openclaw".to_owned(), root.path.to_str().unwrap().to_owned());
    let key = SessionKey { adapter, root: path, id: "agent:main:x".into(), variant: None };
    assert_eq!(survey.prove_ended(&key), None);
    let selector = Selector { text: "agent:main:x".into(), ..Selector::default() };
    assert!(matches!(
        fleet.find(&selector, agentctl_fleet::Purpose::Read),
        Err(agentctl_fleet::FindError::NotHeard { .. })
    ));
}

#[test]
fn a_long_connection_tells_when_to_read_again_and_when_the_gateway_is_another_one() {
    let lives = Arc::new(AtomicUsize::new(0));
    let life = Arc::clone(&lives);
    let gateway = ScriptedGateway::start(move |step| {
        let number = life.load(Ordering::Relaxed);
        let ledger = Ledger { boot: format!("boot-{}", number / 2), ..Ledger::default() };
        match (step, ledger.answer(step)) {
            (Step::Request { method: "sessions.subscribe", .. }, Act::Proper(payload)) => {
                life.fetch_add(1, Ordering::Relaxed);
                let changed =
                    json!({"type": "event", "event": "sessions.changed", "payload": {"sessionKey": "k"}});
                let tick = json!({"type": "event", "event": "tick", "payload": {}});
                // After that comes something that ends the connection.
                Act::Before(payload, vec![tick, changed, json!("no frame")])
            }
            (_, answer) => answer,
        }
    });
    let mut watch =
        Watch::new(GatewayClient::of(&OpenClaw.root_at(&gateway.url(), keys()).unwrap()).unwrap());
    let mut news = || {
        until(PATIENT, "news", || match watch.next(Duration::from_millis(200)) {
            Ok(FeedMessage::Nothing) => None,
            other => Some(other.ok()),
        })
    };
    // Connected, something changed, lost; the third time it is another gateway.
    for connected in
        [FeedMessage::Changed, FeedMessage::Changed, FeedMessage::Restarted, FeedMessage::Changed]
    {
        assert_eq!([news(), news(), news()], [Some(connected), Some(FeedMessage::Changed), None]);
    }
}

#[test]
fn a_gateway_that_leaves_says_when_to_come_back() {
    let lost_to = |act: Act| {
        let gateway = ScriptedGateway::start(move |step| match step {
            Step::Request { method: "sessions.subscribe", .. } => act.clone(),
            other => Ledger::default().answer(other),
        });
        let mut watch = Watch::new(GatewayClient::of(&root(&gateway)).unwrap());
        watch.next(PATIENT).unwrap_err()
    };
    let pause = |lost: agentctl_adapters::feed::Lost| lost.retry_in;
    assert_eq!(pause(lost_to(Act::Close(4001, "gateway policy changed".into()))), Some(Duration::ZERO));
    assert_eq!(pause(lost_to(Act::Cut)), None, "1006, a gateway that was killed");
    let restarting = lost_to(Act::Close(1012, "service restart".into()));
    assert!(restarting.why.contains("is restarting") && restarting.retry_in.is_none(), "{restarting:?}");
    let starting = json!({"code": "UNAVAILABLE", "message": "gateway starting", "retryable": true, "retryAfterMs": 5000});
    assert_eq!(pause(lost_to(Act::Refuse(starting))), Some(Duration::from_secs(5)));
}

#[test]
fn approvals_take_an_administrator_and_reading_does_not() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let approval =
        json!({"id": "a-1", "createdAtMs": 1, "request": {"sessionKey": "agent:main:x", "command": "ls"}});
    let row = json!({"key": "agent:main:x", "hasActiveRun": true, "workspaceDir": "/w"});
    let ledger = Ledger { rows: vec![row], approvals: vec![approval], ..Ledger::default() };
    let gateway = ScriptedGateway::start(move |step| {
        if let Step::Request { method: "connect", params } = step {
            log.lock().unwrap().push(params["scopes"].clone());
        }
        ledger.answer(step)
    });
    let mut modest = root(&gateway);
    modest.keys.as_mut().unwrap().approvals = Some(false);
    let survey = fleet(vec![modest], PATIENT).survey(&everything());
    let status = |survey: &agentctl_model::Survey| session(survey, "agent:main:x").unwrap().status;
    assert_eq!(status(&survey), Status::Running);
    let evidence = session(&survey, "agent:main:x").unwrap().evidence[0].fact.to_string();
    assert!(evidence.contains("its approvals were not looked at"), "{evidence}");
    assert_eq!(*seen.lock().unwrap(), [json!(["operator.read"])]);
    let mut local = root(&gateway);
    local.keys.as_mut().unwrap().approvals = None;
    let asked = fleet(vec![local], PATIENT).survey(&everything());
    assert_eq!(status(&asked), Status::Waiting);
    assert!(session(&asked, "agent:main:x").unwrap().pending[0].answerable);
    assert!(seen.lock().unwrap().contains(&json!(["operator.admin", "operator.approvals"])));
}

/// The real kernel decides.
#[test]
#[cfg(target_os = "linux")]
fn a_port_of_our_own_is_opened_and_one_that_nobody_looked_at_is_not() {
    let ledger = Ledger { rows: vec![ready("agent:main:x")], ..Ledger::default() };
    let gateway = ScriptedGateway::start(move |step| ledger.answer(step));
    let source = |root| Source { adapter: &OpenClaw, root, timeout: PATIENT };
    let fleet = Fleet::new(vec![source(root(&gateway))], agentctl_process::system());
    let survey = fleet.survey(&everything());
    assert_eq!((survey.sources[0].coverage.as_str(), survey.sessions.len()), ("complete", 1), "{survey:?}");

    let unguarded = Keys { token: keys().token, ..Keys::default() };
    let alone = GatewayClient::of(&OpenClaw.root_at(&gateway.url(), unguarded).unwrap()).unwrap();
    let refused = alone.stop("k").unwrap_err().to_string();
    assert!(refused.contains("nobody looked") && refused.contains("no key was sent"), "{refused}");
}

#[test]
fn over_tls_only_the_pinned_certificate_is_trusted() {
    let ledger = Ledger { rows: vec![ready("agent:main:x")], ..Ledger::default() };
    let gateway = ScriptedGateway::start_secure(tls::Identity::Own, move |step| ledger.answer(step));
    assert!(gateway.url().starts_with("wss://127.0.0.1"));
    let told = |pin: Option<&str>| {
        let mut root = root(&gateway);
        root.keys.as_mut().unwrap().pin = pin.map(Pin::new);
        fleet(vec![root], PATIENT).survey(&everything()).sources[0].clone()
    };
    let trusted = told(Some(tls::FINGERPRINT));
    assert_eq!((trusted.coverage.as_str(), trusted.sessions), ("complete", Some(1)), "{trusted:?}");
    for (pin, words) in [
        (None, "its certificate is not trusted"),
        (Some("00"), "not the one that was pinned"),
        (Some("no fingerprint at all"), "not the one that was pinned"),
    ] {
        let refused = told(pin).error.unwrap();
        assert!(refused.contains(words) && refused.contains("tlsFingerprint"), "{pin:?}: {refused}");
    }
}

#[test]
fn a_local_gateway_with_tls_is_trusted_by_its_own_certificate() {
    let gateway = ScriptedGateway::start_secure(tls::Identity::Own, |step| Ledger::default().answer(step));
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".openclaw");
    std::fs::create_dir_all(folder.join("gateway/tls")).unwrap();
    std::fs::write(folder.join("gateway/tls/gateway-cert.pem"), tls::CERTIFICATE).unwrap();
    let port = gateway.url().rsplit(':').next().unwrap().to_owned();
    std::fs::write(
        folder.join("openclaw.json"),
        format!("{{gateway: {{port: {port}, tls: {{enabled: true}}}}}}"),
    )
    .unwrap();
    let environ = [("HOME", home.path().to_str().unwrap())].into_iter().collect();
    let survey = fleet(vec![OpenClaw.root(&environ).unwrap()], PATIENT).survey(&everything());
    assert_eq!(survey.sources[0].coverage.as_str(), "complete", "{:?}", survey.sources[0]);
}
