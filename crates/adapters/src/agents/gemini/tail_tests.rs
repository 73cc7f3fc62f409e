use super::*;
use crate::transcript::read::read_back;

fn at(second: u8) -> String {
    format!("2026-11-15T07:00:{second:02}Z")
}

fn header(second: u8) -> String {
    format!(
        r#"{{"sessionId":"s","projectHash":"h","startTime":"{0}","lastUpdated":"{0}","kind":"main"}}"#,
        at(second)
    )
}

fn user(id: &str, second: u8) -> String {
    format!(r#"{{"id":"{id}","timestamp":"{}","type":"user","content":[{{"text":"do {id}"}}]}}"#, at(second))
}

fn gemini(id: &str, second: u8, text: &str, more: &str) -> String {
    format!(
        r#"{{"id":"{id}","timestamp":"{}","type":"gemini","content":"{text}","model":"m"{more}}}"#,
        at(second)
    )
}

fn set(messages: &[String], second: u8) -> String {
    format!(r#"{{"$set":{{"messages":[{}],"lastUpdated":"{}"}}}}"#, messages.join(","), at(second))
}

fn context() -> String {
    format!(
        r#"{{"id":"c","timestamp":"{}","type":"user","content":[{{"text":"<session_context>x"}}]}}"#,
        at(0)
    )
}

fn done(second: u8) -> String {
    format!(
        r#","toolCalls":[{{"name":"sh","args":{{"command":"ls"}},"status":"success","timestamp":"{}"}}]"#,
        at(second)
    )
}

fn tail(lines: &[String]) -> Tail {
    let bytes = lines.join("\n") + "\n";
    let mut tail = Tail::default();
    read_back(&mut tail, (bytes.as_bytes(), bytes.len() as u64)).unwrap();
    tail.finish();
    tail
}

fn state(lines: &[String]) -> Option<TurnState> {
    tail(lines).latest.turn.map(|turn| turn.state)
}

fn begun() -> Vec<String> {
    vec![header(0), set(&[context()], 0)]
}

fn and(mut lines: Vec<String>, more: &[String]) -> Vec<String> {
    lines.extend_from_slice(more);
    lines
}

#[test]
fn the_last_message_in_replay_speaks_for_the_turn() {
    let one = user("a", 1);
    let answer =
        r#"{"id":"t","timestamp":"2026-11-15T07:00:03Z","type":"user","content":[{"functionResponse":{}}]}"#;
    let cases = [
        (begun(), None),
        (and(begun(), std::slice::from_ref(&one)), Some(TurnState::Open)),
        (and(begun(), &[one.clone(), gemini("b", 2, "", "")]), Some(TurnState::Open)),
        (
            and(begun(), &[one.clone(), gemini("b", 2, "", ""), gemini("b", 2, "", &done(3))]),
            Some(TurnState::Open),
        ),
        (and(begun(), &[one.clone(), gemini("b", 2, "", &done(3)), answer.into()]), Some(TurnState::Open)),
        (and(begun(), &[one.clone(), gemini("b", 2, "hi", "")]), Some(TurnState::Finished)),
        // An old message that is written again keeps its position.
        (
            and(
                begun(),
                &[one.clone(), gemini("b", 2, "hi", ""), user("d", 4), gemini("b", 2, "hi", &done(3))],
            ),
            Some(TurnState::Open),
        ),
    ];
    for (lines, expected) in cases {
        assert_eq!(state(&lines), expected, "{lines:#?}");
    }
}

#[test]
fn a_prompt_that_was_taken_back_failed() {
    let first = and(begun(), &[user("a", 1), set(&[context()], 2)]);
    let turn = tail(&first).latest.turn.unwrap();
    assert_eq!((turn.state, turn.last.unwrap().to_string()), (TurnState::Failed, at(2)));
    assert!(turn.detail.is_some());
    let kept = [context(), user("a", 1), gemini("b", 2, "hi", "")];
    let later = and(begun(), &[user("a", 1), gemini("b", 2, "hi", ""), user("d", 3), set(&kept, 4)]);
    assert_eq!(state(&later), Some(TurnState::Failed));
    assert_eq!(tail(&later).latest.last_message.as_deref(), Some("hi"));
}

#[test]
fn taking_a_session_up_again_takes_nothing_back_and_ages_no_turn() {
    // The agent was killed with the turn open and then opened again, which rewrites its messages with new
    // times.
    let rewritten = set(&[context(), user("a", 30)], 30);
    let opened = [header(30), set(&[context()], 30), r#"{"$set":{"sessionId":"s"}}"#.to_owned(), rewritten];
    let turn = tail(&and(and(begun(), &[user("a", 1)]), &opened)).latest.turn.unwrap();
    assert_eq!((turn.state, turn.last.unwrap().to_string()), (TurnState::Open, at(1)));
    let without_header = and(and(begun(), &[user("a", 1), gemini("b", 2, "hi", "")]), &opened[2..]);
    assert_eq!(state(&without_header), Some(TurnState::Finished));
    // A load that drops everything is not a rollback either.
    let wiped =
        and(and(begun(), &[user("a", 1), gemini("b", 2, "hi", "")]), &[header(30), set(&[context()], 30)]);
    assert_eq!(state(&wiped), Some(TurnState::Finished));
}

#[test]
fn a_rewind_takes_back_what_came_after() {
    let lines = and(
        begun(),
        &[
            user("a", 1),
            gemini("b", 2, "kept", ""),
            user("d", 3),
            gemini("e", 4, "gone", ""),
            r#"{"$rewindTo":"d"}"#.to_owned(),
        ],
    );
    let read = tail(&lines);
    assert_eq!(read.latest.turn.unwrap().state, TurnState::Finished);
    assert_eq!(read.latest.last_message.as_deref(), Some("kept"));
    let all = and(begun(), &[user("a", 1), r#"{"$rewindTo":"unknown"}"#.to_owned()]);
    let read = tail(&all);
    assert!(read.latest.turn.is_none() && read.has_content);
}

#[test]
fn a_finished_conversation_that_was_compacted_is_still_finished() {
    let summary = [user("s1", 5), gemini("s2", 5, "Got it.", "")];
    let read = tail(&[header(0), user("u", 1), gemini("g", 2, "done", ""), set(&summary, 5)]);
    assert_eq!(read.latest.turn.map(|turn| turn.state), Some(TurnState::Finished));
    assert_eq!(read.latest.last_message.as_deref(), Some("done"));
}

#[test]
fn a_conversation_that_stands_only_in_a_rewrite_is_one() {
    let whole = [context(), user("u", 1), gemini("g", 2, "done", "")];
    let read = tail(&[header(0), set(&whole, 3)]);
    assert!(read.has_content);
    assert_eq!(read.latest.turn.map(|turn| turn.state), Some(TurnState::Finished));
    assert_eq!(
        (read.latest.last_message.as_deref(), read.latest.model.as_deref()),
        (Some("done"), Some("m"))
    );
    let read = tail(&[header(0), set(&whole, 3), user("v", 4)]);
    assert_eq!(read.latest.turn.map(|turn| turn.state), Some(TurnState::Open));
    assert_eq!(read.latest.last_message.as_deref(), Some("done"));
    assert!(!tail(&[header(0), set(&[context()], 3)]).has_content, "a context is none");
}
