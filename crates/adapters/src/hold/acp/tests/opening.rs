//! From `initialize` to the first prompt.

use agentctl_model::Permission;

use super::*;
use crate::hold::acp::agent::choices;

fn going_on(may_load: bool) -> Opening {
    Opening { start: Start::Continue { session: SESSION.into(), may_load }, ..opening() }
}

fn able(session: &Value) -> Value {
    json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true, "sessionCapabilities": session}})
}

#[test]
fn nothing_is_offered_to_the_agent_but_answers() {
    let params = &frames(&Acp::new(unknown(), opening()).open())[0]["params"];
    assert_eq!(params["protocolVersion"], 1);
    let offered = json!({"readTextFile": false, "writeTextFile": false});
    assert_eq!(
        (&params["clientCapabilities"]["fs"], &params["clientCapabilities"]["terminal"]),
        (&offered, &json!(false))
    );
}

#[test]
fn the_first_prompt_waits_until_the_session_is_open() {
    let mut scene = Scene::started(unknown(), opening());
    assert_eq!(scene.sends("hello"), Step::default());
    let asked = frames(&scene.greets(&json!({"protocolVersion": 1})));
    assert_eq!(asked[0]["method"], "session/new");
    assert_eq!(asked[0]["params"], json!({"cwd": "/home/dev/work", "mcpServers": []}));
    let step = scene.hears(&json!({"id": 2, "result": {"sessionId": SESSION}}));
    assert_eq!(step.said, [Said::Ready { session: SESSION.into() }, Said::TurnOpened]);
    let prompt = &frames(&step)[0];
    assert_eq!(prompt["params"]["prompt"], json!([{"type": "text", "text": "hello"}]));
    assert!(scene.acp.state().turn_open);
}

#[test]
fn a_session_is_resumed_where_that_is_offered_and_loaded_only_where_it_may_be() {
    let mut scene = Scene::started(unknown(), going_on(false));
    let asked = frames(&scene.greets(&able(&json!({"resume": {}}))));
    assert_eq!(
        (&asked[0]["method"], &asked[0]["params"]["sessionId"]),
        (&json!("session/resume"), &json!(SESSION))
    );

    let mut scene = Scene::started(unknown(), going_on(true));
    let asked = frames(&scene.greets(&able(&json!({"resume": null}))));
    assert_eq!(asked[0]["method"], "session/load");

    let mut scene = Scene::started(unknown(), going_on(false));
    assert!(lost(&scene.greets(&able(&json!({})))).contains("end that process first"));

    let mut scene = Scene::started(unknown(), going_on(true));
    assert!(lost(&scene.greets(&json!({"protocolVersion": 1}))).contains("start a new one"));
}

#[test]
fn the_replay_of_a_loaded_session_is_dropped() {
    let mut scene = Scene::started(agent::QWEN, going_on(true));
    scene.sends("go on");
    scene.greets(&able(&json!({})));
    let call =
        json!({"sessionUpdate": "tool_call", "toolCallId": "old", "title": "old", "status": "pending"});
    assert_eq!(scene.updates(&call), Step::default());
    assert_eq!(scene.chunk(), Step::default());
    assert_eq!(scene.acp.calls.len(), 0);
    let step = scene.hears(&json!({"id": 2, "result": null}));
    assert_eq!(step.said, [Said::Ready { session: SESSION.into() }, Said::TurnOpened]);
}

/// The file that Gemini opens before it looks a session up must not have the name of the session's own.
#[test]
fn gemini_loads_a_session_under_a_name_apart() {
    let mut scene = Scene::started(agent::GEMINI, going_on(true));
    scene.sends("go on");
    let step = scene.greets(&able(&json!({})));
    let apart = format!(" {SESSION}");
    let load = &frames(&step)[0];
    assert_eq!((&load["method"], &load["params"]["sessionId"]), (&json!("session/load"), &json!(apart)));
    let step = scene.hears(&json!({"id": 2, "result": {}}));
    assert_eq!(step.said, [Said::Ready { session: SESSION.into() }, Said::TurnOpened]);
    assert_eq!(frames(&step)[0]["params"]["sessionId"], apart);
    assert_eq!(scene.acp.state().session.as_deref(), Some(SESSION));
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}});
    let params = json!({"sessionId": apart, "update": update});
    let step = scene.hears(&json!({"method": "session/update", "params": params}));
    assert_eq!(step.said, [accepted(1, Acceptance::Now)]);
}

#[test]
fn what_the_agent_said_of_itself_is_kept() {
    let mut scene = Scene::started(unknown(), opening());
    scene.greets(&json!({
        "protocolVersion": 1, "agentInfo": {"name": "lab", "version": "3", "new": []},
        "agentCapabilities": {"loadSession": false, "sessionCapabilities": {"close": {}, "list": null}},
        "authMethods": [{"id": "a", "name": "Log in"}], "unknown": true,
    }));
    let greeting = scene.acp.greeting().unwrap();
    assert_eq!((greeting.name.as_deref(), greeting.version.as_deref()), (Some("lab"), Some("3")));
    let can = greeting.capabilities;
    assert_eq!((can.load, can.resume, can.list, can.close), (false, false, false, true));
    let step =
        scene.hears(&json!({"id": 2, "error": {"code": -32000, "message": "Authentication required"}}));
    assert_eq!(lost(&step), "the agent wants a login (Log in): Authentication required");
}

