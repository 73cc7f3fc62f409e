use super::*;

fn said(line: &str) -> Said {
    let record = Record::parse(line.as_bytes()).unwrap();
    let payload = record.payload();
    record.said(&payload)
}

fn event(payload: &str) -> Said {
    said(&format!(r#"{{"timestamp":"2026-11-15T07:00:37.390Z","type":"event_msg","payload":{payload}}}"#))
}

#[test]
fn old_and_new_messages_are_the_same_messages() {
    let new = |kind: &str| {
        format!(
            r#"{{"type":"item_completed","item":{{"type":"{kind}","content":[{{"type":"text","text":"hi"}}]}}}}"#
        )
    };
    assert_eq!(event(&new("UserMessage")), Said::Prompt("hi".into()));
    assert_eq!(event(&new("AgentMessage")), Said::Reply("hi".into()));
    assert_eq!(event(&new("CommandExecution")), Said::Work);
    assert_eq!(event(r#"{"type":"user_message","message":"hi"}"#), Said::Prompt("hi".into()));
    assert_eq!(event(r#"{"type":"agent_message","message":"hi"}"#), Said::Reply("hi".into()));
}

#[test]
fn a_turn_ends_in_three_ways() {
    let ended = |payload: &str| match event(payload) {
        Said::TurnEnded { state, detail, .. } => (state, detail),
        other => panic!("{other:?}"),
    };
    assert_eq!(ended(r#"{"type":"task_complete","error":null}"#), (TurnState::Finished, None));
    let failed = ended(r#"{"type":"task_complete","error":{"message":"no","codex_error_info":"other"}}"#);
    assert_eq!(failed, (TurnState::Failed, Some("no".into())));
    assert_eq!(ended(r#"{"type":"turn_aborted","reason":"interrupted"}"#).0, TurnState::Interrupted);
}

#[test]
fn an_overflow_mark_is_no_counter() {
    let count =
        |usage: &str| event(&format!(r#"{{"type":"token_count","info":{{"total_token_usage":{usage}}}}}"#));
    assert_eq!(count(r#"{"input_tokens":0,"output_tokens":0,"total_tokens":258400}"#), Said::Work);
    assert!(matches!(count(r#"{"input_tokens":5,"output_tokens":1,"total_tokens":6}"#), Said::Total { .. }));
    assert_eq!(event(r#"{"type":"token_count","info":null}"#), Said::Work);
}

#[test]
fn what_is_written_on_opening_a_thread_is_no_turn() {
    assert_eq!(event(r#"{"type":"thread_settings_applied"}"#), Said::Nothing);
    assert_eq!(said(r#"{"type":"world_state","payload":{}}"#), Said::Nothing);
    assert_eq!(event(r#"{"type":"brand_new"}"#), Said::Unknown("event_msg/brand_new".into()));
    assert_eq!(said(r#"{"type":"brand_new","payload":3}"#), Said::Unknown("brand_new".into()));
}

#[test]
fn a_call_is_told_as_it_was_made() {
    let call = |payload: &str| match said(&format!(r#"{{"type":"response_item","payload":{payload}}}"#)) {
        Said::Call { words, .. } => words,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        call(r#"{"type":"function_call","name":"exec_command","arguments":"{\"cmd\":\"sleep\\n 60\"}"}"#),
        "exec_command: sleep\n 60"
    );
    assert_eq!(
        call(r#"{"type":"function_call","name":"shell","arguments":"{\"command\":[\"ls\",\"-l\"]}"}"#),
        "shell: ls -l"
    );
    assert_eq!(
        call(r#"{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin"}"#),
        "apply_patch: *** Begin"
    );
}

#[test]
fn a_source_is_a_word_or_names_the_parent() {
    let source = |text: &str| {
        let line = format!(r#"{{"type":"session_meta","payload":{{"source":{text}}}}}"#);
        Record::parse(line.as_bytes()).unwrap().meta().unwrap().source()
    };
    assert_eq!(source("\"exec\"").name.as_deref(), Some("exec"));
    let spawned = source(r#"{"subagent":{"thread_spawn":{"parent_thread_id":"p","depth":1}}}"#);
    assert_eq!((spawned.is_subagent, spawned.parent.as_deref()), (true, Some("p")));
    assert_eq!(source(r#"{"subagent":"review"}"#).parent, None);
}

#[test]
fn only_exact_beginnings_are_bulk() {
    let bulk = |line: &str| beginning(line.as_bytes()).is_some_and(|it| it.is_bulk());
    let item = |kind: &str| {
        format!(
            r#"{{"timestamp":"t","ordinal":8,"type":"event_msg","payload":{{"type":"item_completed","thread_id":"a","item":{{"type":"{kind}","id":"#
        )
    };
    assert!(bulk(&item("CommandExecution")));
    assert!(!bulk(&item("AgentMessage")) && !bulk(&item("UserMessage")));
    assert!(bulk(r#"{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"user"}}"#));
    assert!(!bulk(r#"{"timestamp":"t","type":"response_item","payload":{"type":"function_call"}}"#));
    assert!(
        !bulk(r#"{ "timestamp":"t","type":"response_item","payload":{"type":"message"}}"#),
        "another spelling"
    );
    assert!(!bulk(
        r#"{"timestamp":"t","type":"event_msg","payload":{"type":"item_completed","item":{"type":"Agent"#
    ));
}

#[test]
fn instructions_are_cut_out_and_nothing_else() {
    let line = |text: &str| {
        format!(r#"{{"type":"session_meta","payload":{{"base_instructions":{{"text":"{text}"}},"id":"x"}}}}"#)
    };
    for text in ["", "plain", r#"a \"quoted\" word"#, r"ends with a backslash \\", r#"\\\" both"#] {
        assert_eq!(without_instructions(line(text).as_bytes()), line("").as_bytes(), "{text}");
    }
    for other in
        ["", r#"{"base_instructions":{"text":"never ends"#, r#"{"cwd":"\"base_instructions\":{\"text\":\""}"#]
    {
        assert_eq!(without_instructions(other.as_bytes()), other.as_bytes());
    }
}
