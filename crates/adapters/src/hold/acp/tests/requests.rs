//! What the agent asks for and how it is answered.

use agentctl_model::PendingKind;

use super::*;

const REQUEST: &str = "0:call";

fn option(id: &str, kind: &str) -> Value {
    json!({"optionId": id, "name": format!("Do {id}"), "kind": kind})
}

/// A turn in which the agent asks for a permission with these options.
fn asking(agent: Agent, options: &[Value]) -> Scene {
    let mut scene = Scene::working(agent);
    let step = scene.asks(0, &json!({"toolCallId": "call", "title": "Run it"}), &json!(options));
    assert!(matches!(&step.said[..], [Said::Asked(request)] if request.id == REQUEST), "{:?}", step.said);
    scene
}

fn deny() -> Decision {
    Decision::Deny { reason: Some("no".into()) }
}

/// The option that a decision takes.
fn taken(agent: Agent, options: &[Value], decision: Decision) -> Value {
    let mut scene = asking(agent, options);
    let step = scene.answers(REQUEST, decision);
    assert_eq!(step.said, [gone(REQUEST)]);
    let mut frames = frames(&step);
    assert_eq!(frames[0]["id"], 0);
    frames[0]["result"]["outcome"].take()
}

fn selected(id: &str) -> Value {
    json!({"outcome": "selected", "optionId": id})
}

#[test]
fn a_decision_takes_an_option_by_its_kind() {
    let options = [option("p", "allow_always"), option("a", "allow_once"), option("r", "reject_once")];
    assert_eq!(taken(unknown(), &options, Decision::AllowOnce), selected("a"));
    assert_eq!(taken(unknown(), &options, deny()), selected("r"));
    let gemini = [option("proceed_always", "allow_always"), option("a", "allow_once")];
    assert_eq!(taken(agent::GEMINI, &gemini, Decision::AllowAlways), selected("proceed_always"));
    assert_eq!(taken(agent::GEMINI, &gemini, deny()), json!({"outcome": "cancelled"}));
    let kimi = [option("approve_always", "allow_always")];
    assert_eq!(taken(agent::KIMI, &kimi, Decision::AllowAlways), selected("approve_always"));
}

#[test]
fn an_option_that_also_changes_the_mode_is_not_taken() {
    let both =
        [option("proceed_once_and_switch_to_default", "allow_once"), option("proceed_once", "allow_once")];
    assert_eq!(taken(agent::QWEN, &both, Decision::AllowOnce), selected("proceed_once"));
    let step = asking(unknown(), &both).answers(REQUEST, Decision::AllowOnce);
    assert!(refusal(&step).contains("Do proceed_once_and_switch_to_default; Do proceed_once"), "a tie");
}

#[test]
fn what_reaches_further_than_the_session_is_refused() {
    let refused = |agent, options: &[Value], words: &str| {
        let mut scene = asking(agent, options);
        let step = scene.answers(REQUEST, Decision::AllowAlways);
        assert!(refusal(&step).contains(words), "{:?}", step.said);
        assert_eq!((step.write.len(), scene.pending()), (0, vec![REQUEST.to_owned()]), "it still waits");
    };
    let qwen =
        [option("proceed_always_user", "allow_always"), option("proceed_always_project", "allow_always")];
    refused(agent::QWEN, &qwen, "\"Do proceed_always_project\", which holds for the whole project");
    refused(agent::COPILOT, &[option("allow_always", "allow_always")], "may hold longer than the session");
    refused(
        unknown(),
        &[option("x", "allow_once")],
        "does not offer to allow it for the session, only: Do x",
    );
}

#[test]
fn a_request_is_answered_once_and_only_while_it_waits() {
    let mut scene = asking(unknown(), &[option("a", "allow_once")]);
    assert_eq!(refusal(&scene.answers("1:call", Decision::AllowOnce)), "the request no longer waits");
    assert!(refusal(&scene.answers(REQUEST, Decision::Text("yes".into()))).contains("allow it or deny it"));
    scene.answers(REQUEST, Decision::AllowOnce);
    assert_eq!(scene.pending(), Vec::<String>::new());
    assert_eq!(refusal(&scene.answers(REQUEST, Decision::AllowOnce)), "the request no longer waits");
}

