//! Modes and models that are chosen while the session is held.

use serde_json::json;

use super::{Scene, accepted, frames, opening, refusal, unknown};
use crate::hold::{Acceptance, Offered, Preference, Protocol, Verb};

/// A session whose agent offers two modes the old way, and two models as an option.
fn offering() -> Scene {
    let mut scene = Scene::started(unknown(), opening());
    scene.greets(&json!({"protocolVersion": 1}));
    let modes = json!({"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask first"}, {"id": "free"}]});
    let models = json!({"id": "m", "category": "model", "currentValue": "small", "options": [
        {"value": "small", "name": "Small"}, {"name": "others", "options": [{"value": "big"}]},
    ]});
    scene.hears(
        &json!({"id": 2, "result": {"sessionId": super::SESSION, "modes": modes, "configOptions": [models]}}),
    );
    scene
}

fn choose(what: Preference, id: &str) -> Verb {
    Verb::Choose { what, id: id.to_owned() }
}

#[test]
fn what_is_offered_is_told_and_chosen_by_the_agents_own_id() {
    let mut scene = offering();
    let about = scene.acp.about().unwrap().clone();
    let offered = |id: &str, name: Option<&str>| Offered { id: id.into(), name: name.map(str::to_owned) };
    assert_eq!(about.modes, [offered("ask", Some("Ask first")), offered("free", None)]);
    assert_eq!(about.models, [offered("small", Some("Small")), offered("big", None)]);
    assert_eq!((about.mode.as_deref(), about.model.as_deref()), (Some("ask"), Some("small")));

    let asked = frames(&scene.tells(choose(Preference::Mode, "free")));
    assert_eq!(
        (&asked[0]["method"], &asked[0]["params"]["modeId"]),
        (&json!("session/set_mode"), &json!("free"))
    );
    assert_eq!(scene.acp.about().unwrap().mode.as_deref(), Some("ask"), "the agent has not taken it yet");
    let step = scene.hears(&json!({"id": asked[0]["id"], "result": {}}));
    assert_eq!(step.said, [accepted(1, Acceptance::Chosen)]);
    assert_eq!(scene.acp.about().unwrap().mode.as_deref(), Some("free"));

    let asked = frames(&scene.tells(choose(Preference::Model, "big")));
    assert_eq!(
        (&asked[0]["method"], &asked[0]["params"]["configId"], &asked[0]["params"]["value"]),
        (&json!("session/set_config_option"), &json!("m"), &json!("big"))
    );
    let now = json!([{"id": "m", "category": "model", "currentValue": "big", "options": []}]);
    let step = scene.hears(&json!({"id": asked[0]["id"], "result": {"configOptions": now}}));
    assert_eq!(step.said, [accepted(2, Acceptance::Chosen)]);
    assert_eq!(scene.acp.about().unwrap().model.as_deref(), Some("big"));
}

#[test]
fn what_is_not_offered_or_not_taken_is_refused_and_changes_nothing() {
    let mut scene = offering();
    for (what, id) in [(Preference::Mode, "big"), (Preference::Model, "free"), (Preference::Mode, "")] {
        let step = scene.tells(choose(what, id));
        assert_eq!(refusal(&step), "the agent does not offer this");
        assert!(step.write.is_empty());
    }
    let asked = frames(&scene.tells(choose(Preference::Mode, "free")));
    let step = scene.hears(&json!({"id": asked[0]["id"], "error": {"code": 1, "message": "not now"}}));
    assert!(refusal(&step).contains("not now"));
    assert_eq!(scene.acp.about().unwrap().mode.as_deref(), Some("ask"));
    // Who took it back hears nothing more, and an answer to nobody's request says nothing.
    let asked = frames(&scene.tells(choose(Preference::Mode, "free")));
    assert!(!scene.acp.withdraw(crate::hold::Ticket(scene.tickets)));
    assert_eq!(scene.hears(&json!({"id": asked[0]["id"], "result": {}})).said, []);
    assert_eq!(scene.hears(&json!({"id": asked[0]["id"], "result": {}})).said, []);
}
