//! Messages, turns and interrupts.

use super::*;
use crate::hold::acp::agent::Counts;
use crate::hold::acp::usage::Tokens;

fn ends(scene: &mut Scene, prompt: u64) -> Step {
    scene.hears(&json!({"id": prompt, "result": {"stopReason": "end_turn"}}))
}

#[test]
fn a_prompt_is_taken_when_the_agent_works_on_it() {
    let mut scene = Scene::open(unknown());
    assert_eq!(scene.sends("go").said, [Said::TurnOpened]);
    assert_eq!(scene.updates(&json!({"sessionUpdate": "available_commands_update"})).said, []);
    assert_eq!(scene.chunk().said, [accepted(1, Acceptance::Now)]);
    assert_eq!(scene.chunk().said, []);
    assert_eq!(ends(&mut scene, 3).said, [ended()]);
    let state = scene.acp.state();
    assert_eq!((state.turn_open, state.last_end), (false, Some(TurnEnd::Ended)));
}

#[test]
fn a_turn_ends_as_the_protocol_says() {
    let end = |message: Value| {
        let mut scene = Scene::working(unknown());
        let mut message = message;
        message["id"] = json!(3);
        match scene.hears(&message).said.pop() {
            Some(Said::TurnEnded(end)) => end,
            other => panic!("{other:?}"),
        }
    };
    let stopped = |reason: &str| end(json!({"result": {"stopReason": reason}}));
    let failed = |words: &str| TurnEnd::Failed { words: words.into() };
    assert_eq!(stopped("end_turn"), TurnEnd::Ended);
    assert_eq!(stopped("something_new"), TurnEnd::Ended);
    assert_eq!(end(json!({"result": null})), TurnEnd::Ended);
    assert_eq!(stopped("cancelled"), TurnEnd::Interrupted);
    assert_eq!(stopped("max_tokens"), failed("the model reached its limit of tokens"));
    assert_eq!(
        stopped("max_turn_requests"),
        failed("the agent reached its limit of model requests in one turn")
    );
    assert_eq!(stopped("refusal"), failed("the agent refused to go on"));
    assert_eq!(end(json!({"error": {"code": 400, "message": "bad"}})), failed("bad"));
    assert_eq!(end(json!({"error": {"code": 7}})), failed("error 7"));
    assert_eq!(end(json!({"error": "all is lost"})), failed("all is lost"));
    assert_eq!(end(json!({"error": {"code": "x"}})), failed("{\"code\":\"x\"}"));
    assert_eq!(end(json!({"error": {"code": -32800, "message": "cancelled"}})), TurnEnd::Interrupted);
}

#[test]
fn a_prompt_that_the_agent_did_not_take_is_refused_and_one_that_failed_is_not() {
    let answered = |code: i64| {
        let mut scene = Scene::open(unknown());
        scene.sends("go");
        scene.hears(&json!({"id": 3, "error": {"code": code, "message": "no"}})).said.remove(0)
    };
    let refused = Said::Refused { ticket: Ticket(1), reason: "no".into() };
    for code in [-32600, -32601, -32602, -32000, -32002] {
        assert_eq!(answered(code), refused, "{code}");
    }
    for code in [-32603, 400] {
        assert_eq!(answered(code), accepted(1, Acceptance::Now), "{code}");
    }
}

#[test]
fn without_a_queue_a_message_waits_here_for_the_end_of_the_turn() {
    let mut scene = Scene::working(agent::GEMINI);
    assert_eq!((scene.sends("two"), scene.sends("three")), (Step::default(), Step::default()));
    assert_eq!(scene.acp.state().queued, 0, "only the agent's own queue counts");
    assert_eq!(scene.chunk().said, []);
    let step = ends(&mut scene, 3);
    assert_eq!(step.said, [ended(), Said::TurnOpened]);
    let sent = frames(&step);
    assert_eq!((sent.len(), &sent[0]["params"]["prompt"][0]["text"]), (1, &json!("two")));
    assert!(scene.acp.withdraw(Ticket(3)), "the third still waits here");
    assert!(!scene.acp.withdraw(Ticket(2)), "the agent has the second");
    assert_eq!(
        ends(&mut scene, 4).said,
        [ended()],
        "nothing is said of what was withdrawn, and nothing is sent"
    );
}