#[test]
fn an_answer_is_taken_when_the_agent_goes_on() {
    let answered = [accepted(2, Acceptance::Answered)];
    let after = |message: &dyn Fn(&mut Scene) -> Step| {
        let mut scene = asking(unknown(), &[option("a", "allow_once")]);
        let echo = frames(&scene.answers(REQUEST, Decision::AllowOnce)).remove(1);
        assert_eq!((&echo["id"], &echo["method"]), (&json!(4), &json!("_agentctl/echo")));
        message(&mut scene).said
    };
    let call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "call", "status": "in_progress"});
    assert_eq!(after(&|scene| scene.updates(&call)), answered);
    assert_eq!(after(&Scene::chunk), answered);
    assert_eq!(after(&|scene| scene.hears(&json!({"id": 4, "error": {"code": -32601}}))), answered);
    assert_eq!(after(&|scene| scene.hears(&json!({"id": 3, "result": {}})))[0], answered[0]);
    for nothing in ["available_commands_update", "config_option_update", "usage_update", "something_new"] {
        assert_eq!(after(&|scene| scene.updates(&json!({"sessionUpdate": nothing}))), [], "{nothing}");
    }
    assert_eq!(after(&|scene| scene.hears(&json!({"id": 2, "result": {}}))), [], "an old id");
    assert_eq!(after(&|scene| scene.hears(&json!({"id": 400, "result": {}}))), [], "an id never used");
}

#[test]
fn an_echo_answers_only_for_what_came_before_it() {
    let mut scene = asking(unknown(), &[option("a", "allow_once")]);
    scene.asks(1, &json!({"toolCallId": "b"}), &json!([option("a", "allow_once")]));
    scene.answers(REQUEST, Decision::AllowOnce);
    scene.answers("1:b", Decision::AllowOnce);
    let echo = |id: u64| json!({"id": id, "error": {"code": -32601}});
    assert_eq!(scene.hears(&echo(4)).said, [accepted(2, Acceptance::Answered)]);
    assert_eq!(scene.hears(&echo(5)).said, [accepted(3, Acceptance::Answered)]);
}

#[test]
fn the_summary_says_everything_once() {
    let mut scene = Scene::working(unknown());
    let words = |step: &Step| match &step.said[..] {
        [Said::Asked(request)] => request.summary.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    };
    let call = json!({
        "toolCallId": "a", "title": "Write", "rawInput": {"command": "cp x y", "commands": ["cp x y"], "timeout": 3},
        "content": [
            {"type": "content", "content": {"type": "text", "text": "Why: because"}},
            {"type": "diff", "path": "/w/y", "oldText": "1", "newText": "2"}, {"type": "new"},
        ],
        "locations": [{"path": "/w/y"}, {"path": "/w/z", "line": 1}],
    });
    let step = scene.asks(0, &call, &json!([]));
    assert_eq!(words(&step), "Write\ncp x y\n{\"timeout\":3}\nWhy: because\n/w/y\n/w/z");

    // What was said of the call before is part of the request.
    scene
        .updates(&json!({"sessionUpdate": "tool_call", "toolCallId": "b", "title": "Shell", "rawInput": {}}));
    scene.updates(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "b", "rawInput": {"command": "ls"}}),
    );
    assert_eq!(words(&scene.asks(1, &json!({"toolCallId": "b"}), &json!([]))), "Shell\nls");
    assert_eq!(words(&scene.asks(2, &json!({"toolCallId": "b", "title": "List"}), &json!([]))), "List\nls");
}

