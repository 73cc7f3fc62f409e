use super::*;
use crate::transcript::read::read_back;

fn record(kind: &str, second: i64, more: &str) -> String {
    let more = if more.is_empty() { String::new() } else { format!(",{more}") };
    format!(r#"{{"type":"{kind}","agentId":"main"{more},"time":{}}}"#, 1_794_700_000_000 + second * 1000)
}

fn looped(kind: &str, second: i64, more: &str) -> String {
    record("context.append_loop_event", second, &format!(r#""event":{{"type":"{kind}",{more}}}"#))
}

fn tail(lines: &[String]) -> Tail {
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    let mut tail = Tail::default();
    read_back(&mut tail, (text.as_bytes(), text.len() as u64)).unwrap();
    tail
}

fn state(lines: &[String]) -> TurnState {
    tail(lines).latest.turn.map_or(TurnState::NotBegun, |turn| turn.state)
}

fn begun() -> Vec<String> {
    vec![
        r#"{"type":"metadata","protocol_version":"1.5","created_at":1794700000000}"#.to_owned(),
        record(
            "turn.prompt",
            1,
            r#""input":[{"type":"text","text":"do it"}],"origin":{"kind":"user"},"turnId":0"#,
        ),
        record("llm.request", 2, r#""kind":"loop","model":"m-large","modelAlias":"m""#),
    ]
}

fn calling() -> Vec<String> {
    let call = looped("tool.call", 3, r#""toolCallId":"c1","name":"Bash","args":{"command":"make test"}"#);
    and(begun(), &[call])
}

fn and(mut lines: Vec<String>, more: &[String]) -> Vec<String> {
    lines.extend_from_slice(more);
    lines
}

fn ended(reason: &str) -> String {
    record("turn.ended", 9, &format!(r#""turnId":0,"reason":"{reason}""#))
}

#[test]
fn records_speak_for_the_turn() {
    let over =
        |reason: &str| record("prompt.completed", 10, &format!(r#""promptId":"p","reason":"{reason}""#));
    let cases = [
        (begun()[..1].to_vec(), TurnState::NotBegun),
        (begun(), TurnState::Open),
        (calling(), TurnState::Open),
        (and(begun(), &[ended("completed")]), TurnState::Finished),
        (and(begun(), &[ended("completed"), over("completed")]), TurnState::Finished),
        (and(calling(), &[ended("cancelled"), record("prompt.aborted", 10, "")]), TurnState::Interrupted),
        (and(begun(), &[ended("failed"), over("failed")]), TurnState::Failed),
        (and(begun(), &[ended("blocked")]), TurnState::Failed),
        (and(begun(), &[ended("brand-new")]), TurnState::Ended),
        // The prompt is over, but the end of its turn is missing.
        (and(begun(), &[over("failed")]), TurnState::Failed),
        (and(begun(), &[record("prompt.aborted", 10, "")]), TurnState::Interrupted),
        // The next turn.
        (and(and(begun(), &[ended("failed"), over("failed")]), &begun()[1..]), TurnState::Open),
        // Records written at startup are not a turn.
        (and(and(begun(), &[ended("completed")]), &[record("profile.bind", 20, "")]), TurnState::Finished),
        (and(and(begun(), &[ended("completed")]), &[record("forked", 20, "")]), TurnState::NotBegun),
        (and(calling(), &[record("forked", 20, "")]), TurnState::NotBegun),
    ];
    for (lines, expected) in cases {
        assert_eq!(state(&lines), expected, "{lines:#?}");
    }
}

#[test]
fn an_approval_and_a_question_wait_until_they_are_answered() {
    let asked = record(
        "interaction.request",
        5,
        r#""id":"i1","kind":"approval","request":{"toolName":"Bash","action":"Running: rm","display":{"command":"rm -rf build"}}"#,
    );
    let waiting = tail(&and(calling(), std::slice::from_ref(&asked))).latest.turn.unwrap();
    assert_eq!((waiting.state, waiting.detail.as_deref()), (TurnState::Approval, Some("Bash: rm -rf build")));
    let answer = record("interaction.resolved", 6, r#""id":"i1","response":{"decision":"approved"}"#);
    let running = tail(&and(calling(), &[asked.clone(), answer])).latest.turn.unwrap();
    assert_eq!((running.state, running.detail.as_deref()), (TurnState::Open, Some("Bash: make test")));
    assert_eq!(running.last, crate::agents::kimi::state::moment(1_794_700_006_000));
    let question = asked.replace("approval", "question").replace(
        r#""toolName":"Bash""#,
        r#""questions":[{"question":"Which colour?"}],"toolName":"AskUserQuestion""#,
    );
    let asking = tail(&and(begun(), &[question])).latest.turn.unwrap();
    assert_eq!((asking.state, asking.detail.as_deref()), (TurnState::Question, Some("Which colour?")));
    assert_eq!(state(&and(calling(), &[asked, ended("cancelled")])), TurnState::Interrupted);
}

#[test]
fn the_error_the_words_and_the_model_are_told() {
    let spoken = looped("content.part", 4, r#""part":{"type":"text","text":"I see."}"#);
    let thought = looped("content.part", 5, r#""part":{"type":"think","think":"hm","text":"hm"}"#);
    let result = looped("tool.result", 6, r#""toolCallId":"c1","result":{"output":"ok"}"#);
    let failed = record(
        "turn.ended",
        7,
        r#""turnId":0,"reason":"failed","error":{"code":"provider.api_error","message":"400 no"}"#,
    );
    let tail = tail(&and(calling(), &[spoken, thought, result, failed]));
    let turn = tail.latest.turn.unwrap();
    assert_eq!((turn.state, turn.detail.as_deref()), (TurnState::Failed, Some("400 no")));
    assert_eq!(turn.began, crate::agents::kimi::state::moment(1_794_700_001_000));
    assert_eq!(
        (tail.latest.last_message.as_deref(), tail.latest.model.as_deref()),
        (Some("I see."), Some("m-large"))
    );
}

#[test]
fn an_unknown_record_is_drift_and_half_a_line_at_the_end_says_nothing() {
    let lines = and(begun(), &[record("brand_new.thing", 4, ""), r#"{"type":"turn.en"#.into()]);
    let tail = tail(&lines);
    assert_eq!(tail.latest.drift.get("brand_new.thing"), Some(&1));
    assert_eq!(tail.latest.turn.unwrap().state, TurnState::Open);
}
