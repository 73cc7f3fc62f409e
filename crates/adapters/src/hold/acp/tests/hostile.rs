//! An agent that breaks the rules. (One that never answers is found by the deadline of whoever owns the pipes.)

use proptest::prelude::*;

use super::*;
use crate::hold::lines::LONGEST;

#[test]
fn what_is_not_a_message_is_skipped() {
    let mut scene = Scene::open(unknown());
    for line in [
        &b"Loading...\n"[..],
        b"\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"[{\"id\":3}]\n",
        b"null\n",
        b"{\n",
        b"{}\n",
        b"{\"id\":null,\"error\":{}}\n",
        b"{\"id\":3}\n",
        b"{\"id\":{},\"result\":1}\n",
        b"{\"method\":7}\n",
        b"{\"method\":\"session/update\",\"params\":[]}\n",
        b"{\"id\":1,\"id\":2,\"result\":{}}\n",
    ] {
        assert_eq!(scene.acp.hear(line), Step::default(), "{}", String::from_utf8_lossy(line));
    }
    let deep = format!("{}1{}\n", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(scene.acp.hear(deep.as_bytes()), Step::default());
    assert_eq!(scene.sends("go").said, [Said::TurnOpened]);
}

#[test]
fn a_line_that_is_too_long_is_dropped_and_the_turn_goes_on() {
    let mut scene = Scene::working(unknown());
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..=(LONGEST >> 20) {
        assert_eq!(scene.acp.hear(&piece), Step::default());
    }
    assert_eq!(scene.acp.hear(b"\n"), Step::default());
    assert_eq!(scene.hears(&json!({"id": 3, "result": {}})).said, [ended()]);
}

#[test]
fn a_long_list_of_commands_is_only_read_past() {
    let mut scene = Scene::open(unknown());
    scene.sends("go");
    let commands = vec![json!({"name": "x".repeat(1000)}); 20_000];
    let list = json!({"sessionUpdate": "available_commands_update", "availableCommands": commands});
    assert_eq!(scene.updates(&list), Step::default());
}

#[test]
fn requests_that_are_not_offered_are_answered_so() {
    let mut scene = Scene::working(unknown());
    for method in ["fs/read_text_file", "terminal/create", "craft/drainMidTurnQueue", "x"] {
        let answer = &frames(&scene.hears(&json!({"id": "r", "method": method})))[0];
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("r"), &json!(-32601)), "{method}");
    }
    assert_eq!(scene.hears(&json!({"method": "_auth/status_update", "params": {}})), Step::default());
    let answer = &frames(
        &scene.hears(&json!({"id": 1, "method": "session/request_permission", "params": {"options": 3}})),
    )[0];
    assert_eq!(answer["error"]["code"], -32602);
}

#[test]
fn responses_that_nobody_asked_for_change_nothing() {
    let mut scene = Scene::started(unknown(), opening());
    assert_eq!(scene.hears(&json!({"id": 2, "result": {"sessionId": "x"}})), Step::default());
    scene.greets(&json!({"protocolVersion": 1}));
    assert_eq!(scene.greets(&json!({"protocolVersion": 2})), Step::default(), "the same id again");
    scene.hears(&json!({"id": 2, "result": {"sessionId": SESSION}}));
    assert_eq!(scene.hears(&json!({"id": 2, "result": {"sessionId": "x"}})), Step::default());
    scene.sends("go");
    assert_eq!(scene.hears(&json!({"id": "3", "result": {}})), Step::default(), "another type of id");
    assert_eq!(scene.hears(&json!({"id": 4, "result": {}})), Step::default());
    let end = json!({"id": 3, "result": {}});
    assert_eq!(scene.hears(&end).said.len(), 2);
    assert_eq!(scene.hears(&end), Step::default(), "a turn ends once");
    assert_eq!(scene.acp.state().session.as_deref(), Some(SESSION));
}

#[test]
fn updates_before_the_session_and_after_the_turn_are_no_harm() {
    let mut scene = Scene::started(unknown(), opening());
    scene.greets(&json!({"protocolVersion": 1}));
    assert_eq!(scene.chunk(), Step::default());
    scene.hears(&json!({"id": 2, "result": {"sessionId": SESSION}}));
    scene.sends("go");
    scene.hears(&json!({"id": 3, "result": {}}));
    assert_eq!(scene.chunk(), Step::default());
    assert!(!scene.acp.state().turn_open);
    // A request can come at any time.
    scene.asks(0, &json!({"toolCallId": "a"}), &json!([]));
    assert_eq!(scene.pending(), ["0:a"]);
}

#[test]
fn another_session_on_the_same_line_is_not_ours() {
    let mut scene = Scene::open(unknown());
    scene.sends("go");
    let update = json!({"sessionUpdate": "agent_message_chunk"});
    let other = json!({"method": "session/update", "params": {"sessionId": "other", "update": update}});
    assert_eq!(scene.hears(&other), Step::default());
    assert_eq!(
        scene.hears(&json!({"method": "session/update", "params": {"update": update}})),
        Step::default()
    );
    let params = json!({"sessionId": "other", "toolCall": {"toolCallId": "a"}, "options": [{"optionId": "x", "kind": "allow_once"}]});
    let step = scene.hears(&json!({"id": 5, "method": "session/request_permission", "params": params}));
    assert_eq!(frames(&step)[0]["result"], json!({"outcome": {"outcome": "cancelled"}}));
    let step =
        scene.hears(&json!({"id": 6, "method": "elicitation/create", "params": {"sessionId": "other"}}));
    assert_eq!(frames(&step)[0]["result"], json!({"action": "cancel"}));
    assert_eq!((step.said, scene.pending()), (vec![], vec![]));
}

#[test]
fn requests_and_messages_that_wait_are_bounded() {
    let mut scene = Scene::working(unknown());
    for id in 0..100 {
        scene.asks(id, &json!({"toolCallId": "a"}), &json!([]));
    }
    assert_eq!(scene.pending().len(), 64);
    let step = scene.asks(100, &json!({"toolCallId": "a"}), &json!([]));
    assert_eq!(frames(&step)[0]["result"], json!({"outcome": {"outcome": "cancelled"}}));

    let mut scene = Scene::working(unknown());
    let long = "x".repeat(LONGEST / 2);
    scene.asks(0, &json!({"toolCallId": "a", "title": long}), &json!([]));
    scene.asks(1, &json!({"toolCallId": "b", "title": format!("{long}x")}), &json!([]));
    assert_eq!(scene.pending(), ["0:a"]);

    let mut scene = Scene::working(unknown());
    for _ in 0..64 {
        assert_eq!(scene.sends("more"), Step::default());
    }
    assert!(refusal(&scene.sends("more")).contains("send it later"));
}

#[test]
fn parts_of_another_shape_do_not_hide_a_request() {
    let mut scene = Scene::working(unknown());
    let call = json!({"toolCallId": "a", "title": "Run", "content": "text", "locations": {}, "_meta": 3, "rawInput": [1]});
    scene.asks(
        0,
        &call,
        &json!([{"optionId": "x"}, {"optionId": "y", "kind": "allow_forever"}, {"kind": "allow_once"}]),
    );
    let asked = &scene.acp.state().pending[0];
    assert_eq!((asked.summary.as_deref(), asked.options.len()), (Some("Run\n[1]"), 2));
    assert!(refusal(&scene.answers("0:a", Decision::AllowOnce)).contains("only: x; y"));
}

/// Anything that could be said, of a shape that is nearly right.
fn message() -> impl Strategy<Value = Value> {
    let id = prop_oneof![Just(json!(null)), (0u64..8).prop_map(|id| json!(id)), Just(json!("a"))];
    let method = prop_oneof![
        Just(None),
        Just(Some("session/update")),
        Just(Some("session/request_permission")),
        Just(Some("elicitation/create")),
        Just(Some("craft/drainMidTurnQueue")),
        Just(Some("$/cancel_request")),
        Just(Some("other")),
    ];
    let params = prop_oneof![
        Just(json!(null)),
        Just(json!({"sessionId": SESSION, "update": {"sessionUpdate": "agent_message_chunk"}})),
        Just(
            json!({"sessionId": SESSION, "update": {"sessionUpdate": "tool_call", "toolCallId": "a", "status": "failed"}})
        ),
        Just(
            json!({"sessionId": SESSION, "toolCall": {"toolCallId": "a"}, "options": [{"optionId": "x", "kind": "allow_once"}]})
        ),
        (0u64..4).prop_map(|id| json!({"sessionId": "other", "requestId": id})),
    ];
    let result = prop_oneof![
        Just(None),
        Just(Some(json!(null))),
        Just(Some(json!({"stopReason": "cancelled", "sessionId": SESSION, "protocolVersion": 1}))),
    ];
    (id, method, params, result, any::<bool>()).prop_map(|(id, method, params, result, fails)| {
        let mut message = json!({"id": id, "params": params});
        if let Some(method) = method {
            message["method"] = json!(method);
        }
        if let Some(result) = result {
            message["result"] = result;
        }
        if fails {
            message["error"] = json!({"code": -32600, "message": "no"});
        }
        message
    })
}

proptest! {
    /// Whatever is said, each ticket is accepted or refused at most once, turns open and end in alternation, a request
    /// is gone at most once after it was asked, and what was said adds up to the state.
    #[test]
    fn what_is_said_adds_up(deeds in proptest::collection::vec((message(), 0u8..12), 1..60)) {
        let mut scene = Scene::open(agent::CODEX_ACP);
        let mut said = Vec::new();
        for (message, deed) in deeds {
            let step = match deed {
                0 => scene.sends("go"),
                1 => scene.tells(Verb::Interrupt),
                2 => match scene.pending().pop() {
                    Some(request) => scene.answers(&request, Decision::AllowOnce),
                    None => scene.sends("more"),
                },
                _ => scene.hears(&message),
            };
            frames(&step);
            said.extend(step.said);
        }
        let mut open = false;
        let mut pending = Vec::new();
        let mut settled = std::collections::HashSet::new();
        for one in said {
            match one {
                Said::TurnOpened => prop_assert!(!std::mem::replace(&mut open, true)),
                Said::TurnEnded(_) => prop_assert!(std::mem::replace(&mut open, false)),
                Said::Asked(request) => pending.push(request.id),
                Said::Gone { request } => {
                    let at = pending.iter().position(|id| *id == request);
                    prop_assert!(at.is_some(), "{} was never asked", request);
                    pending.remove(at.unwrap_or_default());
                }
                Said::Accepted { ticket, .. } | Said::Refused { ticket, .. } => prop_assert!(settled.insert(ticket)),
                Said::Ready { .. } | Said::Lost { .. } => prop_assert!(false, "{:?}", one),
            }
        }
        let state = scene.acp.state();
        prop_assert_eq!((open, pending), (state.turn_open, scene.pending()));
    }
}
