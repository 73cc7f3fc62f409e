//! What works where, for every agent: the one table behind the capabilities of sessions, `adapters`, `GET /v1/adapters`
//! and docs/steering.md.

use agentctl_model::Way;
use agentctl_model::way::{Command, Manners, Place, Reason};

use Command::{Answer, Approve, Attach, Deny, Interrupt, Send};

const ALL: &[Command] = &[Send, Approve, Deny, Answer, Interrupt];

/// For agents that ask no questions there.
const WITHOUT_ANSWER: &[Command] = &[Send, Approve, Deny, Interrupt];

const AFTER_THE_TURN: &str = "after the turn; the sender waits";

const THE_AGENT_ENDS: &str = "the agent ends";

const THE_SERVER_LIVES_ON: &str = "the server lives on; the next command answers";

const fn held(place: Place, over: &'static str, commands: &'static [Command], manners: Manners) -> Way {
    Way { place, over, commands, manners: Some(manners) }
}

/// `launch --terminal`, and every session that a person started in tmux.
const TERMINAL: Way = Way {
    place: Place::Terminal,
    over: "its own screen in tmux: `launch --terminal`, or a pane of yours",
    commands: &[Attach],
    manners: None,
};

pub(crate) const CLAUDE_CODE: &[Way] = &[
    held(
        Place::Held,
        "stream-json on its pipes",
        ALL,
        Manners {
            mid_turn: "at the next tool boundary, else the next turn (`queued`)",
            always: "yes",
            reason: Reason::WithAnswer,
            questions: "yes",
            without_runner: "the turn runs to its end, a pending request is refused",
        },
    ),
    TERMINAL,
];

pub(crate) const PI: &[Way] = &[
    held(
        Place::Held,
        "`--mode rpc` on its pipes",
        ALL,
        Manners {
            mid_turn: "into the turn (`now` or `queued`)",
            always: "refused: how far an extension's \"Always\" reaches is not known (`answer ID Always` chooses it by its words)",
            reason: Reason::AsMessage,
            questions: "of extensions",
            without_runner: "the agent ends; the turn stays open in the records",
        },
    ),
    TERMINAL,
];

pub(crate) const PI_RUST: &[Way] = &[
    held(
        Place::Held,
        "ACP on its pipes",
        WITHOUT_ANSWER,
        Manners {
            mid_turn: AFTER_THE_TURN,
            always: "no: it offers none",
            reason: Reason::AsMessage,
            questions: "no",
            without_runner: THE_AGENT_ENDS,
        },
    ),
    TERMINAL,
];

pub(crate) const GEMINI: &[Way] = &[
    held(
        Place::Held,
        "ACP on its pipes",
        WITHOUT_ANSWER,
        Manners {
            mid_turn: AFTER_THE_TURN,
            always: "yes",
            reason: Reason::AsMessage,
            questions: "no",
            without_runner: "the turn runs to its end",
        },
    ),
    TERMINAL,
];

pub(crate) const QWEN: &[Way] = &[
    held(
        Place::Held,
        "ACP on its pipes",
        ALL,
        Manners {
            mid_turn: "when the agent asks for it, else after the turn",
            always: "no: project or user only, which is refused",
            reason: Reason::AsMessage,
            questions: "yes",
            without_runner: THE_AGENT_ENDS,
        },
    ),
    TERMINAL,
];

pub(crate) const COPILOT: &[Way] = &[
    held(
        Place::Held,
        "ACP on its pipes",
        WITHOUT_ANSWER,
        Manners {
            mid_turn: AFTER_THE_TURN,
            always: "only where the agent names the scope",
            reason: Reason::AsMessage,
            questions: "no",
            without_runner: THE_AGENT_ENDS,
        },
    ),
    TERMINAL,
];

pub(crate) const KIMI: &[Way] = &[held(
    Place::Held,
    "ACP on its pipes",
    WITHOUT_ANSWER,
    Manners {
        mid_turn: AFTER_THE_TURN,
        always: "yes, for the very same command",
        reason: Reason::AsMessage,
        questions: "no",
        without_runner: THE_AGENT_ENDS,
    },
)];

/// Any agent that is started over ACP.
pub const OVER_ACP: &[Way] = &[held(
    Place::Held,
    "ACP on its pipes",
    WITHOUT_ANSWER,
    Manners {
        mid_turn: AFTER_THE_TURN,
        always: "only where the agent names the scope",
        reason: Reason::AsMessage,
        questions: "no",
        without_runner: THE_AGENT_ENDS,
    },
)];

pub(crate) const CODEX: &[Way] = &[
    held(
        Place::PrivateServer,
        "an app-server of its own",
        ALL,
        Manners {
            mid_turn: "into the turn",
            always: "yes",
            reason: Reason::AsMessage,
            questions: "yes",
            without_runner: THE_SERVER_LIVES_ON,
        },
    ),
    Way {
        place: Place::Server,
        over: "an app-server that somebody else started: its daemon, an editor",
        commands: ALL,
        manners: None,
    },
    TERMINAL,
];

pub(crate) const OPENCODE: &[Way] = &[
    held(
        Place::PrivateServer,
        "a server of its own",
        ALL,
        Manners {
            mid_turn: "after the turn (`queued`)",
            always: "yes",
            reason: Reason::WithAnswer,
            questions: "yes",
            without_runner: THE_SERVER_LIVES_ON,
        },
    ),
    Way {
        place: Place::Server,
        over: "a server or a screen that listens and that somebody else started",
        commands: ALL,
        manners: None,
    },
    TERMINAL,
];

pub(crate) const OPENCLAW: &[Way] = &[Way {
    place: Place::Gateway,
    over: "its gateway, for the sessions that live there; `approve` once only",
    commands: WITHOUT_ANSWER,
    manners: None,
}];
