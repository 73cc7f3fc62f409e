//! The Agent Client Protocol, version 1, as a client speaks it: any agent that offers it can be held.
//!
//! A turn is open while a `session/prompt` is in flight. The protocol acknowledges nothing but the prompt itself, with
//! its end. So what we said counts as taken when the agent next goes on with the turn: it says something of it, asks
//! for something, or ends it. Some agents are silent until an allowed tool has run, so an answer is followed by a
//! request that no agent knows: agents read in order, so its response shows that the answer was read. Nothing of the
//! conversation is kept but what is pending.

mod about;
pub mod agent;
mod asked;
mod calls;
mod form;
mod greeting;
mod hear;
pub mod inventory;
pub(crate) mod plan;
mod settings;
#[cfg(test)]
mod tests;
mod turns;
mod usage;
mod wire;

use std::collections::VecDeque;

use serde_json::{Value, json};

pub use self::agent::Agent;
use self::agent::Choice;
use self::asked::Asked;
use self::calls::Calls;
pub use self::greeting::{Capabilities, Greeting};
use self::settings::Setting;
use self::turns::{Message, Prompt};
pub use self::usage::{Context, Tokens, Usage};
use super::lines::Lines;
use super::{
    About, Acceptance, Decision, HeldState, Offered, Preference, Protocol, Said, Step, Ticket, TurnEnd, Verb,
};

/// More requests than this never wait at once; the agent gets no answer to decide by for the others.
const MOST_PENDING: usize = 64;
/// All summaries that wait are at most this long together.
const LONGEST_PENDING: usize = super::lines::LONGEST;
/// No agent's id is nearly as long.
const LONGEST_ID: usize = 200;
/// More messages than this never wait here for the end of a turn.
const MOST_WAITING: usize = 64;

/// How the session begins.
#[derive(Debug, Clone)]
pub struct Opening {
    /// Where the agent works.
    pub cwd: String,
    pub start: Start,
    /// The permission mode: the first of these that the agent offers. See [`agent::choices`].
    pub modes: &'static [Choice],
    pub model: Option<String>,
    /// Names this process of the agent among all that ever held the session. It completes the ids of requests that
    /// belong to no tool call.
    pub launch: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    New,
    /// Go on with a session. Only the caller knows whether the agent may load it: loading a session that another
    /// process owns destroys it in Gemini.
    Continue {
        session: String,
        may_load: bool,
    },
}

/// The client's side of one line.
#[derive(Debug)]
pub struct Acp {
    agent: Agent,
    opening: Opening,
    lines: Lines,
    last_id: u64,
    /// What was asked of the agent besides prompts.
    call: Option<(u64, Call)>,
    /// The session is open and set up: prompts can be sent.
    is_set_up: bool,
    about: About,
    session: Option<String>,
    settings: VecDeque<Setting>,
    /// What the agent offers, and how it is set.
    offers: Vec<(Preference, Offered, Setting)>,
    /// What was chosen and is not confirmed yet, by the id of the request. `None` once the ticket was withdrawn.
    chosen: Vec<(u64, Option<Ticket>, Setting)>,
    /// In flight, in the order in which they were sent.
    prompts: VecDeque<Prompt>,
    /// Not sent yet.
    waiting: VecDeque<Message>,
    asked: Vec<Asked>,
    /// How many requests the agent has made, and the highest number among their ids.
    requests: u64,
    highest: Option<u64>,
    /// What counts as taken as soon as the agent goes on, with the id of the request that echoes it.
    unproven: Vec<(Ticket, Acceptance, u64)>,
    interrupts: Vec<Ticket>,
    /// Something was denied in the open turn.
    is_denied: bool,
    calls: Calls,
    usage: Usage,
    /// The notice of a failure that the agent wrote last.
    failure: Option<String>,
    last_end: Option<TurnEnd>,
    lost: Option<String>,
}

/// A request of ours that is not a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    Initialize,
    Open,
    Set(Setting),
}

