//! Gemini CLI, Qwen Code, Copilot, Kimi Code and Pi Rust over the Agent Client Protocol.

use std::fs;

use agentctl_testkit::agents::pi;
use agentctl_testkit::{NodeAgent, PiRust, Skip, TestHome};
use serde_json::{Value, json};

use crate::manner::{Agent, Always, Asks, MidTurn, RUNNER, nothing, question_of, shell};
use crate::road::Road;
use crate::{Stage, rounds};

pub(crate) static GEMINI: Agent = Agent {
    name: "gemini",
    settle: |home, url| NodeAgent::gemini(home, url).map(drop),
    asks: Some(Asks { settings: &[".gemini/settings.json"], ..ASKS }),
    ..ACP
};

pub(crate) static QWEN: Agent = Agent {
    name: "qwen",
    settle: settle_qwen,
    asks: Some(Asks { always: Always::Wider, settings: &[".qwen/settings.json"], ..ASKS }),
    question: Some(|| question_of("ask_user_question")),
    ..ACP
};

pub(crate) static COPILOT: Agent = Agent {
    name: "copilot",
    settle: |home, url| NodeAgent::copilot(home, url).map(drop),
    asks: Some(Asks { always: Always::Wider, settings: &[".copilot/config.json"], ..ASKS }),
    ..ACP
};

pub(crate) static KIMI: Agent = Agent {
    name: "kimi",
    settle: |home, url| NodeAgent::kimi(home, url).map(drop),
    asks: Some(Asks { settings: &[".kimi-code/config.toml"], ..ASKS }),
    ..ACP
};

pub(crate) static PI_RUST: Agent = Agent {
    name: "pi-rust",
    settle: |home, url| PiRust::settle(home, url).map(drop),
    model: Some(pi::MODEL),
    asks: Some(Asks { always: Always::Never, settings: &[".pi/agent/settings.json"], ..ASKS }),
    failure: "HTTP 400",
    ..ACP
};

/// What they have in common.
const ACP: Agent = Agent {
    name: "",
    settle: |_, _| Ok(()),
    model: None,
    arguments: nothing,
    runs: shell,
    witness: RUNNER,
    mid_turn: MidTurn::Waits,
    asks: None,
    question: None,
    failure: "",
};
const ASKS: Asks = Asks { reason: "as-message", goes_on: false, always: Always::Session, settings: &[] };

/// Its own default mode asks a model whether to ask.
fn settle_qwen(home: &mut TestHome, url: &str) -> Result<(), Skip> {
    NodeAgent::qwen(home, url)?;
    let path = home.path().join(".qwen/settings.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    settings["tools"] = json!({"approvalMode": "default"});
    fs::write(path, settings.to_string()).unwrap();
    Ok(())
}

#[test]
fn gemini_is_spoken_to_and_answered() {
    let Some(stage) = Stage::set(&GEMINI, Road::Alone) else { return };
    rounds::all(&stage);
}

#[test]
fn qwen_is_spoken_to_and_answered() {
    let Some(stage) = Stage::set(&QWEN, Road::Alone) else { return };
    rounds::all(&stage);
}

#[test]
fn copilot_is_spoken_to_and_answered() {
    let Some(stage) = Stage::set(&COPILOT, Road::Alone) else { return };
    rounds::all(&stage);
}

#[test]
fn kimi_is_spoken_to_and_answered() {
    let Some(stage) = Stage::set(&KIMI, Road::Alone) else { return };
    rounds::all(&stage);
}

#[test]
fn pi_rust_is_spoken_to_and_answered() {
    let Some(stage) = Stage::set(&PI_RUST, Road::Alone) else { return };
    rounds::all(&stage);
}
