use super::*;
use crate::transcript::read::read_back;

fn event(kind: &str, second: u8, data: &str) -> String {
    format!(
        r#"{{"type":"{kind}","data":{{{data}}},"id":"e{second}","timestamp":"2026-11-15T07:00:{second:02}Z"}}"#
    )
}

fn tail(events: &[String]) -> Tail {
    let bytes = events.join("\n") + "\n";
    let mut tail = Tail::default();
    read_back(&mut tail, (bytes.as_bytes(), bytes.len() as u64)).unwrap();
    tail
}

fn state(events: &[String]) -> TurnState {
    tail(events).latest.turn.expect("a turn").state
}

fn begun() -> Vec<String> {
    vec![
        event("session.start", 0, r#""selectedModel":"m1","context":{"cwd":"/w","branch":"main"}"#),
        event("user.message", 1, r#""content":"do it""#),
        event("assistant.turn_start", 2, r#""turnId":"0""#),
    ]
}

fn calling() -> Vec<String> {
    let mut events = begun();
    events.push(event(
        "assistant.message",
        3,
        r#""content":"","model":"m2","toolRequests":[{"toolCallId":"t","name":"bash"}]"#,
    ));
    events.push(event(
        "tool.execution_start",
        4,
        r#""toolCallId":"t","toolName":"bash","arguments":{"command":"make test"}"#,
    ));
    events
}

fn and(mut events: Vec<String>, more: &[String]) -> Vec<String> {
    events.extend_from_slice(more);
    events
}

#[test]
fn events_speak_for_the_turn() {
    let spoken = event("assistant.message", 5, r#""content":"done","model":"m2","toolRequests":[]"#);
    let done = event("tool.execution_complete", 5, r#""toolCallId":"t","success":true"#);
    let end = event("assistant.turn_end", 6, "");
    let off = event("session.shutdown", 9, r#""shutdownType":"routine","currentModel":"m2""#);
    let error = event("session.error", 7, r#""message":"400 no""#);
    let cases = [
        (begun()[..1].to_vec(), TurnState::NotBegun),
        (begun()[..2].to_vec(), TurnState::Open),
        (begun(), TurnState::Open),
        (calling(), TurnState::Open),
        (and(calling(), std::slice::from_ref(&done)), TurnState::Open),
        // The pause between two model calls of one turn does not end the turn.
        (and(calling(), &[done.clone(), end.clone()]), TurnState::Open),
        (
            and(calling(), &[done.clone(), event("session.task_complete", 6, ""), end.clone()]),
            TurnState::Finished,
        ),
        (and(begun(), &[spoken.clone(), end.clone()]), TurnState::Finished),
        (and(begun(), &[spoken.clone(), end.clone(), off.clone()]), TurnState::Finished),
        (and(begun(), &[end.clone(), error.clone()]), TurnState::Failed),
        (and(begun(), &[end.clone(), error.clone(), off.clone()]), TurnState::Failed),
        (and(begun(), &[error.clone(), end.clone()]), TurnState::Failed),
        (and(begun(), &[end.clone(), error, event("user.message", 8, "")]), TurnState::Open),
        (and(calling(), &[event("abort", 6, r#""reason":"user_initiated""#)]), TurnState::Interrupted),
        (and(calling(), std::slice::from_ref(&off)), TurnState::Interrupted),
        (
            and(begun(), &[event("session.shutdown", 9, r#""shutdownType":"error","errorReason":"boom""#)]),
            TurnState::Failed,
        ),
        (and(calling(), &[event("session.resume", 30, "")]), TurnState::Open),
    ];
    for (events, expected) in cases {
        assert_eq!(state(&events), expected, "{events:#?}");
    }
}

#[test]
fn an_approval_and_a_question_wait_until_they_are_answered() {
    let asked = event(
        "permission.requested",
        5,
        r#""requestId":"r","permissionRequest":{"kind":"shell","fullCommandText":"rm -rf build"}"#,
    );
    let waiting = tail(&and(calling(), std::slice::from_ref(&asked))).latest.turn.unwrap();
    assert_eq!(waiting.state, TurnState::Approval);
    assert_eq!(waiting.detail.as_deref(), Some("shell: rm -rf build"));
    assert_eq!(waiting.last.unwrap().to_string(), "2026-11-15T07:00:05Z");
    let answered = and(calling(), &[asked, event("permission.completed", 6, r#""requestId":"r""#)]);
    let running = tail(&answered).latest.turn.unwrap();
    assert_eq!((running.state, running.detail.as_deref()), (TurnState::Open, Some("bash: make test")));
    let mut question = calling();
    question[4] = event(
        "tool.execution_start",
        4,
        r#""toolCallId":"t","toolName":"ask_user","arguments":{"question":"which?"}"#,
    );
    assert_eq!(state(&question), TurnState::Question);
}

#[test]
fn a_sub_agent_says_nothing_about_the_main_turn() {
    let mut events = calling();
    events.push(r#"{"type":"assistant.message","agentId":"a1","data":{"content":"sub","model":"m9"},"timestamp":"2026-11-15T07:00:05Z"}"#.into());
    events.push(
        r#"{"type":"assistant.turn_end","agentId":"a1","data":{},"timestamp":"2026-11-15T07:00:06Z"}"#.into(),
    );
    let tail = tail(&events);
    assert_eq!(tail.latest.turn.as_ref().unwrap().state, TurnState::Open);
    assert_eq!((tail.latest.model.as_deref(), tail.latest.last_message.as_deref()), (Some("m2"), None));
    assert_eq!((tail.directory.cwd.as_deref(), tail.directory.branch.as_deref()), (Some("/w"), Some("main")));
}

#[test]
fn an_unknown_event_is_drift_and_half_a_line_at_the_end_says_nothing() {
    let events = and(begun(), &[event("brand_new.thing", 4, ""), r#"{"type":"assis"#.into()]);
    let tail = tail(&events);
    assert_eq!(tail.latest.drift.get("brand_new.thing"), Some(&1));
    assert_eq!(tail.latest.turn.unwrap().state, TurnState::Open);
}

#[test]
fn a_later_process_that_closes_in_good_order_did_not_stop_the_turn_before_it() {
    let mut events = begun();
    events.push(event("session.resume", 5, r#""context":{"cwd":"/w"}"#));
    events.push(event("session.shutdown", 6, r#""shutdownType":"routine""#));
    assert_eq!(state(&events), TurnState::Open);
}