impl Acp {
    pub fn new(agent: Agent, opening: Opening) -> Self {
        Self {
            agent,
            opening,
            lines: Lines::default(),
            last_id: 0,
            call: None,
            is_set_up: false,
            about: About::default(),
            session: None,
            settings: VecDeque::new(),
            offers: Vec::new(),
            chosen: Vec::new(),
            prompts: VecDeque::new(),
            waiting: VecDeque::new(),
            asked: Vec::new(),
            requests: 0,
            highest: None,
            unproven: Vec::new(),
            interrupts: Vec::new(),
            is_denied: false,
            calls: Calls::default(),
            usage: Usage::default(),
            failure: None,
            last_end: None,
            lost: None,
        }
    }

    /// What `initialize` said; `None` until it was answered.
    pub fn greeting(&self) -> Option<&Greeting> {
        self.about.agent.as_ref()
    }

    pub fn usage(&self) -> Usage {
        self.usage
    }

    fn request(&mut self, method: &str, params: &Value, step: &mut Step) -> u64 {
        self.last_id += 1;
        step.write.extend(wire::request(self.last_id, method, params));
        self.last_id
    }

    /// Asks for something that no agent knows. The response shows that everything before it was read.
    fn echo(&mut self, step: &mut Step) -> u64 {
        self.request("_agentctl/echo", &json!({}), step)
    }

    /// Gives the line up. Whatever still waits for the agent is refused.
    fn lose(&mut self, why: String, step: &mut Step) {
        let waiting = self.waiting.drain(..).map(|message| message.ticket);
        let prompts = self.prompts.drain(..).filter_map(|prompt| prompt.ticket);
        let unproven = self.unproven.drain(..).map(|(ticket, ..)| ticket);
        let chosen = self.chosen.drain(..).filter_map(|(_, ticket, _)| ticket);
        let tickets = waiting.chain(prompts).chain(unproven).chain(chosen).chain(self.interrupts.drain(..));
        step.said.extend(tickets.map(|ticket| Said::Refused { ticket, reason: why.clone() }));
        self.drop_requests(step);
        self.call = None;
        self.is_set_up = false;
        self.calls.clear();
        step.said.push(Said::Lost { why: why.clone() });
        self.lost = Some(why);
    }

    /// The requests can no longer be answered.
    fn drop_requests(&mut self, step: &mut Step) {
        step.said.extend(self.asked.drain(..).map(|asked| Said::Gone { request: asked.request.id }));
    }

    /// Answers every request without a decision, as the protocol wants it before a turn is cancelled.
    fn cancel_requests(&mut self, step: &mut Step) {
        for asked in &self.asked {
            step.write.extend(wire::result(&asked.rpc, &asked.cancelled()));
        }
        self.drop_requests(step);
    }

    fn answer(&mut self, ticket: Ticket, request: &str, decision: &Decision, step: &mut Step) {
        let Some(at) = self.asked.iter().position(|asked| asked.request.id == request) else {
            let reason = "the request no longer waits".to_owned();
            step.said.push(Said::Refused { ticket, reason });
            return;
        };
        match self.asked[at].answer(decision) {
            Ok(result) => {
                let asked = self.asked.remove(at);
                self.is_denied |= matches!(decision, Decision::Deny { .. });
                step.write.extend(wire::result(&asked.rpc, &result));
                step.said.push(Said::Gone { request: asked.request.id });
                let echo = self.echo(step);
                self.unproven.push((ticket, Acceptance::Answered, echo));
            }
            Err(reason) => step.said.push(Said::Refused { ticket, reason }),
        }
    }

    fn choose(&mut self, ticket: Ticket, what: Preference, id: &str, step: &mut Step) {
        let is_it = |offer: &&(Preference, Offered, Setting)| offer.0 == what && offer.1.id == id;
        let setting = self.offers.iter().find(is_it).map(|(.., setting)| setting.clone());
        let Some((setting, session)) = setting.zip(self.session.clone()).filter(|_| self.is_set_up) else {
            step.refuse(ticket, "the agent does not offer this");
            return;
        };
        let id = self.request(setting.method(), &setting.params(&session), step);
        self.chosen.push((id, Some(ticket), setting));
    }