#[test]
fn the_agents_own_queue_takes_a_message_in_the_middle_of_a_turn() {
    let mut scene = Scene::working(agent::OPENCODE);
    let sent = frames(&scene.sends("two"));
    assert_eq!(
        (&sent[0]["method"], &sent[1]["method"]),
        (&json!("session/prompt"), &json!("_agentctl/echo"))
    );
    assert_eq!(scene.acp.state().queued, 1);
    assert_eq!(
        scene.hears(&json!({"id": 5, "error": {"code": -32601}})).said,
        [accepted(2, Acceptance::Queued)]
    );
    assert_eq!(ends(&mut scene, 3).said, [ended(), Said::TurnOpened]);
    assert_eq!((scene.acp.state().queued, scene.acp.state().turn_open), (0, true));
    assert_eq!(ends(&mut scene, 4).said, [ended()]);

    let mut scene = Scene::working(agent::OPENCODE);
    scene.sends("two");
    assert_eq!(scene.chunk().said, [accepted(2, Acceptance::Queued)]);
    scene.sends("three");
    let step = scene.hears(&json!({"id": 6, "error": {"code": -32600, "message": "busy"}}));
    assert_eq!(refusal(&step), "busy");
    assert!(scene.acp.state().turn_open);
}

fn drains(scene: &mut Scene, session: &str) -> (Vec<Said>, Value) {
    let request = json!({"id": 9, "method": "craft/drainMidTurnQueue", "params": {"sessionId": session}});
    let step = scene.hears(&request);
    let answer = frames(&step).remove(0);
    assert_eq!(answer["id"], 9);
    (step.said, answer)
}

#[test]
fn qwen_takes_messages_when_it_asks_for_them() {
    let mut scene = Scene::working(agent::QWEN);
    assert_eq!(drains(&mut scene, SESSION).1["result"], json!({"messages": []}));
    assert_eq!(scene.sends("/two"), Step::default());
    scene.tells(Verb::Send { words: "/compress".into(), as_command: true });
    scene.sends("four");
    assert_eq!(drains(&mut scene, "other").1["result"], json!({"messages": []}), "another session");
    let (said, answer) = drains(&mut scene, SESSION);
    assert_eq!(
        (said, &answer["result"]),
        (vec![], &json!({"messages": ["/two"]})),
        "a command waits, and what follows it"
    );
    assert!(!scene.acp.withdraw(Ticket(99)));
    assert_eq!(scene.chunk().said, [accepted(2, Acceptance::Now)]);
    let sent = frames(&ends(&mut scene, 3));
    assert_eq!(sent[0]["params"]["prompt"][0]["text"], "/compress");

    let mut scene = Scene::working(agent::GEMINI);
    assert_eq!(drains(&mut scene, SESSION).1["error"]["code"], -32601);
}

#[test]
fn what_follows_a_denial_is_the_next_prompt() {
    let mut scene = Scene::working(agent::QWEN);
    let no = json!([{"optionId": "cancel", "name": "No", "kind": "reject_once"}]);
    scene.asks(0, &json!({"toolCallId": "a"}), &no);
    scene.tells(Verb::Answer { request: "0:a".into(), decision: Decision::Deny { reason: None } });
    scene.sends("because");
    assert_eq!(drains(&mut scene, SESSION).1["result"], json!({"messages": []}), "the turn may end now");
    let sent = frames(&ends(&mut scene, 3));
    assert_eq!(sent[0]["params"]["prompt"][0]["text"], "because");
}

