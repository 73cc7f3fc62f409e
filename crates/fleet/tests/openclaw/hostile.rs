//! Gateways that hang, lie, flood or leave at every step: bounded time and memory, a clear word, others unaffected.

use std::time::{Duration, Instant};

use agentctl_testkit::openclaw::{Act, Ledger, ScriptedGateway, Step};
use serde_json::json;

use super::{Scene, everything, fleet, root};

const PATIENCE: Duration = Duration::from_millis(400);
/// Far more than the patience, since the machine may be busy; far less than for ever.
const BOUND: Duration = Duration::from_secs(20);

const STEPS: [&str; 7] =
    ["upgrade", "challenge", "connect", "sessions.list", "cron.list", "exec.approval.list", "chat.history"];

fn busy_ledger() -> Ledger {
    let row = |key: &str| json!({"key": key, "hasActiveRun": true, "agentId": "main", "workspaceDir": "/w"});
    Ledger { rows: vec![row("agent:main:x"), row("agent:main:cron:j")], ..Ledger::default() }
}

/// A gateway that does this at that step and is proper otherwise.
fn misbehaving(at: &'static str, act: Act) -> ScriptedGateway {
    let ledger = busy_ledger();
    ScriptedGateway::start(move |step| {
        let here = match step {
            Step::Upgrade => "upgrade",
            Step::Challenge => "challenge",
            Step::Request { method, .. } => method,
        };
        if here == at { act.clone() } else { ledger.answer(step) }
    })
}

fn manners() -> Vec<Act> {
    vec![
        Act::Silence,
        Act::Cut,
        Act::Close(1008, "go away".into()),
        Act::Close(1012, "service restart".into()),
        Act::Say("garbage \u{1b}[31m".into()),
        Act::Say(r#"{"jsonrpc":"2.0","id":1}"#.into()),
        Act::Noise(b"HTTP/1.1 500 Oops\r\n\r\n".to_vec()),
        Act::Noise(vec![0xff; 300]),
        Act::Huge(50 << 20),
        Act::Trickle(Duration::from_millis(5)),
    ]
}

#[test]
fn bad_manners_at_any_step_cost_bounded_time_and_only_their_own_source() {
    let good = Scene::set();
    *good.ledger() = busy_ledger();
    for at in STEPS {
        // All bad ones of one step at once, beside a good one.
        let bad: Vec<(Act, ScriptedGateway)> =
            manners().into_iter().map(|act| (act.clone(), misbehaving(at, act))).collect();
        let mut roots: Vec<_> = bad.iter().map(|(_, gateway)| root(gateway)).collect();
        roots.push(root(&good.gateway));
        let began = Instant::now();
        let survey = fleet(roots, PATIENCE).survey(&everything());
        assert!(began.elapsed() < BOUND, "{at}: {:?}", began.elapsed());
        let (own, others) = survey.sources.split_last().unwrap();
        assert_eq!(own.coverage, "complete", "{at}: {own:?}");
        assert_eq!(survey.sessions.len(), 2, "{at}: only the good one gives verdicts");
        for (source, (act, _)) in others.iter().zip(&bad) {
            assert!(matches!(source.coverage.as_str(), "failed" | "timed-out"), "{at} {act:?}: {source:?}");
            let words = source.error.clone().unwrap();
            assert!(words.len() > 8 && !words.contains('\u{1b}'), "{at} {act:?}: {words}");
        }
    }
}

#[test]
fn what_went_wrong_is_named() {
    let error = |at, act| {
        let gateway = misbehaving(at, act);
        let survey = fleet(vec![root(&gateway)], BOUND).survey(&everything());
        survey.sources[0].error.clone().unwrap()
    };
    assert!(error("sessions.list", Act::Huge(50 << 20)).contains("52428800 bytes is too large"));
    assert!(error("connect", Act::Close(1008, "go away".into())).contains("1008: go away"));
    assert!(error("sessions.list", Act::Close(1012, "service restart".into())).contains("is restarting"));
    assert!(error("cron.list", Act::Cut).contains("cron.list: the connection broke"));
    assert!(error("connect", Act::Say("garbage".into())).contains("connect: not understood"));
    assert!(error("upgrade", Act::Noise(b"HTTP/1.1 500 Oops\r\n\r\n".to_vec())).contains("HTTP 500"));
}

#[test]
fn a_flood_is_not_kept_in_memory() {
    let peak = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("VmHWM: 0 kB").to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = peak();
    for at in ["connect", "sessions.list"] {
        let gateway = misbehaving(at, Act::Huge(50 << 20));
        assert_eq!(fleet(vec![root(&gateway)], BOUND).survey(&everything()).sources[0].coverage, "failed");
    }
    assert!(peak() - before < 40 << 10, "{} kB more", peak() - before);
}

#[test]
fn a_list_without_an_end_is_given_up() {
    let ledger = Ledger { page: Some(1), ..busy_ledger() };
    let gateway = ScriptedGateway::start(move |step| match step {
        Step::Request { method: "sessions.list", params } => {
            let next = params["offset"].as_u64().unwrap_or(0) + 1;
            let rows = [json!({"key": format!("k{next}"), "hasActiveRun": false})];
            Act::Proper(
                json!({"sessions": rows, "hasMore": true, "nextOffset": next, "totalCount": 1_000_000}),
            )
        }
        other => ledger.answer(other),
    });
    let survey = fleet(vec![root(&gateway)], BOUND).survey(&everything());
    assert_eq!(
        survey.sources[0].error.as_deref(),
        Some("sessions.list: not understood: the list has no end")
    );
    assert!(survey.sessions.is_empty());
}
