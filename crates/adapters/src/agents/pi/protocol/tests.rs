use agentctl_model::OptionKind::{self, AllowAlways, AllowOnce, Deny, Other};
use agentctl_model::PendingKind;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::hold::replay::{Recorded, Replay, covers, frames, recording};
use crate::hold::{Protocol, Verb};

const RECORDINGS: [&str; 2] = ["01-basic", "02-resume-extension"];

fn replayed(name: &str, cuts: &[usize]) -> String {
    let lines = recording(&format!("pi/{name}.jsonl"));
    let mut replay = Replay::new(Rpc::new(), cuts);
    replay.names.insert("\"a\"".to_owned(), format!("{STATE:?}"));
    for Recorded { dir, line } in &lines {
        match dir.as_str() {
            "<" => replay.hear(line),
            ">" => {
                let Some(verb) = verb(line) else { continue };
                let written = replay.tell(verb);
                let Some(frame) = written.iter().find(|one| one["type"] == line["type"] || is_send(line))
                else {
                    assert!(replay.told.ends_with("no longer waits for this\" }\n"), "{name}: {line}");
                    continue;
                };
                assert!(covers(frame, line), "{name}: {frame} instead of {line}");
                if let Some(id) = line["id"].as_str()
                    && line["type"] != "extension_ui_response"
                {
                    replay.names.insert(format!("\"id\":{id:?}"), format!("\"id\":{}", frame["id"]));
                }
            }
            _ => {}
        }
    }
    replay.told
}

fn is_send(line: &Value) -> bool {
    ["prompt", "steer", "follow_up"].iter().any(|kind| line["type"] == *kind)
}

/// What a verb can say. A message is always sent in the same way, whichever command the recorded holder chose.
fn verb(line: &Value) -> Option<Verb> {
    if is_send(line) {
        return Some(Verb::Send { words: line["message"].as_str()?.to_owned(), as_command: false });
    }
    match line["type"].as_str()? {
        "abort" => Some(Verb::Interrupt),
        "extension_ui_response" => {
            let decision = match line["value"].as_str() {
                Some("Allow") => Decision::AllowOnce,
                Some("Block") | None => Decision::Deny { reason: None },
                Some(other) => Decision::Text(other.to_owned()),
            };
            Some(Verb::Answer { request: line["id"].as_str()?.to_owned(), decision })
        }
        _ => None,
    }
}

#[test]
fn recordings_are_understood() {
    for name in RECORDINGS {
        insta::assert_snapshot!(format!("pi-{name}"), replayed(name, &[]));
    }
}

