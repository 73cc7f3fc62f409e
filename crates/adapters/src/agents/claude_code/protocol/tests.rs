use agentctl_model::{OptionKind, PendingKind};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::hold::replay::{Recorded, Replay, covers, frames, recording};
use crate::hold::{Protocol, Verb};

const RECORDINGS: [&str; 9] = [
    "01-basic-permission",
    "02-questions-queue-interrupt",
    "03-plan-steer-hooks-elicit",
    "04-resume-after-eof",
    "05-resume-after-kill",
    "06-no-prompt-tool",
    "07-plan-elicit",
    "08-latency-hooks",
    "09-eof-mid-tool",
];

/// Replays a recording. What the recorded holder did and no verb can say is left to it, as if somebody else had done it.
fn replayed(name: &str, cuts: &[usize]) -> String {
    let lines = recording(&format!("claude/{name}.jsonl"));
    let argv: Vec<&str> = lines[0].line.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let session = argv.iter().position(|one| ["--session-id", "--resume"].contains(one)).unwrap() + 1;
    let mut replay = Replay::new(StreamJson::new(argv[session], "n"), cuts);
    replay.names.insert("\"i1\"".to_owned(), "\"open\"".to_owned());
    for (index, Recorded { dir, line }) in lines.iter().enumerate() {
        match dir.as_str() {
            "<" => replay.hear(line),
            ">" => {
                let Some(verb) = verb(line, &replay) else { continue };
                let written = replay.tell(verb);
                if let [frame] = written.as_slice() {
                    rename(&mut replay, line, frame, &lines[index..]);
                    assert!(covers(frame, line), "{name}: {frame} instead of {line}");
                } else {
                    assert!(replay.told.ends_with("no longer waits for this\" }\n"), "{name}: {line}");
                }
            }
            _ => {}
        }
    }
    replay.told
}

fn verb(line: &Value, replay: &Replay<StreamJson>) -> Option<Verb> {
    if line["type"] == "user" {
        let words = line["message"]["content"][0]["text"].as_str()?.to_owned();
        return Some(Verb::Send { words, as_command: false });
    }
    if line["request"]["subtype"] == "interrupt" {
        return Some(Verb::Interrupt);
    }
    let response = &line["response"]["response"];
    let decision = match (response["behavior"].as_str(), response["action"].as_str()) {
        (Some("deny"), _) if response.get("interrupt").is_none() => {
            Decision::Deny { reason: response["message"].as_str().map(str::to_owned) }
        }
        (Some("allow"), _) => match (&response["updatedInput"]["answers"], &response["updatedPermissions"]) {
            (Value::Object(answers), _) => Decision::Text(answers.values().next()?.as_str()?.to_owned()),
            (_, Value::Array(updates)) if updates[0]["type"] == "addRules" => Decision::AllowAlways,
            (_, Value::Array(_)) => return None,
            _ => Decision::AllowOnce,
        },
        (_, Some("accept")) => Decision::Text(response["content"]["name"].as_str()?.to_owned()),
        _ => return None,
    };
    let id = line["response"]["request_id"].as_str()?;
    let request = replay.pending(id).unwrap_or_else(|| id.to_owned());
    Some(Verb::Answer { request, decision })
}

/// The recorded agent speaks of the ids of its own holder. A message that had none is known by its replay.
fn rename(replay: &mut Replay<StreamJson>, line: &Value, frame: &Value, later: &[Recorded]) {
    let text = |line: &Value| line["message"]["content"][0]["text"].clone();
    let is_replay =
        |one: &&Recorded| one.dir == "<" && one.line["isReplay"] == true && text(&one.line) == text(line);
    let recorded = line["uuid"].as_str().or_else(|| later.iter().find(is_replay)?.line["uuid"].as_str());
    if line["type"] == "user" {
        if let Some(recorded) = recorded {
            replay.names.insert(recorded.to_owned(), frame["uuid"].as_str().unwrap().to_owned());
        }
    } else if let Some(id) = line["request_id"].as_str() {
        replay.names.insert(format!("{id:?}"), frame["request_id"].to_string());
    }
}

