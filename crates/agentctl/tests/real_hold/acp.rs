//! Gemini CLI, Qwen Code, Copilot and Kimi Code over the Agent Client Protocol.

use std::fs;

use agentctl_testkit::{NodeAgent, Skip, TestHome};
use serde_json::{Value, json};

use crate::rounds::{self, Always, Manner};
use crate::steer::Scene;

/// Everything that these agents have in common.
fn does_the_rounds(scene: &Scene, manner: Manner, settings: &str) {
    let held = rounds::speaks(scene);
    rounds::hears_in_mid_turn(&held, manner);
    rounds::asks(&held, manner);
    rounds::asks_once(&held, manner, settings);
    if manner.has_questions {
        rounds::answers_a_question(&held, "ask_user_question");
    }
    rounds::is_interrupted(&held);
    rounds::is_interrupted_while_it_waits(&held);
    rounds::survives_an_error(&held, "");
    let held = rounds::is_resumed(&held);
    rounds::at_work(&held);
    held.stop("interrupted");
}

const GEMINI: Manner = Manner {
    queues: false,
    reason: "as-message",
    goes_on: false,
    always: Always::Session,
    has_questions: false,
};
const COPILOT: Manner = Manner { always: Always::Wider, ..GEMINI };
const QWEN: Manner = Manner { has_questions: true, ..COPILOT };

#[test]
fn gemini_is_spoken_to_and_answered() {
    let Some(scene) =
        Scene::with_model(rounds::model(), "gemini", |home, url| NodeAgent::gemini(home, url).map(drop))
    else {
        return;
    };
    does_the_rounds(&scene, GEMINI, ".gemini/settings.json");
}

#[test]
fn qwen_is_spoken_to_and_answered() {
    let Some(scene) = Scene::with_model(rounds::model(), "qwen", qwen) else { return };
    does_the_rounds(&scene, QWEN, ".qwen/settings.json");
}

#[test]
fn copilot_is_spoken_to_and_answered() {
    let Some(scene) =
        Scene::with_model(rounds::model(), "copilot", |home, url| NodeAgent::copilot(home, url).map(drop))
    else {
        return;
    };
    does_the_rounds(&scene, COPILOT, ".copilot/config.json");
}

#[test]
fn kimi_is_spoken_to_and_answered() {
    let Some(scene) =
        Scene::with_model(rounds::model(), "kimi", |home, url| NodeAgent::kimi(home, url).map(drop))
    else {
        return;
    };
    does_the_rounds(&scene, GEMINI, ".kimi-code/config.toml");
}

/// Its own default mode asks a model whether to ask.
fn qwen(home: &mut TestHome, url: &str) -> Result<(), Skip> {
    NodeAgent::qwen(home, url)?;
    let path = home.path().join(".qwen/settings.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    settings["tools"] = json!({"approvalMode": "default"});
    fs::write(path, settings.to_string()).unwrap();
    Ok(())
}