    fn interrupt(&mut self, ticket: Ticket, step: &mut Step) {
        let Some(session) = self.session.as_ref().filter(|_| !self.prompts.is_empty()) else {
            let how = Acceptance::Interrupted { was_open: false, still_queued: 0 };
            step.said.push(Said::Accepted { ticket, how });
            return;
        };
        step.write.extend(wire::notification("session/cancel", &json!({"sessionId": session})));
        self.cancel_requests(step);
        self.interrupts.push(ticket);
    }
}

/// What we say of ourselves. Agents use their own tools when the client offers none, so the work does not depend on us.
fn initialize_params() -> Value {
    json!({
        "protocolVersion": wire::VERSION,
        "clientCapabilities": {
            "fs": {"readTextFile": false, "writeTextFile": false},
            "terminal": false,
            "elicitation": {"form": {}},
        },
        "clientInfo": {"name": "agentctl", "title": "agentctl", "version": env!("CARGO_PKG_VERSION")},
    })
}

impl Protocol for Acp {
    fn open(&mut self) -> Step {
        let mut step = Step::default();
        let id = self.request("initialize", &initialize_params(), &mut step);
        self.call = Some((id, Call::Initialize));
        step
    }

    fn hear(&mut self, bytes: &[u8]) -> Step {
        let mut step = Step::default();
        for line in self.lines.take(bytes) {
            self.hear_line(&line, &mut step);
        }
        step
    }

    fn tell(&mut self, ticket: Ticket, verb: Verb) -> Step {
        let mut step = Step::default();
        if let Some(why) = &self.lost {
            step.said.push(Said::Refused { ticket, reason: why.clone() });
            return step;
        }
        match verb {
            Verb::Send { words, as_command } => self.send(Message { ticket, words, as_command }, &mut step),
            Verb::Answer { request, decision } => self.answer(ticket, &request, &decision, &mut step),
            Verb::Interrupt => self.interrupt(ticket, &mut step),
            Verb::Choose { what, id } => self.choose(ticket, what, &id, &mut step),
        }
        step
    }

    fn withdraw(&mut self, ticket: Ticket) -> bool {
        if let Some(at) = self.waiting.iter().position(|message| message.ticket == ticket) {
            self.waiting.remove(at);
            return true;
        }
        for prompt in &mut self.prompts {
            prompt.ticket = prompt.ticket.filter(|one| *one != ticket);
        }
        self.unproven.retain(|(one, ..)| *one != ticket);
        for (_, chosen, _) in &mut self.chosen {
            *chosen = chosen.filter(|one| *one != ticket);
        }
        self.interrupts.retain(|one| *one != ticket);
        false
    }

    fn close(&mut self) -> Vec<u8> {
        let mut step = Step::default();
        let Some(session) = self.session.clone().filter(|_| self.lost.is_none()) else { return step.write };
        let params = json!({"sessionId": session});
        if !self.prompts.is_empty() {
            step.write.extend(wire::notification("session/cancel", &params));
        }
        self.cancel_requests(&mut step);
        if self.greeting().is_some_and(|greeting| greeting.capabilities.close) {
            self.request("session/close", &params, &mut step);
        }
        step.write
    }

    fn state(&self) -> HeldState {
        HeldState {
            session: self.session.as_deref().map(|session| self.own_name(session).to_owned()),
            turn_open: !self.prompts.is_empty(),
            last_end: self.last_end.clone(),
            pending: self.asked.iter().map(|asked| asked.request.clone()).collect(),
            queued: self.prompts.len().saturating_sub(1),
            lost: self.lost.clone(),
        }
    }

    /// The protocol has no place for one.
    fn takes_reasons(&self) -> bool {
        false
    }

    fn about(&self) -> Option<&About> {
        Some(&self.about)
    }
}
