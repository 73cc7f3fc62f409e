//! Two-way protocols of agents that are held: what the agent says, turned into one small vocabulary, and what a person
//! wants, turned into its frames.
//!
//! A [`Protocol`] is a pure state machine: bytes in, frames and words out. It has no clock and does no I/O, and every
//! cut of the same bytes gives the same words. The runner owns the pipes.

pub mod acp;
pub(crate) mod json_lines;
pub mod lines;
#[cfg(test)]
pub(crate) mod replay;
pub mod server;

use agentctl_model::{PendingKind, PendingOption, SpawnPlan};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use server::PrivateServer;

/// Names one thing that a caller asked for, until the agent has accepted or refused it. The caller chooses it and uses
/// it once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ticket(pub u64);

/// What a caller wants of a held session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Say something. Unless it is meant as one, the agent must not take it for a command of its own.
    Send { words: String, as_command: bool },
    /// Answer the request with this id.
    Answer { request: String, decision: Decision },
    /// End the open turn and keep the session.
    Interrupt,
    /// Choose one of the modes or models that [`About`] names, for the rest of the session.
    Choose { what: Preference, id: String },
}

/// What can be chosen of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preference {
    Mode,
    Model,
}

/// A mode or model that the agent offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// The agent's own id.
    pub id: String,
    pub name: Option<String>,
}

/// A person's answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    AllowOnce,
    /// Allow it, and what is like it, for the rest of the session.
    AllowAlways,
    /// The reason goes with the denial only where [`Protocol::takes_reasons`] says so.
    Deny {
        reason: Option<String>,
    },
    /// The answer to a question: one line for each question where there are several.
    Text(String),
}

/// What the agent asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The agent's own id. Where the agent counts its requests anew per process or connection, it is joined with the
    /// agent's id of the turn, item or tool call, so that it never names two requests of one session.
    pub id: String,
    pub kind: PendingKind,
    /// What the agent wants, whole: a person decides by these words. They are not cleaned yet.
    pub summary: Option<String>,
    pub options: Vec<PendingOption>,
}

/// How the agent took what it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acceptance {
    /// It works on the message, or takes it into the open turn.
    Now,
    /// The agent's own queue has the message.
    Queued,
    /// It took the answer.
    Answered,
    /// It has what was chosen.
    Chosen,
    /// The interrupt is done: whether a turn was open, and how many messages stay in the agent's queue.
    Interrupted { was_open: bool, still_queued: usize },
}

/// How a turn ended, as far as the protocol says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnEnd {
    /// The protocol reports an ordinary end. Some agents say this after an error too, so the records have the last word.
    Ended,
    Interrupted,
    Failed {
        words: String,
    },
}

/// One thing that the agent said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The line is open, and this is the agent's own id of the session.
    Ready {
        session: String,
    },
    TurnOpened,
    TurnEnded(TurnEnd),
    Asked(Request),
    /// The request can no longer be answered: it was answered, here or elsewhere, or the agent withdrew it.
    Gone {
        request: String,
    },
    Accepted {
        ticket: Ticket,
        how: Acceptance,
    },
    /// The agent did not take it, in its words; or the protocol cannot say it, in ours.
    Refused {
        ticket: Ticket,
        reason: String,
    },
    /// The line can no longer be used.
    Lost {
        why: String,
    },
}

/// What one step gives: bytes for the agent, and what it said.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub write: Vec<u8>,
    pub said: Vec<Said>,
}

impl Step {
    /// Adds one JSON frame on a line of its own.
    pub(crate) fn frame(&mut self, frame: &Value) {
        self.write.extend_from_slice(frame.to_string().as_bytes());
        self.write.push(b'\n');
    }

    pub(crate) fn say(&mut self, said: Said) {
        self.said.push(said);
    }

    pub(crate) fn accept(&mut self, ticket: Ticket, how: Acceptance) {
        self.say(Said::Accepted { ticket, how });
    }

    pub(crate) fn refuse(&mut self, ticket: Ticket, reason: impl Into<String>) {
        self.say(Said::Refused { ticket, reason: reason.into() });
    }
}

/// What is true of a held session now. It follows from what was said alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldState {
    /// The agent's own id; `None` until it is known.
    pub session: Option<String>,
    pub turn_open: bool,
    /// How the last turn ended; `None` while none has.
    pub last_end: Option<TurnEnd>,
    /// In the order in which they were asked.
    pub pending: Vec<Request>,
    /// Messages in the agent's own queue.
    pub queued: usize,
    /// Why the line can no longer be used.
    pub lost: Option<String>,
}

/// What the agent says of itself and of the session beside its turns: small, and each of it only if it says so.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct About {
    /// What it said when the line was opened.
    pub agent: Option<acp::Greeting>,
    pub model: Option<String>,
    pub mode: Option<String>,
    /// The modes and models that can be chosen now.
    pub modes: Vec<Offered>,
    pub models: Vec<Offered>,
    pub title: Option<String>,
    /// Of the whole session, in US dollars.
    pub cost: Option<f64>,
    /// How full the model's window is.
    pub context: Option<acp::Context>,
}

/// How a held session is started, and how it is spoken with.
pub struct HoldPlan {
    pub spawn: SpawnPlan,
    pub way: HoldWay,
}

impl HoldPlan {
    /// An agent that is spoken with over its standard input and output.
    pub(crate) fn line(spawn: SpawnPlan, protocol: impl Protocol + 'static) -> Self {
        Self { spawn, way: HoldWay::Line(Box::new(protocol)) }
    }

    /// An agent that is spoken with through a server of its own.
    pub(crate) fn server(spawn: SpawnPlan, server: impl PrivateServer + 'static) -> Self {
        Self { spawn, way: HoldWay::Server(Box::new(server)) }
    }
}

/// The way to a held session.
pub enum HoldWay {
    /// The standard input and output of the process are the line, and the runner alone has it.
    Line(Box<dyn Protocol>),
    /// The process is the agent's own server for this session alone. Everybody asks it directly, and it outlives its
    /// runner.
    Server(Box<dyn PrivateServer>),
}

/// One agent's two-way protocol.
pub trait Protocol: Send {
    /// The first bytes for the agent. Called once, before everything else.
    fn open(&mut self) -> Step;

    /// Takes the next bytes that the agent wrote, cut anywhere.
    fn hear(&mut self, bytes: &[u8]) -> Step;

    /// Tells the agent what a caller wants. The ticket is accepted or refused in this step or in a later one. An answer
    /// to a request that is not pending is refused at once.
    fn tell(&mut self, ticket: Ticket, verb: Verb) -> Step;

    /// Takes back a message that waits with us for the end of the turn, because the agent has no queue. Returns whether
    /// it was still here: then it was not delivered and never will be. A ticket that the agent already has is forgotten,
    /// and nothing more is said about it.
    fn withdraw(&mut self, ticket: Ticket) -> bool;

    /// The bytes that end the session in the clean way of the protocol, before the pipe is closed.
    fn close(&mut self) -> Vec<u8>;

    fn state(&self) -> HeldState;

    /// Whether a denial has a place for its reason.
    fn takes_reasons(&self) -> bool;

    /// What else the agent says of itself and the session; `None` where the protocol has nothing to say.
    fn about(&self) -> Option<&About> {
        None
    }
}