#[test]
fn open_calls_are_forgotten_when_they_end_and_when_there_are_too_many() {
    let mut scene = Scene::working(unknown());
    let call = |id: usize, status: &str| json!({"sessionUpdate": "tool_call", "toolCallId": format!("c{id}"), "title": "t", "status": status});
    for id in 0..1000 {
        scene.updates(&call(id, "pending"));
    }
    assert_eq!(scene.acp.calls.len(), 64);
    scene.updates(&call(999, "completed"));
    assert_eq!(scene.acp.calls.len(), 63);
    scene.hears(&json!({"id": 3, "result": {"stopReason": "end_turn"}}));
    assert_eq!(scene.acp.calls.len(), 0);
}

#[test]
fn a_request_is_gone_when_the_agent_can_no_longer_take_its_answer() {
    let one = [option("a", "allow_once")];
    let call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "call", "status": "failed"});
    assert_eq!(asking(unknown(), &one).updates(&call).said, [gone(REQUEST)]);
    let end = json!({"id": 3, "result": {"stopReason": "end_turn"}});
    assert_eq!(asking(unknown(), &one).hears(&end).said, [gone(REQUEST), ended()]);
    let step =
        asking(unknown(), &one).hears(&json!({"method": "$/cancel_request", "params": {"requestId": 0}}));
    assert_eq!((&step.said[..], &frames(&step)[0]["error"]["code"]), (&[gone(REQUEST)][..], &json!(-32800)));
}

#[test]
fn requests_have_names_that_are_used_once() {
    let mut scene = Scene::working(unknown());
    let mut name = |id: Value, call: &str| {
        let params = json!({"sessionId": SESSION, "toolCall": {"toolCallId": call}, "options": [option("a", "allow_once")]});
        scene.hears(&json!({"id": id, "method": "session/request_permission", "params": params}));
        let name = scene.pending().pop().unwrap();
        scene.answers(&name, Decision::AllowOnce);
        name
    };
    let names = [
        name(json!(0), "c"),
        name(json!(1), "c"),
        name(json!(1), "c"),
        name(json!("1"), "c"),
        name(json!(0), "c"),
    ];
    assert_eq!(names, ["0:c", "1:c", "1:c:3", "1:c:4", "0:c:5"]);
}

#[test]
fn two_requests_with_one_id_are_both_given_up() {
    let mut scene = asking(unknown(), &[option("a", "allow_once")]);
    let step = scene.asks(0, &json!({"toolCallId": "other"}), &json!([option("a", "allow_once")]));
    assert_eq!(step.said, [gone(REQUEST)]);
    assert_eq!(frames(&step)[0]["result"], json!({"outcome": {"outcome": "cancelled"}}));
    assert_eq!(scene.pending(), Vec::<String>::new());
}

/// A turn in which Qwen asks these questions.
fn questioning(questions: &Value) -> Scene {
    let mut scene = Scene::working(agent::QWEN);
    let call = json!({
        "toolCallId": "call", "title": "Ask user", "rawInput": {"questions": questions},
        "_meta": {"qwenInteractionKind": "user_question", "qwenQuestions": questions},
    });
    scene.asks(0, &call, &json!([option("proceed_once", "allow_once"), option("cancel", "reject_once")]));
    assert_eq!(scene.acp.state().pending[0].kind, PendingKind::Question);
    scene
}

