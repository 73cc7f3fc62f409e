use super::*;
use crate::transcript::read::read_back;

fn record(kind: &str, second: u8, more: &str) -> String {
    format!(
        r#"{{"uuid":"u{second}","sessionId":"s","timestamp":"2026-11-15T07:00:{second:02}Z","type":"{kind}","cwd":"/w","version":"0.24.4"{more}}}"#
    )
}

fn tail(records: &[String]) -> Tail {
    let bytes = records.join("\n") + "\n";
    let mut tail = Tail::default();
    read_back(&mut tail, (bytes.as_bytes(), bytes.len() as u64)).unwrap();
    tail
}

fn prompt() -> String {
    record("user", 1, r#","message":{"parts":[{"text":"do it"}]}"#)
}

fn call() -> String {
    record(
        "assistant",
        2,
        r#","model":"m","message":{"parts":[{"functionCall":{"name":"run_shell_command","args":{"command":"make  test"}}}]}"#,
    )
}

fn result(second: u8, status: &str) -> String {
    record("tool_result", second, &format!(r#","toolCallResult":{{"status":"{status}"}}"#))
}

fn words() -> String {
    record(
        "assistant",
        5,
        r#","model":"m","message":{"parts":[{"text":"hm","thought":true},{"text":"done"}]}"#,
    )
}

fn event(second: u8, name: &str, prompt_id: &str) -> String {
    record(
        "system",
        second,
        &format!(
            r#","subtype":"ui_telemetry","systemPayload":{{"uiEvent":{{"event.name":"qwen-code.{name}","prompt_id":"{prompt_id}","error_message":"400 no"}}}}"#
        ),
    )
}

fn turn_result(state: &str) -> String {
    record(
        "system",
        9,
        &format!(r#","subtype":"turn_result","systemPayload":{{"promptId":"p","state":"{state}"}}"#),
    )
}

const MAIN: &str = "s########0";

#[test]
fn records_speak_for_the_turn() {
    let error = || event(6, "api_error", MAIN);
    let cases = [
        (vec![prompt()], TurnState::Open),
        (vec![prompt(), call()], TurnState::Open),
        (vec![prompt(), call(), result(3, "success")], TurnState::Open),
        (vec![prompt(), call(), result(3, "cancelled")], TurnState::Interrupted),
        (vec![prompt(), call(), result(3, "success"), result(4, "cancelled")], TurnState::Open),
        (vec![prompt(), words()], TurnState::Finished),
        (vec![prompt(), error()], TurnState::Failed),
        (vec![prompt(), call(), result(3, "success"), error()], TurnState::Failed),
        (vec![prompt(), words(), error()], TurnState::Finished),
        (vec![prompt(), event(6, "api_error", "s#managed-auto-memory-extractor-1#0")], TurnState::Open),
        (vec![prompt(), error(), words()], TurnState::Finished),
        (vec![prompt(), event(6, "api_cancel", MAIN)], TurnState::Interrupted),
        (vec![prompt(), words(), prompt()], TurnState::Open),
        (vec![prompt(), words(), turn_result("error")], TurnState::Failed),
        (vec![prompt(), call(), turn_result("cancelled")], TurnState::Interrupted),
        (vec![prompt(), words(), record("system", 9, r#","subtype":"rewind""#)], TurnState::Ended),
    ];
    for (records, expected) in cases {
        assert_eq!(tail(&records).latest.turn.expect("a turn").state, expected, "{records:#?}");
    }
}

#[test]
fn a_refusal_for_a_quota_is_a_limit_without_an_end() {
    let limit = |code: &str| {
        let event = event(6, "api_error", MAIN)
            .replace(r#""error_message""#, &format!(r#""status_code":{code},"error_message""#));
        tail(&[prompt(), event]).latest.turn.unwrap().limit
    };
    assert_eq!(limit("429"), Some(Limit::default()));
    assert_eq!(limit("500"), None);
}

#[test]
fn the_end_says_more_than_the_turn() {
    let title =
        record("system", 7, r#","subtype":"custom_title","systemPayload":{"customTitle":"my title"}"#);
    let tail = tail(&[prompt(), words(), title, record("brand_new", 8, "")]);
    assert_eq!(tail.latest.last_message.as_deref(), Some("done"));
    assert_eq!((tail.title.as_deref(), tail.latest.model.as_deref()), (Some("my title"), Some("m")));
    assert_eq!(tail.latest.updated_at.unwrap().to_string(), "2026-11-15T07:00:08Z");
    assert_eq!(tail.latest.drift.get("brand_new"), Some(&1));
}

#[test]
fn an_open_call_is_named_and_a_question_waits() {
    let turn = tail(&[prompt(), call()]).latest.turn.unwrap();
    assert_eq!(turn.detail.as_deref(), Some("run_shell_command: make  test"));
    let question = call().replace("run_shell_command", "ask_user_question");
    assert_eq!(tail(&[prompt(), question]).latest.turn.unwrap().state, TurnState::Question);
}