#[test]
fn recordings_are_understood() {
    for name in RECORDINGS {
        insta::assert_snapshot!(format!("claude-{name}"), replayed(name, &[]));
    }
}

#[test]
fn every_byte_alone_gives_the_same() {
    for name in RECORDINGS {
        assert!(replayed(name, &[1]) == replayed(name, &[]), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn every_cut_gives_the_same(cuts in proptest::collection::vec(1usize..3000, 1..20)) {
        for name in RECORDINGS {
            prop_assert!(replayed(name, &cuts) == replayed(name, &[]), "{}", name);
        }
    }
}

/// A machine in a turn that works on the message with ticket 1.
fn at_work() -> StreamJson {
    let mut machine = StreamJson::new("s", "n");
    machine.open();
    machine.tell(Ticket(1), say("go"));
    let uuid = machine.uuid(Ticket(1));
    hear(&mut machine, &json!({"type": "command_lifecycle", "command_uuid": uuid, "state": "started"}));
    hear(&mut machine, &json!({"type": "system", "subtype": "init", "session_id": "s"}));
    machine
}

fn hear(machine: &mut StreamJson, frame: &Value) -> Step {
    machine.hear(format!("{frame}\n").as_bytes())
}

fn say(words: &str) -> Verb {
    Verb::Send { words: words.to_owned(), as_command: false }
}

fn asks(request_id: &str, call: &str, tool: &str, input: &Value) -> Value {
    json!({"type": "control_request", "request_id": request_id, "request": {
        "subtype": "can_use_tool", "tool_name": tool, "input": input, "tool_use_id": call,
        "permission_suggestions": [],
    }})
}

fn answer(request: &str, decision: Decision) -> Verb {
    Verb::Answer { request: request.to_owned(), decision }
}

fn echo(step: &Step) -> Value {
    frames(step).remove(0)
}

fn refusal(step: &Step) -> &str {
    match step.said.as_slice() {
        [Said::Refused { reason, .. }] if step.write.is_empty() => reason,
        other => panic!("not refused: {other:?}"),
    }
}

fn denied() -> Decision {
    Decision::Deny { reason: None }
}

#[test]
fn an_answer_counts_once_and_only_for_what_waits() {
    let mut machine = at_work();
    hear(&mut machine, &asks("r1", "c1", "Bash", &json!({"command": "ls"})));
    hear(&mut machine, &asks("r2", "c2", "Bash", &json!({"command": "rm x"})));
    assert_eq!(machine.state().pending.len(), 2);
    let taken = machine.tell(Ticket(2), answer("r2:c2", denied()));
    assert_eq!(taken.said, [], "the agent has not confirmed it");
    refusal(&machine.tell(Ticket(3), answer("r2:c2", Decision::AllowOnce)));
    let confirmed = hear(&mut machine, &echo(&taken)).said;
    let gone = Said::Gone { request: "r2:c2".to_owned() };
    assert_eq!(confirmed, [Said::Accepted { ticket: Ticket(2), how: Acceptance::Answered }, gone]);
    refusal(&machine.tell(Ticket(4), answer("r2:c2", Decision::AllowOnce)));
    refusal(&machine.tell(Ticket(5), answer("r9:c9", Decision::AllowOnce)));
    refusal(&machine.tell(Ticket(6), answer("r1", Decision::AllowOnce)));
    assert_eq!(machine.state().pending[0].id, "r1:c1");
    let unasked = json!({"type": "control_response", "response": {"subtype": "success", "request_id": "r1"}});
    assert_eq!(hear(&mut machine, &unasked).said, [], "nobody answered r1");
    let result = json!([{"type": "tool_result", "tool_use_id": "c1"}]);
    let done = json!({"type": "user", "message": {"role": "user", "content": result}});
    assert_eq!(hear(&mut machine, &done).said, [Said::Gone { request: "r1:c1".to_owned() }]);
}

#[test]
fn a_withdrawn_request_takes_its_answer_with_it() {
    let mut machine = at_work();
    hear(&mut machine, &asks("r1", "c1", "Bash", &json!({"command": "ls"})));
    machine.tell(Ticket(2), answer("r1:c1", Decision::AllowOnce));
    machine.tell(Ticket(3), Verb::Interrupt);
    let said = hear(&mut machine, &json!({"type": "control_cancel_request", "request_id": "r1"})).said;
    assert!(matches!(&said[0], Said::Refused { ticket: Ticket(2), .. }), "{said:?}");
    assert_eq!(said[1..], [Said::Gone { request: "r1:c1".to_owned() }]);
    let done = json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": "interrupt-3", "response": {"still_queued": ["a", "b"]}}});
    let how = Acceptance::Interrupted { was_open: true, still_queued: 2 };
    assert_eq!(hear(&mut machine, &done).said, [], "the turn is still open");
    let aborted = json!({"type": "result", "is_error": true, "terminal_reason": "aborted_tools"});
    assert_eq!(
        hear(&mut machine, &aborted).said,
        [Said::TurnEnded(TurnEnd::Interrupted), Said::Accepted { ticket: Ticket(3), how }]
    );
    machine.tell(Ticket(4), Verb::Interrupt);
    let refused = json!({"type": "control_response", "response": {
        "subtype": "error", "request_id": "interrupt-4", "error": "not now"}});
    assert_eq!(refusal(&hear(&mut machine, &refused)), "not now");
}

/// A restarted agent may count its requests anew; its calls never repeat.
#[test]
fn an_id_that_is_used_again_is_another_request() {
    let id = |call: &str| {
        let step = hear(&mut at_work(), &asks("1", call, "Bash", &json!({})));
        match step.said.into_iter().next() {
            Some(Said::Asked(request)) => request.id,
            other => panic!("{other:?}"),
        }
    };
    assert_ne!(id("c1"), id("c2"));
    let mut machine = at_work();
    hear(&mut machine, &asks("1", "c1", "Bash", &json!({})));
    assert_eq!(hear(&mut machine, &asks("1", "c1", "Bash", &json!({}))).said, [], "repeated");
    assert_ne!(StreamJson::new("s", "n").uuid(Ticket(1)), StreamJson::new("s", "m").uuid(Ticket(1)));
}

#[test]
fn a_message_behind_the_work_is_queued_and_one_that_opens_the_turn_is_not() {
    let moves = |machine: &mut StreamJson, ticket, state| {
        let uuid = machine.uuid(Ticket(ticket));
        hear(machine, &json!({"type": "command_lifecycle", "command_uuid": uuid, "state": state})).said
    };
    let mut machine = StreamJson::new("s", "n");
    machine.tell(Ticket(1), say("go"));
    let running = json!({"type": "system", "subtype": "session_state_changed", "state": "running"});
    assert_eq!(hear(&mut machine, &running).said, [Said::TurnOpened]);
    assert_eq!(moves(&mut machine, 1, "queued"), [], "it opens the turn");
    let now = |ticket| Said::Accepted { ticket: Ticket(ticket), how: Acceptance::Now };
    assert_eq!(moves(&mut machine, 1, "started"), [now(1)]);
    machine.tell(Ticket(2), say("and this"));
    assert_eq!(moves(&mut machine, 2, "queued"), [], "the agent may yet take both at once");
    let init = json!({"type": "system", "subtype": "init", "session_id": "s"});
    let queued = |ticket| Said::Accepted { ticket: Ticket(ticket), how: Acceptance::Queued };
    assert_eq!(hear(&mut machine, &init).said, [Said::Ready { session: "s".to_owned() }, queued(2)]);
    machine.tell(Ticket(3), say("and that"));
    assert_eq!(moves(&mut machine, 3, "queued"), [queued(3)]);
    assert_eq!(machine.state().queued, 2);
    assert_eq!(moves(&mut machine, 2, "started"), []);
    assert_eq!(moves(&mut machine, 3, "cancelled"), []);
    assert_eq!(machine.state().queued, 0);
    machine.tell(Ticket(4), say("dropped"));
    assert!(matches!(moves(&mut machine, 4, "cancelled")[..], [Said::Refused { .. }]));
    machine.tell(Ticket(5), say("nobody waits"));
    assert!(!machine.withdraw(Ticket(5)), "the agent has it");
    assert_eq!(moves(&mut machine, 5, "queued"), []);
    assert_eq!(machine.state().queued, 1);
}

#[test]
fn words_stay_words() {
    let mut machine = at_work();
    let mut text = |words: &str, as_command| {
        let step = machine.tell(Ticket(9), Verb::Send { words: words.to_owned(), as_command });
        frames(&step).first().map(|frame| frame["message"]["content"][0]["text"].as_str().unwrap().to_owned())
    };
    assert_eq!(text("/clear all", false).as_deref(), Some(" /clear all"));
    assert_eq!(text("/clear all", true).as_deref(), Some("/clear all"));
    assert_eq!(text("!ls", false).as_deref(), Some("!ls"));
    assert_eq!(text("#note", false).as_deref(), Some("#note"));
    assert_eq!(text(" @/etc/hosts", false), None);
    assert_eq!(text("@/etc/hosts", true).as_deref(), Some("@/etc/hosts"));
    assert_eq!(text(" \n", false), None);
    assert_eq!(text("a\nb\u{2028}\u{1b}", false).as_deref(), Some("a\nb\u{2028}\u{1b}"));
}

#[test]
fn garbage_is_skipped_and_requests_nobody_knows_get_a_response() {
    let mut machine = at_work();
    let before = machine.state();
    for garbage in [
        "not json",
        "[]",
        "{}",
        "7",
        "\"x\"",
        "{\"type\":7}",
        "{\"type\":\"result\",\"errors\":1}",
        "\u{0}\u{1}",
    ] {
        assert_eq!(machine.hear(format!("{garbage}\n").as_bytes()), Step::default(), "{garbage}");
    }
    assert_eq!(machine.hear(b"\xff\xfe\n"), Step::default());
    assert_eq!(hear(&mut machine, &json!({"type": "brand_new", "request_id": "r"})), Step::default());
    let mut long = vec![b'x'; (64 << 20) + 1];
    long.push(b'\n');
    assert_eq!(machine.hear(&long), Step::default());
    assert_eq!(machine.state(), before);
    for request in
        [json!({"subtype": "hook_callback"}), json!({}), json!({"subtype": "can_use_tool"}), json!(1)]
    {
        let asked = json!({"type": "control_request", "request_id": "r", "request": request});
        let step = hear(&mut machine, &asked);
        assert_eq!(frames(&step)[0]["response"]["subtype"], "error");
        assert_eq!(frames(&step)[0]["response"]["request_id"], "r");
        assert_eq!(step.said, []);
    }
}

#[test]
fn a_request_is_told_whole_and_always_stays_in_the_session() {
    let mut machine = at_work();
    let mut asked = |input: &Value, tool: &str, suggested: &Value| {
        let mut frame = asks("r", &format!("c-{tool}"), tool, input);
        frame["request"]["permission_suggestions"] = suggested.clone();
        hear(&mut machine, &frame);
        let request = machine.state().pending.pop().unwrap();
        let always = machine.tell(Ticket(7), answer(&request.id, Decision::AllowAlways));
        (request, always)
    };
    let rule = json!({"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "rm x"}],
        "behavior": "allow", "destination": "localSettings"});
    let mode = json!({"type": "setMode", "mode": "acceptEdits", "destination": "projectSettings"});
    let bypass = json!({"type": "setMode", "mode": "bypassPermissions", "destination": "session"});
    let input = json!({"command": "rm x", "timeout": 5, "description": "harmless", "sandbox": false});
    let (request, always) = asked(&input, "Bash", &json!([rule, mode]));
    assert_eq!(request.summary.as_deref(), Some("Bash: rm x\nsandbox: false"));
    assert_eq!(request.options[1].label, "Allow for this session: Bash(rm x)");
    let updates = &frames(&always)[0]["response"]["response"]["updatedPermissions"];
    assert_eq!((updates.as_array().unwrap().len(), &updates[0]["destination"]), (1, &json!("session")));
    let (request, always) =
        asked(&json!({"file_path": "/f", "new_string": "x"}), "Edit", &json!([mode, bypass]));
    assert_eq!(request.summary.as_deref(), Some("Edit: /f\nnew_string: x"));
    let updates = &frames(&always)[0]["response"]["response"]["updatedPermissions"];
    assert_eq!(updates, &json!([{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]));
    let (request, always) = asked(&json!({}), "ExitPlanMode", &json!([bypass]));
    let kinds: Vec<OptionKind> = request.options.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [OptionKind::AllowOnce, OptionKind::Deny]);
    refusal(&always);
    refusal(&machine.tell(Ticket(8), answer(&request.id, Decision::Text("yes".to_owned()))));
}

#[test]
fn questions_are_answered_line_by_line_and_forms_by_their_field() {
    let mut machine = at_work();
    let ask = |question: &str| json!({"question": question, "options": [{"label": "A"}, {"label": "B"}]});
    hear(&mut machine, &asks("r", "c", "AskUserQuestion", &json!({"questions": [ask("One?"), ask("Two?")]})));
    let request = machine.state().pending.remove(0);
    assert_eq!(request.kind, PendingKind::Question);
    assert_eq!(request.summary.as_deref(), Some("One?\n- A\n- B\nTwo?\n- A\n- B"));
    refusal(&machine.tell(Ticket(2), answer("r:c", Decision::AllowOnce)));
    refusal(&machine.tell(Ticket(3), answer("r:c", Decision::Text("A".to_owned()))));
    let answered = machine.tell(Ticket(4), answer("r:c", Decision::Text("A\nnone of them".to_owned())));
    let input = &frames(&answered)[0]["response"]["response"]["updatedInput"];
    assert_eq!(input["answers"], json!({"One?": "A", "Two?": "none of them"}));
    assert_eq!(input["questions"].as_array().unwrap().len(), 2);

    let form = |properties: Value, text: &str| {
        let mut machine = at_work();
        hear(
            &mut machine,
            &json!({"type": "control_request", "request_id": "e", "request": {
            "subtype": "elicitation", "mcp_server_name": "lab", "message": "Say", "requested_schema": {
            "type": "object", "properties": properties}}}),
        );
        let step = machine.tell(Ticket(2), answer("e", Decision::Text(text.to_owned())));
        frames(&step).first().map(|frame| frame["response"]["response"]["content"].clone())
    };
    assert_eq!(form(json!({"n": {"type": "string"}}), "Ann"), Some(json!({"n": "Ann"})));
    assert_eq!(form(json!({"n": {"type": "integer"}}), " 7 "), Some(json!({"n": 7})));
    assert_eq!(form(json!({"n": {"type": "integer"}}), "seven"), None);
    assert_eq!(form(json!({"n": {"type": "boolean"}}), "no"), Some(json!({"n": false})));
    assert_eq!(form(json!({"n": {"type": "string", "enum": ["a"]}}), "b"), None);
    assert_eq!(form(json!({"n": {"type": "string"}, "m": {"type": "string"}}), "x"), None);
    assert_eq!(form(json!({}), "x"), None);
}

#[test]
fn a_failed_turn_says_why() {
    let end = |outcome: Value| hear(&mut at_work(), &outcome).said;
    let failed = |words: &str| [Said::TurnEnded(TurnEnd::Failed { words: words.to_owned() })];
    let outcome =
        json!({"type": "result", "subtype": "success", "is_error": true, "result": "API Error: 400"});
    assert_eq!(end(outcome), failed("API Error: 400"));
    let outcome =
        json!({"type": "result", "subtype": "error_max_turns", "is_error": true, "errors": ["too long"]});
    assert_eq!(end(outcome), failed("too long"));
    let outcome = json!({"type": "result", "subtype": "error_max_turns", "is_error": true});
    assert_eq!(end(outcome), failed("error_max_turns"));
    let idle = json!({"type": "system", "subtype": "session_state_changed", "state": "idle"});
    assert_eq!(end(idle), [Said::TurnEnded(TurnEnd::Ended)]);
}