#[test]
fn questions_are_answered_with_one_line_each() {
    let one =
        json!([{"question": "Which?", "options": [{"label": "Red", "description": "r"}, {"label": "Blue"}]}]);
    let mut scene = questioning(&one);
    let asked = &scene.acp.state().pending[0];
    assert_eq!(asked.summary.as_deref(), Some("Which?\n- Red: r\n- Blue"));
    assert_eq!(asked.options.iter().map(|option| option.id.as_str()).collect::<Vec<_>>(), ["Red", "Blue"]);
    assert!(refusal(&scene.answers(REQUEST, Decision::AllowOnce)).contains("answer it with words"));
    let answer = &frames(&scene.answers(REQUEST, Decision::Text("Green\nor so".into())))[0]["result"];
    assert_eq!(*answer, json!({"outcome": selected("proceed_once"), "answers": {"0": "Green\nor so"}}));

    let two = json!([{"question": "Which?"}, {"question": "When?"}]);
    let mut scene = questioning(&two);
    let reason = "it asks 2 questions: answer with 2 lines, one for each; these are 1";
    assert_eq!(refusal(&scene.answers(REQUEST, Decision::Text("Green".into()))), reason);
    let answer = &frames(&scene.answers(REQUEST, Decision::Text("Green\nnow\n".into())))[0]["result"];
    assert_eq!(answer["answers"], json!({"0": "Green", "1": "now"}));
    let denied = &frames(&questioning(&two).answers(REQUEST, deny()))[0]["result"];
    assert_eq!(*denied, json!({"outcome": selected("cancel")}));
}

fn elicits(schema: &Value) -> Scene {
    let mut scene = Scene::working(unknown());
    let params =
        json!({"sessionId": SESSION, "mode": "form", "message": "Tell me", "requestedSchema": schema});
    let step = scene.hears(&json!({"id": 0, "method": "elicitation/create", "params": params}));
    assert!(matches!(&step.said[..], [Said::Asked(_)]));
    assert_eq!(scene.pending(), ["0:launch-1"]);
    scene
}

#[test]
fn a_form_is_filled_in_with_one_line_for_each_field() {
    let schema = json!({"type": "object", "required": ["colour"], "properties": {
        "colour": {"type": "string", "title": "Colour", "oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]},
        "count": {"type": "integer"}, "share": {"type": "number"}, "sure": {"type": "boolean"},
        "days": {"type": "array", "items": {"enum": ["mo", "tu"]}}, "note": {"type": "string", "description": "A note"},
    }});
    let fill = |text: &str| {
        let mut scene = elicits(&schema);
        let step = scene.answers("0:launch-1", Decision::Text(text.into()));
        frames(&step).first().map(|frame| frame["result"].clone()).ok_or_else(|| refusal(&step).to_owned())
    };
    let summary = elicits(&schema).acp.state().pending[0].summary.clone().unwrap();
    assert_eq!(summary, "Tell me\nColour\n- Red\n- Blue\ncount\nshare\nsure\ndays\n- mo\n- tu\nA note");
    let content =
        json!({"colour": "b", "count": 3, "share": 0.5, "sure": true, "days": ["mo", "tu"], "note": "x y"});
    assert_eq!(fill("Blue\n3\n0.5\nyes\nmo, tu\nx y"), Ok(json!({"action": "accept", "content": content})));
    assert_eq!(
        fill("r\n\n\n\n\n-"),
        Ok(json!({"action": "accept", "content": {"colour": "r", "note": "-"}}))
    );
    assert_eq!(fill("Pink\n3\n\n\n\n-").unwrap_err(), "\"Colour\" must be answered with Red | Blue");
    assert_eq!(fill("r\nx\n\n\n\n-").unwrap_err(), "\"count\" must be answered with a whole number");
    assert_eq!(fill("r\n\n\nmaybe\n\n-").unwrap_err(), "\"sure\" must be answered with yes or no");
    assert_eq!(
        frames(&elicits(&schema).answers("0:launch-1", deny()))[0]["result"],
        json!({"action": "decline"})
    );
}

#[test]
fn a_form_without_fields_asks_for_consent() {
    let mut scene = elicits(&json!({"type": "object", "properties": {}}));
    assert_eq!(scene.acp.state().pending[0].kind, PendingKind::Approval);
    assert!(refusal(&scene.answers("0:launch-1", Decision::AllowAlways)).contains("only: Accept; Decline"));
    let answer = &frames(&scene.answers("0:launch-1", Decision::AllowOnce))[0]["result"];
    assert_eq!(*answer, json!({"action": "accept", "content": {}}));
}

#[test]
fn a_denial_has_no_place_for_a_reason() {
    assert!(!Scene::open(unknown()).acp.takes_reasons());
}
