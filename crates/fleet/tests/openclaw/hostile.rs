//! Gateways that hang, lie, flood or disconnect at every step: time and memory are bounded, the error is clear, and
//! others are not affected.

use std::time::{Duration, Instant};

use agentctl_model::Status;
use agentctl_testkit::agents::openclaw::{Act, Ledger, ScriptedGateway, Step, frame, tls};
use serde_json::json;

use super::{PATIENT, Scene, everything, fleet, fleet_of, root, secure_root, session};

const TIMEOUT: Duration = Duration::from_millis(400);
/// Far longer than the timeout, since the machine may be busy; far shorter than forever.
const BOUND: Duration = Duration::from_secs(20);

/// Every step that the list needs.
const STEPS: [&str; 6] = ["upgrade", "challenge", "connect", "sessions.list", "cron.list", "chat.history"];

pub(crate) fn busy_ledger() -> Ledger {
    let row = |key: &str| json!({"key": key, "hasActiveRun": true, "agentId": "main", "workspaceDir": "/w"});
    Ledger { rows: vec![row("agent:main:x"), row("agent:main:cron:j")], ..Ledger::default() }
}

/// A gateway that does this at that step and behaves properly otherwise.
pub(crate) fn misbehaving(at: &'static str, act: Act) -> ScriptedGateway {
    ScriptedGateway::start(script(at, act))
}

pub(crate) fn misbehaving_over_tls(at: &'static str, act: Act) -> ScriptedGateway {
    ScriptedGateway::start_secure(tls::Identity::Own, script(at, act))
}

fn script(at: &'static str, act: Act) -> impl Fn(Step<'_>) -> Act + Send + Sync + 'static {
    let ledger = busy_ledger();
    move |step| {
        let here = match step {
            Step::Upgrade => "upgrade",
            Step::Challenge => "challenge",
            Step::Request { method, .. } => method,
        };
        if here == at { act.clone() } else { ledger.answer(step) }
    }
}

fn manners() -> Vec<Act> {
    vec![
        Act::Silence,
        Act::Cut,
        Act::Close(1000, String::new()),
        Act::Close(1006, String::new()),
        Act::Close(1008, "go away".into()),
        Act::Close(1012, "service restart".into()),
        Act::Close(4001, "gateway policy changed".into()),
        Act::Say("garbage \u{1b}[31m".into()),
        Act::Say(r#"{"jsonrpc":"2.0","id":1}"#.into()),
        Act::Noise(b"HTTP/1.1 500 Oops\r\n\r\n".to_vec()),
        Act::Noise(vec![0xff; 300]),
        Act::Then(json!({}), Box::new(Act::Noise(vec![0xff; 300]))),
        Act::Huge(50 << 20),
        Act::Trickle(Duration::from_millis(5)),
        Act::Forever(frame(0x89, b"are you there")),
        Act::Forever(frame(0x00, &vec![b'x'; 64 << 10])),
        Act::Forever(frame(0x81, br#"{"type":"res","id":"another","ok":true,"payload":{}}"#)),
        Act::Say(format!(r#"{{"type":"res","id":"1","payload":{}"#, "[".repeat(1 << 20))),
    ]
}

#[test]
fn bad_manners_at_any_step_cost_bounded_time_and_only_their_own_source() {
    let good = Scene::set();
    *good.ledger() = busy_ledger();
    for at in STEPS {
        // All bad gateways of one step run at once, beside a good one.
        let bad: Vec<(Act, ScriptedGateway)> =
            manners().into_iter().map(|act| (act.clone(), misbehaving(at, act))).collect();
        let worse = [Act::Huge(50 << 20), Act::Trickle(Duration::from_millis(5))]
            .map(|act| (act.clone(), misbehaving_over_tls(at, act)));
        let mut roots: Vec<_> = bad.iter().map(|(_, gateway)| root(gateway)).collect();
        roots.extend(worse.iter().map(|(_, gateway)| secure_root(gateway)));
        // The good one may be slow on a busy machine; only the others are bounded.
        let mut roots: Vec<_> = roots.into_iter().map(|root| (root, TIMEOUT)).collect();
        roots.push((root(&good.gateway), BOUND));
        let began = Instant::now();
        let survey = fleet_of(roots).survey(&everything());
        assert!(began.elapsed() < BOUND, "{at}: {:?}", began.elapsed());
        let (own, others) = survey.sources.split_last().unwrap();
        assert_eq!(own.coverage.as_str(), "complete", "{at}: {own:?}");
        assert_eq!(survey.sessions.len(), 2, "{at}: only the good one gives verdicts");
        for (source, (act, _)) in others.iter().zip(bad.iter().chain(&worse)) {
            let act = format!("{act:?}").chars().take(60).collect::<String>();
            assert!(matches!(source.coverage.as_str(), "failed" | "timed-out"), "{at} {act}: {source:?}");
            let words = source.error.clone().unwrap();
            assert!(words.len() > 8 && !words.contains('\u{1b}'), "{at} {act}: {words}");
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

/// The approvals need a second connection. Without it the list still works, and reports what it cannot know.
#[test]
fn who_runs_still_runs_when_the_approvals_are_not_heard() {
    let second_connection = |act: Act| {
        let ledger = busy_ledger();
        ScriptedGateway::start(move |step| match step {
            Step::Request { method: "connect", params } if params["scopes"][0] == "operator.admin" => {
                act.clone()
            }
            other => ledger.answer(other),
        })
    };
    let mut gateways: Vec<ScriptedGateway> =
        manners().into_iter().map(|act| misbehaving("exec.approval.list", act)).collect();
    gateways.extend([Act::Silence, Act::Cut, Act::Close(1008, "no".into())].map(second_connection));
    let roots: Vec<_> = gateways.iter().map(root).collect();
    // Each gateway gets most of this for its approvals, before any is given up on.
    let survey = fleet(roots, Duration::from_secs(12)).survey(&everything());
    for source in &survey.sources {
        assert_eq!((source.coverage.as_str(), source.sessions), ("complete", Some(2)), "{source:?}");
        let warning = &source.warnings[0];
        assert!(warning.starts_with("who is at work may be waiting for an approval: "), "{source:?}");
    }
    assert!(survey.sessions.iter().all(|one| one.session.status == Status::Running));
    let evidence = session(&survey, "agent:main:x").unwrap().evidence[0].fact.to_string();
    assert!(evidence.contains("its approvals were not looked at"), "{evidence}");
    assert_eq!(
        fleet(vec![root(&misbehaving("nothing", Act::Cut))], PATIENT).survey(&everything()).sources[0]
            .warnings,
        [""; 0]
    );
}