#[test]
fn every_byte_alone_gives_the_same() {
    for name in RECORDINGS {
        assert!(replayed(name, &[1]) == replayed(name, &[]), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn every_cut_gives_the_same(cuts in proptest::collection::vec(1usize..3000, 1..20)) {
        for name in RECORDINGS {
            prop_assert!(replayed(name, &cuts) == replayed(name, &[]), "{}", name);
        }
    }
}

fn hear(machine: &mut Rpc, frame: &Value) -> Step {
    machine.hear(format!("{frame}\n").as_bytes())
}

fn at_work() -> Rpc {
    let mut machine = Rpc::new();
    machine.open();
    hear(&mut machine, &json!({"type": "agent_start"}));
    machine
}

fn answer(request: &str, decision: Decision) -> Verb {
    Verb::Answer { request: request.to_owned(), decision }
}

fn no() -> Decision {
    Decision::Deny { reason: None }
}

fn text(words: &str) -> Decision {
    Decision::Text(words.to_owned())
}

fn asks(id: &str, method: &str) -> Value {
    json!({"type": "extension_ui_request", "id": id, "method": method, "title": "Really?"})
}

fn chooses(id: &str, labels: &[&str]) -> Value {
    let mut asks = asks(id, "select");
    asks["options"] = json!(labels);
    asks
}

fn responds(id: &str, data: &Value) -> Value {
    json!({"type": "response", "id": id, "success": true, "data": data})
}

fn refusal(step: &Step) -> &str {
    match step.said.as_slice() {
        [Said::Refused { reason, .. }] if step.write.is_empty() => reason,
        other => panic!("not refused: {other:?}"),
    }
}

fn gone(id: &str) -> Said {
    Said::Gone { request: id.to_owned() }
}

#[test]
fn an_answer_counts_once_and_only_for_what_waits() {
    let mut machine = at_work();
    hear(&mut machine, &asks("x", "confirm"));
    hear(&mut machine, &asks("y", "input"));
    let step = machine.tell(Ticket(1), answer("y", text("forty")));
    assert_eq!(step.said, [], "Pi has not read it");
    assert_eq!(frames(&step)[0], json!({"type": "extension_ui_response", "id": "y", "value": "forty"}));
    refusal(&machine.tell(Ticket(2), answer("y", text("fifty"))));
    let read = hear(&mut machine, &responds("answer-1", &json!({}))).said;
    assert_eq!(read, [Said::Accepted { ticket: Ticket(1), how: Acceptance::Answered }, gone("y")]);
    refusal(&machine.tell(Ticket(3), answer("y", text("fifty"))));
    refusal(&machine.tell(Ticket(4), answer("z", no())));
    refusal(&machine.tell(Ticket(5), answer("x", text("perhaps"))));
    let step = machine.tell(Ticket(6), answer("x", Decision::AllowOnce));
    assert_eq!(frames(&step)[0]["confirmed"], true);
    assert!(!machine.withdraw(Ticket(6)));
    assert_eq!(hear(&mut machine, &responds("answer-6", &json!({}))).said, [gone("x")]);
    let again = hear(&mut machine, &asks("x", "confirm")).said;
    assert!(matches!(again[..], [Said::Asked(_)]), "a new process may use an id again: {again:?}");
    assert_eq!(hear(&mut machine, &asks("x", "confirm")).said, [], "repeated");
    let step = machine.tell(Ticket(7), answer("x", no()));
    assert_eq!(frames(&step)[0]["confirmed"], false);
}

#[test]
fn only_words_without_doubt_make_an_approval() {
    let mut machine = at_work();
    hear(&mut machine, &chooses("a", &["Allow", "Always", "Block", "Edit"]));
    hear(&mut machine, &chooses("b", &["Allow it all", "Block"]));
    hear(&mut machine, &chooses("c", &["Allow", "Yes", "No"]));
    let pending = machine.state().pending;
    let kinds =
        |index: usize| -> Vec<OptionKind> { pending[index].options.iter().map(|one| one.kind).collect() };
    assert_eq!(
        (pending[0].kind, kinds(0)),
        (PendingKind::Approval, vec![AllowOnce, AllowAlways, Deny, Other])
    );
    assert_eq!((pending[1].kind, kinds(1)), (PendingKind::Question, vec![Other, Other, Deny]));
    assert_eq!(pending[1].summary.as_deref(), Some("Really?\n- Allow it all\n- Block"));
    refusal(&machine.tell(Ticket(1), answer("b", Decision::AllowOnce)));
    refusal(&machine.tell(Ticket(2), answer("b", text("Allow"))));
    refusal(&machine.tell(Ticket(3), answer("c", Decision::AllowOnce)));
    refusal(&machine.tell(Ticket(4), answer("c", Decision::AllowAlways)));
    let mut value = |ticket, request: &str, decision| {
        frames(&machine.tell(Ticket(ticket), answer(request, decision))).remove(0)
    };
    assert_eq!(value(5, "b", no())["cancelled"], true);
    assert_eq!(value(6, "a", Decision::AllowAlways)["value"], "Always");
    assert_eq!(value(7, "c", text("Yes"))["value"], "Yes");
}

/// Pi does not respond to an abort while a dialog is open.
#[test]
fn an_interrupt_closes_dialogs_first_and_those_that_cross_it() {
    let mut machine = at_work();
    hear(&mut machine, &asks("x", "confirm"));
    hear(&mut machine, &json!({"type": "queue_update", "steering": ["a"], "followUp": ["b", "c"]}));
    let step = machine.tell(Ticket(1), Verb::Interrupt);
    let kinds: Vec<Value> = frames(&step).iter().map(|one| one["type"].clone()).collect();
    assert_eq!(kinds, ["extension_ui_response", "abort"]);
    assert_eq!(frames(&step)[0]["cancelled"], true);
    assert_eq!(step.said, [gone("x")]);
    let crossing = hear(&mut machine, &asks("y", "confirm"));
    assert_eq!((crossing.said.len(), &frames(&crossing)[0]["cancelled"]), (0, &json!(true)));
    let settled = hear(&mut machine, &json!({"type": "agent_settled", "aborted": true})).said;
    assert_eq!(settled, [Said::TurnEnded(TurnEnd::Interrupted)]);
    let how = Acceptance::Interrupted { was_open: true, still_queued: 3 };
    let done = hear(&mut machine, &responds("interrupt-1", &Value::Null)).said;
    assert_eq!(done, [Said::Accepted { ticket: Ticket(1), how }]);
    assert!(matches!(hear(&mut machine, &asks("z", "confirm")).said[..], [Said::Asked(_)]));

    let mut late = at_work();
    late.tell(Ticket(1), Verb::Interrupt);
    hear(&mut late, &json!({"type": "agent_settled", "aborted": false}));
    let how = Acceptance::Interrupted { was_open: false, still_queued: 0 };
    let done = hear(&mut late, &responds("interrupt-1", &Value::Null)).said;
    assert_eq!(done, [Said::Accepted { ticket: Ticket(1), how }], "the turn had ended by itself");
}

/// Pi does not say that a dialog timed out or that its tool call went away.
#[test]
fn a_dialog_is_over_with_what_it_belongs_to() {
    let mut machine = at_work();
    hear(&mut machine, &json!({"type": "tool_execution_start", "toolCallId": "c1"}));
    hear(&mut machine, &asks("x", "confirm"));
    hear(&mut machine, &json!({"type": "tool_execution_start", "toolCallId": "c2"}));
    hear(&mut machine, &asks("y", "confirm"));
    assert_eq!(
        hear(&mut machine, &json!({"type": "tool_execution_end", "toolCallId": "c1"})).said,
        [gone("x")]
    );
    assert_eq!(
        hear(&mut machine, &json!({"type": "tool_execution_end", "toolCallId": "c2"})).said,
        [gone("y")]
    );
    let mut timed = asks("t", "input");
    timed["timeout"] = json!(5000);
    hear(&mut machine, &timed);
    hear(&mut machine, &asks("u", "input"));
    let settled = hear(&mut machine, &json!({"type": "agent_settled", "aborted": false})).said;
    assert_eq!(settled, [Said::TurnEnded(TurnEnd::Ended), gone("t")]);
    assert_eq!(machine.state().pending[0].id, "u", "an extension may ask beside the turn");
}

#[test]
fn a_message_is_accepted_as_pi_says_and_words_stay_words() {
    let mut machine = at_work();
    let mut sent = |ticket, words: &str, as_command| {
        let step = machine.tell(Ticket(ticket), Verb::Send { words: words.to_owned(), as_command });
        frames(&step).first().map(|frame| frame["message"].as_str().unwrap().to_owned())
    };
    assert_eq!(sent(1, "/skill:x", false).as_deref(), Some(" /skill:x"));
    assert_eq!(sent(2, "/skill:x", true).as_deref(), Some("/skill:x"));
    assert_eq!(sent(3, "!ls @f #g", false).as_deref(), Some("!ls @f #g"));
    assert_eq!(sent(4, "\t", false), None);
    let mut how = |ticket: u64, disposition: &str| {
        let data = json!({"disposition": disposition});
        hear(&mut machine, &responds(&format!("send-{ticket}"), &data))
    };
    let accepted = |ticket, how| [Said::Accepted { ticket: Ticket(ticket), how }];
    assert_eq!(how(1, "queued").said, accepted(1, Acceptance::Queued));
    let handled = how(2, "handled");
    assert_eq!(handled.said, accepted(2, Acceptance::Now));
    assert_eq!(frames(&handled)[0]["type"], "get_state", "a command may have changed the session");
    let ready = hear(&mut machine, &responds(STATE, &json!({"sessionId": "other"}))).said;
    assert_eq!(ready, [Said::Ready { session: "other".to_owned() }]);
    let refused = json!({"type": "response", "id": "send-3", "success": false, "error": "no model"});
    assert_eq!(refusal(&hear(&mut machine, &refused)), "no model");
}

#[test]
fn a_turn_fails_by_its_last_message() {
    let failed = |aborted| {
        let mut machine = at_work();
        let message = json!({"role": "assistant", "stopReason": "error", "errorMessage": "400 bad"});
        hear(&mut machine, &json!({"type": "message_end", "message": message}));
        hear(&mut machine, &json!({"type": "message_end", "message": {"role": "user"}}));
        hear(&mut machine, &json!({"type": "agent_settled", "aborted": aborted})).said
    };
    let words = "400 bad".to_owned();
    assert_eq!(failed(false), [Said::TurnEnded(TurnEnd::Failed { words })]);
    assert_eq!(failed(true), [Said::TurnEnded(TurnEnd::Interrupted)]);
}

#[test]
fn garbage_is_skipped() {
    let mut machine = at_work();
    hear(&mut machine, &asks("x", "confirm"));
    let before = machine.state();
    let notify = asks("n", "notify").to_string();
    for garbage in ["Warning: no", "[]", "{}", "{\"type\":[]}", "{\"type\":\"brand_new\"}", &notify] {
        assert_eq!(machine.hear(format!("{garbage}\r\n").as_bytes()), Step::default(), "{garbage}");
    }
    for kind in ["response", "extension_ui_request", "tool_execution_end", "message_end"] {
        assert_eq!(hear(&mut machine, &json!({"type": kind, "message": 1})), Step::default(), "{kind}");
    }
    let mut long = vec![b'x'; (64 << 20) + 1];
    long.push(b'\n');
    assert_eq!(machine.hear(&long), Step::default());
    assert_eq!(machine.hear(b"\xff\xfe\n"), Step::default());
    assert_eq!(machine.state(), before);
}
