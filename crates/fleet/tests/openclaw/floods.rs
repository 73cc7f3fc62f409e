//! Gateways that send too much: nothing of it accumulates here, and what is left out is reported.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentctl_testkit::agents::openclaw::{Act, Ledger, ScriptedGateway, Step, frame};
use serde_json::{Value, json};

use super::hostile::{busy_ledger, misbehaving, misbehaving_over_tls};
use super::{everything, fleet, root, secure_root, session};

const PATIENT: Duration = Duration::from_mins(5);
const KEY: &str = "agent:main:x";

/// The peak memory of this process in KiB; `None` if the kernel does not report it.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.split_whitespace().next()?.parse().ok()
}

/// A gateway with one session, whose list or conversation is this payload.
fn telling(at: &'static str, payload: impl Fn(u64) -> Value + Send + Sync + 'static) -> ScriptedGateway {
    let row = json!({"key": KEY, "hasActiveRun": false, "workspaceDir": "/w"});
    let ledger = Ledger { rows: vec![row], ..Ledger::default() };
    ScriptedGateway::start(move |step| match step {
        Step::Request { method, params } if method == at => {
            Act::Proper(payload(params["offset"].as_u64().unwrap_or(0)))
        }
        other => ledger.answer(other),
    })
}

#[test]
fn a_flood_is_not_kept_in_memory() {
    let before = peak();
    let part = frame(0x00, &vec![b'x'; 64 << 10]);
    for (gateway, root) in [
        (misbehaving("connect", Act::Huge(50 << 20)), root as fn(&ScriptedGateway) -> _),
        (misbehaving("sessions.list", Act::Huge(50 << 20)), root),
        (misbehaving("sessions.list", Act::Forever(part.clone())), root),
        (misbehaving_over_tls("sessions.list", Act::Huge(50 << 20)), secure_root),
        (misbehaving_over_tls("sessions.list", Act::Forever(part)), secure_root),
    ] {
        let survey = fleet(vec![root(&gateway)], PATIENT).survey(&everything());
        let error = survey.sources[0].error.as_deref().unwrap_or_default();
        assert!(error.contains("bytes is too large"), "{:?}", survey.sources[0]);
    }
    let (Some(before), Some(after)) = (before, peak()) else { return };
    assert!(after - before < 100 << 10, "{} KiB more", after - before);
}

#[test]
fn what_would_weigh_much_more_than_it_is_long_is_refused() {
    let gateway = telling("sessions.list", |_| json!({"sessions": vec![0; 2 << 20]}));
    let survey = fleet(vec![root(&gateway)], PATIENT).survey(&everything());
    let error = survey.sources[0].error.as_deref().unwrap_or_default();
    assert!(error.contains("values is too large"), "{error}");
    let deep =
        format!(r#"{{"type":"res","id":"2","ok":true,"payload":{}{}}}"#, "[".repeat(9000), "]".repeat(9000));
    let survey =
        fleet(vec![root(&misbehaving("sessions.list", Act::Say(deep)))], PATIENT).survey(&everything());
    let error = survey.sources[0].error.as_deref().unwrap_or_default();
    assert!(error.contains("sessions.list: not understood"), "{error}");
}

#[test]
fn of_a_list_without_an_end_the_beginning_is_told() {
    let gateway = telling("sessions.list", |offset| {
        let rows = [json!({"key": format!("k{offset}"), "hasActiveRun": false, "workspaceDir": "/w"})];
        json!({"sessions": rows, "hasMore": true, "nextOffset": offset + 1, "totalCount": 1_000_000})
    });
    let survey = fleet(vec![root(&gateway)], PATIENT).survey(&everything());
    let source = &survey.sources[0];
    assert_eq!((source.coverage.as_str(), source.sessions), ("partial", Some(100)), "{source:?}");
    assert!(source.warnings[0].contains("all after 100 session(s) was left out"), "{source:?}");

    // There are few pages, but each of them is full.
    let asked = AtomicUsize::new(0);
    let gateway = telling("sessions.list", move |offset| {
        asked.fetch_add(1, Ordering::Relaxed);
        let rows =
            [json!({"key": format!("k{offset}"), "hasActiveRun": false, "more": "x".repeat(12 << 20)})];
        assert!(asked.load(Ordering::Relaxed) < 10, "it goes on asking");
        json!({"sessions": rows, "hasMore": true, "nextOffset": offset + 1})
    });
    let survey = fleet(vec![root(&gateway)], PATIENT).survey(&everything());
    let source = &survey.sources[0];
    assert_eq!((source.coverage.as_str(), source.sessions), ("partial", Some(6)), "{source:?}");
}

#[test]
fn a_list_that_stands_still_is_no_list() {
    let gateway = telling("sessions.list", |_| json!({"sessions": [], "hasMore": true, "nextOffset": 0}));
    let survey = fleet(vec![root(&gateway)], PATIENT).survey(&everything());
    assert_eq!(
        survey.sources[0].error.as_deref(),
        Some("sessions.list: not understood: the list has no end")
    );
}

#[test]
fn cron_jobs_without_an_end_are_no_reason_to_call_anybody_ended() {
    let ledger = busy_ledger();
    let gateway = ScriptedGateway::start(move |step| match step {
        Step::Request { method: "cron.list", params } => {
            let next = params["offset"].as_u64().unwrap_or(0) + 1;
            Act::Proper(json!({"jobs": [{"id": format!("j{next}")}], "hasMore": true, "nextOffset": next}))
        }
        other => ledger.answer(other),
    });
    let survey = fleet(vec![root(&gateway)], PATIENT).survey(&everything());
    assert_eq!(survey.sources[0].coverage.as_str(), "partial", "{:?}", survey.sources[0]);
    assert!(survey.sources[0].warnings[0].contains("the cron jobs: the list has no end in sight"));
}

#[test]
fn a_conversation_without_an_end_has_a_last_message_and_no_totals() {
    let usage = json!({"input": 1, "output": 1, "cost": {"total": 1.0}});
    let one = move |words: &str, offset: u64| json!({"role": "assistant", "content": words, "usage": usage, "__openclaw": {"id": offset.to_string()}});
    let small = {
        let one = one.clone();
        telling(
            "chat.history",
            move |offset| json!({"messages": [one(&format!("answer {offset}"), offset)], "hasMore": true, "nextOffset": offset + 1}),
        )
    };
    let large = telling("chat.history", move |offset| {
        let words = format!("answer {offset} {}", "x".repeat(12 << 20));
        json!({"messages": [one(&words, offset)], "hasMore": true, "nextOffset": offset + 1})
    });
    let before = peak();
    for gateway in [&small, &large] {
        let survey = fleet(vec![root(gateway)], PATIENT).survey(&everything());
        assert_eq!(survey.sources[0].coverage.as_str(), "complete", "{:?}", survey.sources[0]);
        assert!(
            survey.sources[0].warnings[0].contains("too long to be read whole"),
            "{:?}",
            survey.sources[0]
        );
        let told = session(&survey, KEY).unwrap();
        assert!(told.last_message.as_deref().unwrap().starts_with("answer 0"));
        assert_eq!((&told.prompt, told.tokens, told.cost), (&None, None, None));
    }
    let (Some(before), Some(after)) = (before, peak()) else { return };
    // Server and client are one process here: one page exists several times, but never two pages at once.
    assert!(after - before < 250 << 10, "{} KiB more", after - before);
}