#[test]
fn an_interrupt_is_done_when_the_prompt_is_answered() {
    let mut scene = Scene::open(unknown());
    let idle = Acceptance::Interrupted { was_open: false, still_queued: 0 };
    let step = scene.tells(Verb::Interrupt);
    assert_eq!((step.said, step.write.len()), (vec![accepted(1, idle)], 0));

    let mut scene = Scene::working(unknown());
    scene.asks(0, &json!({"toolCallId": "a"}), &json!([]));
    let step = scene.tells(Verb::Interrupt);
    assert_eq!(step.said, [gone("0:a")]);
    let sent = frames(&step);
    assert_eq!(
        sent[0],
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}})
    );
    assert_eq!(sent[1], json!({"jsonrpc": "2.0", "id": 0, "result": {"outcome": {"outcome": "cancelled"}}}));
    assert_eq!(scene.chunk().said, [], "the turn is still open");
    let step = scene.hears(&json!({"id": 3, "result": {"stopReason": "cancelled"}}));
    let done = Acceptance::Interrupted { was_open: true, still_queued: 0 };
    assert_eq!(step.said, [Said::TurnEnded(TurnEnd::Interrupted), accepted(2, done)]);

    let mut scene = Scene::working(agent::CODEX_ACP);
    scene.sends("two");
    scene.chunk();
    scene.tells(Verb::Interrupt);
    let step = scene.hears(&json!({"id": 3, "result": {"stopReason": "cancelled"}}));
    let done = Acceptance::Interrupted { was_open: true, still_queued: 1 };
    assert_eq!(step.said, [Said::TurnEnded(TurnEnd::Interrupted), accepted(3, done), Said::TurnOpened]);
}

#[test]
fn a_message_is_not_taken_for_a_command_unless_it_is_meant_as_one() {
    let sent = |agent: Agent, words: &str, as_command: bool| {
        let step = Scene::open(agent).tells(Verb::Send { words: words.into(), as_command });
        let frame = frames(&step).first().cloned().ok_or_else(|| refusal(&step).to_owned())?;
        Ok::<_, String>(frame["params"]["prompt"][0]["text"].as_str().unwrap().to_owned())
    };
    let refused = "the agent may take a message that begins with / for a command: \
                   put a word before it, or send it as a command";
    assert_eq!(sent(agent::GEMINI, "/memory", false), Err(refused.into()));
    assert_eq!(sent(agent::GEMINI, "\u{feff}\n /memory", false), Err(refused.into()));
    assert!(sent(agent::GEMINI, "$skill", false).is_err());
    assert_eq!(sent(agent::GEMINI, "/memory", true), Ok("/memory".into()));
    assert_eq!(sent(agent::GEMINI, "see /tmp", false), Ok("see /tmp".into()));
    assert_eq!(sent(agent::QWEN, "/help", false), Ok(" /help".into()));
    assert_eq!(sent(agent::QWEN, "/help", true), Ok("/help".into()));
    assert_eq!(sent(agent::KIMI, "/help", false), Ok(" /help".into()));
    assert_eq!(sent(agent::COPILOT, " /compact", false), Err(refused.into()));
    assert_eq!(sent(agent::COPILOT, "@README", false), Ok("@README".into()));
    for mark in ["/", "!", "#", "@", "$"] {
        assert!(sent(unknown(), &format!("{mark}x"), false).is_err(), "{mark}");
    }
    assert_eq!(sent(agent::GEMINI, " \n", false), Err("the message is empty".into()));
}

#[test]
fn tokens_are_kept_where_it_is_certain_what_they_count() {
    let usage = json!({"inputTokens": 5, "outputTokens": 6, "totalTokens": 11});
    let kept = |agent: Agent, result: Value| {
        let mut scene = Scene::working(agent);
        let chunk = json!({"sessionUpdate": "agent_message_chunk", "_meta": {"usage": {"inputTokens": 1, "outputTokens": 2}}});
        scene.updates(&chunk);
        scene.hears(&json!({"id": 3, "result": result}));
        scene.acp.usage().tokens.map(|Tokens { input, output, of }| (input, output, of))
    };
    assert_eq!(kept(agent::CODEX_ACP, json!({"usage": usage})), Some((5, 6, Counts::Turn)));
    assert_eq!(kept(agent::COPILOT, json!({"usage": usage})), Some((5, 6, Counts::Session)));
    let quota = json!({"_meta": {"quota": {"token_count": {"input_tokens": 7, "output_tokens": 8}}}});
    assert_eq!(kept(agent::GEMINI, quota), Some((7, 8, Counts::Turn)));
    assert_eq!(kept(agent::QWEN, json!({})), Some((1, 2, Counts::Step)));
    assert_eq!(kept(agent::KIMI, json!({"usage": usage})), None);
    assert_eq!(kept(agent::CODEX_ACP, json!({"usage": {"inputTokens": 0, "outputTokens": 0}})), None);
    let mut scene = Scene::working(unknown());
    scene.updates(&json!({"sessionUpdate": "usage_update", "used": 10, "size": 100}));
    assert_eq!(scene.acp.usage().context.map(|context| (context.used, context.size)), Some((10, 100)));
}

