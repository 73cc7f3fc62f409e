//! How the agents differ that can be held.

use agentctl_testkit::{Skip, TestHome};

use crate::steer::Scene;

/// One agent, ready to be set up, and how it behaves.
pub(crate) struct Agent {
    pub(crate) name: &'static str,
    pub(crate) settle: fn(&mut TestHome, &str) -> Result<(), Skip>,
    /// The model to name, where the agent needs one.
    pub(crate) model: Option<&'static str>,
    /// What a launch adds for the agent's own program.
    pub(crate) arguments: fn(&Scene) -> Vec<String>,
    /// The directive that makes the model run a command, for which the agent asks if it asks at all.
    pub(crate) runs: fn(&str) -> String,
    /// Who says that it is idle.
    pub(crate) witness: &'static str,
    pub(crate) mid_turn: MidTurn,
    /// `None` for one that never asks for permission.
    pub(crate) asks: Option<Asks>,
    /// The directive of a question, and an answer to it.
    pub(crate) question: Option<fn() -> String>,
    /// What is shown when the model has failed for good.
    pub(crate) failure: &'static str,
}

/// How a message in the middle of a turn is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MidTurn {
    /// Into the turn.
    Now,
    /// By the agent's own queue.
    Queued(AtInterrupt),
    /// The agent has no queue, so the sender waits.
    Waits,
}

/// What becomes of the agent's queue when its turn is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtInterrupt {
    /// It is worked on at once.
    GoesOn,
    /// It stays until the next message.
    Rests,
    Dropped,
}

/// How it asks for permission.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asks {
    /// Where the reason of a denial goes.
    pub(crate) reason: &'static str,
    /// After a denial the turn goes on with the model's next words.
    pub(crate) goes_on: bool,
    pub(crate) always: Always,
    /// What it could write a permission for always into, below the home.
    pub(crate) settings: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Always {
    Session,
    /// Everything it offers reaches further than the session, or does not say how far.
    Wider,
    /// It offers nothing of the kind.
    Never,
}

pub(crate) const RUNNER: &str = "the runner that holds it says";

/// Nothing is added to a launch.
pub(crate) fn nothing(_: &Scene) -> Vec<String> {
    Vec::new()
}

/// The agent's own shell.
pub(crate) fn shell(command: &str) -> String {
    format!("[[bash:{command}]]")
}

/// A question of one of the agent's own tools.
pub(crate) fn question_of(tool: &str) -> String {
    let question = r#"{"questions": [ {"question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [ {"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"} ] } ] }"#;
    format!("[[tool:{tool}|{question}]]")
}
