//! Every request has its own deadline, whatever the gateway does meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentctl_adapters::agents::openclaw::{GatewayClient, GatewayError, Watch};
use agentctl_adapters::feed::FeedMessage;
use agentctl_adapters::{Feed, Root};
use agentctl_testkit::agents::openclaw::{Act, Ledger, ScriptedGateway, Step, frame};
use agentctl_testkit::until;
use serde_json::json;

use super::hostile::{misbehaving, misbehaving_over_tls};
use super::{everything, fleet, root, secure_root};

const TIMEOUT: Duration = Duration::from_millis(300);
/// The machine may be busy; a record that trickles to its end would take a minute and a half.
const BOUND: Duration = Duration::from_secs(20);

/// Ways to be busy forever without ever answering.
fn evasions() -> Vec<Act> {
    vec![
        Act::Silence,
        Act::Trickle(Duration::from_millis(5)),
        Act::Forever(frame(0x89, b"are you there")),
        Act::Forever(frame(0x8a, b"")),
        Act::Forever(frame(0x81, br#"{"type":"res","id":"another","ok":true,"payload":{}}"#)),
        Act::Forever(frame(0x81, br#"{"type":"event","event":"tick","payload":{}}"#)),
        // These are fragments of a message that never grows.
        Act::Forever(frame(0x00, b"")),
    ]
}

fn gateway(root: &Root) -> GatewayClient {
    GatewayClient::of(root).unwrap().with_timeout(TIMEOUT)
}

#[test]
fn a_question_ends_near_its_patience_however_busy_the_gateway_is() {
    for at in ["connect", "chat.abort"] {
        for act in evasions() {
            let plain = misbehaving(at, act.clone());
            let secure = misbehaving_over_tls(at, act.clone());
            for root in [root(&plain), secure_root(&secure)] {
                let began = Instant::now();
                let error = gateway(&root).stop("k").unwrap_err();
                assert!(matches!(error, GatewayError::Silent { .. }), "{at} {act:?}: {error:?}");
                assert!(began.elapsed() < BOUND, "{at} {act:?} at {root:?}: {:?}", began.elapsed());
            }
        }
    }
}

#[test]
fn one_who_listens_comes_back_in_time_though_bytes_trickle_in() {
    let act = Act::Then(json!({"subscribed": true}), Box::new(Act::Trickle(Duration::from_millis(5))));
    let plain = misbehaving("sessions.subscribe", act.clone());
    let secure = misbehaving_over_tls("sessions.subscribe", act);
    for root in [root(&plain), secure_root(&secure)] {
        let mut watch = Watch::new(GatewayClient::of(&root).unwrap());
        assert_eq!(watch.next(TIMEOUT).unwrap(), FeedMessage::Changed, "it connects");
        for _ in 0..3 {
            let began = Instant::now();
            assert_eq!(watch.next(TIMEOUT).unwrap(), FeedMessage::Nothing);
            assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
        }
    }
}

#[test]
fn a_socket_that_dies_ends_the_question_at_once() {
    let dying = misbehaving("chat.abort", Act::Cut);
    let gateway = GatewayClient::of(&root(&dying)).unwrap().with_timeout(Duration::from_mins(5));
    let began = Instant::now();
    assert!(matches!(gateway.stop("k").unwrap_err(), GatewayError::Lost { .. }));
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
}

/// A source that was given up on has a thread that is no longer awaited: it must stop asking.
#[test]
fn who_was_given_up_is_not_asked_on_for_nobody() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let gateway = ScriptedGateway::start(move |step| match step {
        Step::Request { method: "sessions.list", params } => {
            count.fetch_add(1, Ordering::Relaxed);
            // This is too slow for the callers, and fast enough to be asked forever.
            std::thread::sleep(Duration::from_millis(150));
            let next = params["offset"].as_u64().unwrap_or(0) + 1;
            Act::Proper(json!({"sessions": [], "hasMore": true, "nextOffset": next}))
        }
        other => Ledger::default().answer(other),
    });
    let survey = fleet(vec![root(&gateway)], Duration::from_millis(100)).survey(&everything());
    assert_eq!(survey.sources[0].coverage.as_str(), "timed-out");
    until(BOUND, "the connection is let go", || (gateway.standing() == 0).then_some(()));
    assert!(asked.load(Ordering::Relaxed) < 50, "{asked:?} pages of a hundred");
}