#[test]
fn a_line_that_cannot_be_used_is_lost_with_words() {
    let mut scene = Scene::started(unknown(), opening());
    scene.sends("waits");
    let step = scene.greets(&json!({"protocolVersion": 2}));
    let why = "the agent speaks version 2 of the Agent Client Protocol and agentctl speaks 1: update the older one of the two";
    assert_eq!(step.said[0], Said::Refused { ticket: Ticket(1), reason: why.into() });
    assert_eq!((lost(&step), scene.acp.state().lost.as_deref()), (why, Some(why)));
    assert_eq!(refusal(&scene.sends("later")), why);
    assert_eq!(scene.hears(&json!({"id": 2, "result": {"sessionId": SESSION}})), Step::default());
    assert_eq!(
        scene.hears(&json!({"id": 9, "method": "x"})),
        Step::default(),
        "nothing is answered any more"
    );
    assert_eq!(scene.acp.close(), b"");

    let mut scene = Scene::started(unknown(), opening());
    let step = scene.hears(&json!({"id": 1, "error": {"code": -32603, "message": "Internal error", "data": {"details": "no key"}}}));
    assert_eq!(lost(&step), "the agent did not open the line: Internal error: no key");

    let mut scene = Scene::started(unknown(), opening());
    scene.greets(&json!({"protocolVersion": 1}));
    assert!(lost(&scene.hears(&json!({"id": 2, "result": {}}))).contains("without an id"));
}

/// Opens a session in a mode and with a model, and returns what was asked for in between.
fn set_up(permission: Permission, model: Option<&str>, offered: &Value) -> (Vec<Value>, Scene) {
    let wishes = Opening { modes: choices(permission), model: model.map(Into::into), ..opening() };
    let mut scene = Scene::started(unknown(), wishes);
    scene.sends("go");
    scene.greets(&json!({"protocolVersion": 1}));
    let mut opened = offered.clone();
    opened["sessionId"] = json!(SESSION);
    let mut step = scene.hears(&json!({"id": 2, "result": opened}));
    let mut asked = Vec::new();
    while let Some(frame) = frames(&step).pop() {
        if frame["method"] == "session/prompt" {
            break;
        }
        step = scene.hears(&json!({"id": frame["id"], "result": {}}));
        asked.push(frame);
    }
    (asked, scene)
}

#[test]
fn mode_and_model_are_set_before_the_first_prompt() {
    let config = |id: &str, category: &str, current: &str, values: &[&str]| {
        let options = values.iter().map(|value| json!({"value": value, "name": format!("The {value}")}));
        json!({"id": id, "category": category, "type": "select", "currentValue": current, "options": options.collect::<Vec<_>>()})
    };
    let url = "https://agentclientprotocol.com/protocol/session-modes#plan";
    let offered = json!({"configOptions": [
        config("mode", "mode", "agent", &["agent", url, "autopilot"]),
        config("allow_all", "permissions", "off", &["on", "off"]),
        config("model", "model", "small", &["small", "large"]),
    ]});
    let (asked, scene) = set_up(Permission::Bypass, Some("The large"), &offered);
    let params = asked.iter().map(|frame| (&frame["method"], &frame["params"])).collect::<Vec<_>>();
    let method = json!("session/set_config_option");
    let allow = json!({"sessionId": SESSION, "configId": "allow_all", "value": "on"});
    let large = json!({"sessionId": SESSION, "configId": "model", "value": "large"});
    assert_eq!(params, [(&method, &allow), (&method, &large)]);
    assert!(scene.acp.state().turn_open, "the prompt went last");

    let (asked, _) = set_up(Permission::Plan, Some("small"), &offered);
    assert_eq!(asked.len(), 1, "the model is right already");
    assert_eq!(asked[0]["params"]["value"], url);

    let old = json!({
        "modes": {"currentModeId": "default", "availableModes": [{"id": "default"}, {"id": "autoEdit"}]},
        "models": {"currentModelId": "a", "availableModels": [{"modelId": "a"}, {"modelId": "b"}]},
    });
    let (asked, _) = set_up(Permission::AcceptEdits, Some("b"), &old);
    assert_eq!(asked[0]["method"], "session/set_mode");
    assert_eq!(asked[0]["params"], json!({"sessionId": SESSION, "modeId": "autoEdit"}));
    assert_eq!(asked[1]["method"], "session/set_model");
    assert_eq!(asked[1]["params"], json!({"sessionId": SESSION, "modelId": "b"}));

    let (asked, scene) = set_up(Permission::Default, None, &old);
    assert_eq!((asked.len(), scene.acp.state().turn_open), (0, true));
}

#[test]
fn a_mode_or_model_that_cannot_be_had_is_not_replaced_by_another() {
    let modes = json!({"modes": {"availableModes": [{"id": "build"}, {"id": "plan"}]}});
    let (_, scene) = set_up(Permission::Bypass, None, &modes);
    assert_eq!(
        scene.acp.state().lost.unwrap(),
        "the agent has no such permission mode; it offers build, plan"
    );
    let (_, scene) = set_up(Permission::Default, Some("huge"), &json!({}));
    assert_eq!(scene.acp.state().lost.unwrap(), "the agent has no model huge; it offers no choice");

    let mut scene = Scene::started(unknown(), Opening { modes: choices(Permission::Plan), ..opening() });
    scene.greets(&json!({"protocolVersion": 1}));
    let mut opened = modes.clone();
    opened["sessionId"] = json!(SESSION);
    scene.hears(&json!({"id": 2, "result": opened}));
    let step = scene.hears(&json!({"id": 3, "error": {"code": -32603, "message": "not now"}}));
    assert_eq!(lost(&step), "the agent did not take plan: not now");
}