#[test]
fn a_session_is_closed_where_the_agent_offers_it() {
    let mut scene = Scene::started(unknown(), opening());
    scene.greets(&json!({"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"close": {}}}}));
    scene.hears(&json!({"id": 2, "result": {"sessionId": SESSION}}));
    scene.sends("go");
    scene.asks(0, &json!({"toolCallId": "a"}), &json!([]));
    let written = scene.acp.close();
    let sent = frames(&Step { write: written, said: Vec::new() });
    let methods = sent.iter().map(|frame| frame["method"].as_str()).collect::<Vec<_>>();
    assert_eq!(methods, [Some("session/cancel"), None, Some("session/close")]);
    assert_eq!(Scene::open(unknown()).acp.close(), b"");
}

#[test]
fn a_prompt_that_comes_too_soon_after_a_turn_is_sent_again() {
    let mut scene = Scene::working(agent::PI_RUST);
    scene.sends("next");
    let step = ends(&mut scene, 3);
    assert_eq!(step.said, [ended(), Said::TurnOpened]);
    let busy =
        |id: u64| json!({"id": id, "error": {"code": -32002, "message": "already has an active prompt"}});
    for id in 4..8 {
        let step = scene.hears(&busy(id));
        assert_eq!(step.said, []);
        let again = &frames(&step)[0];
        assert_eq!((&again["id"], &again["params"]["prompt"][0]["text"]), (&json!(id + 1), &json!("next")));
    }
    assert_eq!(scene.chunk().said, [accepted(2, Acceptance::Now)]);
    // It was taken, so this is how the turn ended.
    let end = TurnEnd::Failed { words: "already has an active prompt".into() };
    assert_eq!(scene.hears(&busy(8)).said, [Said::TurnEnded(end)]);
}

#[test]
fn a_prompt_is_not_sent_again_for_ever() {
    let mut scene = Scene::open(agent::PI_RUST);
    scene.sends("go");
    let refused = (3_u64..5000).find_map(|id| {
        let step = scene.hears(&json!({"id": id, "error": {"code": -32002, "message": "busy"}}));
        (!step.said.is_empty()).then_some(step.said)
    });
    let refused = refused.expect("the prompt is given up");
    assert_eq!(refused[0], Said::Refused { ticket: Ticket(1), reason: "busy".into() });
    assert!(!scene.acp.state().turn_open);
}

#[test]
fn a_failure_that_is_told_as_a_last_message_is_how_the_turn_ended() {
    let text = |text: &str| json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
    let notice = text("\n\nError: HTTP 400\nnot retryable\n");
    let mut scene = Scene::working(agent::PI_RUST);
    scene.updates(&notice);
    let failed = TurnEnd::Failed { words: "HTTP 400 not retryable".into() };
    assert_eq!(ends(&mut scene, 3).said, [Said::TurnEnded(failed)]);
    // The agent went on after it.
    let mut scene = Scene::working(agent::PI_RUST);
    scene.updates(&notice);
    scene.updates(&text("all is well"));
    assert_eq!(ends(&mut scene, 3).said, [ended()]);
    // Another agent does not tell failures so.
    let mut scene = Scene::working(unknown());
    scene.updates(&notice);
    assert_eq!(ends(&mut scene, 3).said, [ended()]);
}
