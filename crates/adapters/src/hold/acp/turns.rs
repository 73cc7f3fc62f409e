//! Prompts, and the messages that wait to become one.

use serde_json::json;

use super::agent::Queue;
use super::wire::{BAD_PARAMS, CANCELLED, NO_METHOD, Prompted, RpcError};
use super::{Acp, MOST_WAITING};
use crate::hold::{Acceptance, Said, Step, Ticket, TurnEnd};

/// The agent did not take the prompt at all: it is busy, or does not understand it, or has no such session, or wants
/// somebody to log in. Every other error is how a turn ended.
const NOT_TAKEN: [i64; 5] = [-32600, NO_METHOD, BAD_PARAMS, -32000, -32002];

/// A message that the agent does not have yet.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) ticket: Ticket,
    pub(super) words: String,
    pub(super) as_command: bool,
}

/// How often a prompt is sent again that the agent does not take yet: each time takes one answer of the agent.
const MOST_TRIES: u32 = 1000;

/// A prompt in flight.
#[derive(Debug)]
pub(super) struct Prompt {
    id: u64,
    /// Who waits to hear that it was taken.
    pub(super) ticket: Option<Ticket>,
    /// What to send again, if the agent may not take it yet.
    text: Option<String>,
    tries: u32,
}

impl Acp {
    pub(super) fn send(&mut self, message: Message, step: &mut Step) {
        if let Err(reason) = self.sendable(&message) {
            step.said.push(Said::Refused { ticket: message.ticket, reason });
            return;
        }
        let goes_now = self.prompts.is_empty() || self.agent.queue == Queue::Agent;
        if self.is_set_up && goes_now {
            self.prompt(message, step);
        } else {
            self.waiting.push_back(message);
        }
    }

    fn sendable(&self, message: &Message) -> Result<(), String> {
        if message.words.trim().is_empty() {
            return Err("the message is empty".to_owned());
        }
        if self.waiting.len() >= MOST_WAITING {
            return Err(format!(
                "{MOST_WAITING} messages wait for the end of the turn already: send it later"
            ));
        }
        if message.as_command { Ok(()) } else { self.agent.commands.plain(&message.words).map(drop) }
    }

    fn prompt(&mut self, message: Message, step: &mut Step) {
        let Message { ticket, words, as_command } = message;
        let text = if as_command { words } else { self.agent.commands.plain(&words).unwrap_or(words) };
        let id = self.request_prompt(&text, step);
        if self.prompts.is_empty() {
            step.said.push(Said::TurnOpened);
        } else {
            self.echo(step);
        }
        let text = self.agent.not_yet.map(|_| text);
        self.prompts.push_back(Prompt { id, ticket: Some(ticket), text, tries: 0 });
    }

    fn request_prompt(&mut self, text: &str, step: &mut Step) -> u64 {
        let params = json!({"sessionId": self.session, "prompt": [{"type": "text", "text": text}]});
        self.request("session/prompt", &params, step)
    }

    /// Sends a prompt again that the agent refused because it had not let go of the turn before. Returns whether it did.
    fn sent_again(&mut self, at: usize, error: &RpcError, step: &mut Step) -> bool {
        let prompt = &self.prompts[at];
        let is_early = self.agent.not_yet == Some(error.code) && at == 0 && prompt.ticket.is_some();
        let Some(text) = prompt.text.clone().filter(|_| is_early && prompt.tries < MOST_TRIES) else {
            return false;
        };
        let id = self.request_prompt(&text, step);
        let prompt = &mut self.prompts[at];
        (prompt.id, prompt.tries) = (id, prompt.tries + 1);
        true
    }

    /// Sends what waits, as far as the agent takes it now.
    pub(super) fn send_waiting(&mut self, step: &mut Step) {
        while self.is_set_up
            && (self.prompts.is_empty() || self.agent.queue == Queue::Agent)
            && let Some(message) = self.waiting.pop_front()
        {
            self.prompt(message, step);
        }
    }

    /// Hands over what waits, because the agent asks for it in the middle of the turn. It reads this as text, so a
    /// command stays here, and what was sent after it. A denial or an interrupt may end the turn right now, and what is
    /// handed over then would be remembered and not worked on.
    pub(super) fn drain(&mut self) -> Vec<String> {
        if self.is_denied || !self.interrupts.is_empty() {
            return Vec::new();
        }
        let plain = self.waiting.iter().take_while(|message| !message.as_command).count();
        // The agent asked for them, so it goes on as soon as it has them, and no echo is needed.
        let messages = self.waiting.drain(..plain).map(|message| {
            self.unproven.push((message.ticket, Acceptance::Now, u64::MAX));
            message.words
        });
        messages.collect()
    }

    /// The agent goes on with the turn, so it has taken what it was told before.
    pub(super) fn goes_on(&mut self, step: &mut Step) {
        let unproven = self.unproven.drain(..).map(|(ticket, how, _)| (ticket, how));
        let prompts = self.prompts.iter_mut().enumerate().filter_map(|(index, prompt)| {
            let how = if index == 0 { Acceptance::Now } else { Acceptance::Queued };
            prompt.ticket.take().map(|ticket| (ticket, how))
        });
        let taken = unproven.chain(prompts);
        step.said.extend(taken.map(|(ticket, how)| Said::Accepted { ticket, how }));
    }

    /// A request was answered that only echoes what was said before it. That shows that answers and queued prompts
    /// were read; it does not show that a turn began. A response to an id that was never used shows nothing.
    fn echoed(&mut self, id: u64, step: &mut Step) {
        if id > self.last_id {
            return;
        }
        let answers =
            self.unproven.extract_if(.., |(.., echo)| *echo <= id).map(|(ticket, how, _)| (ticket, how));
        let queued = self.prompts.iter_mut().skip(1).filter(|prompt| prompt.id < id);
        let queued = queued.filter_map(|prompt| Some((prompt.ticket.take()?, Acceptance::Queued)));
        step.said.extend(answers.chain(queued).map(|(ticket, how)| Said::Accepted { ticket, how }));
    }

    /// A prompt was answered, or another request that is not a call.
    pub(super) fn prompt_answered(
        &mut self,
        id: u64,
        outcome: Result<Option<Prompted>, RpcError>,
        step: &mut Step,
    ) {
        let Some(at) = self.prompts.iter().position(|prompt| prompt.id == id) else {
            return self.echoed(id, step);
        };
        if let Err(error) = &outcome
            && self.sent_again(at, error, step)
        {
            return;
        }
        if let Err(error) = &outcome
            && NOT_TAKEN.contains(&error.code)
            && let Some(ticket) = self.prompts[at].ticket.take()
        {
            step.said.push(Said::Refused { ticket, reason: error.words() });
        }
        self.goes_on(step);
        self.prompts.remove(at);
        let end = match outcome {
            Ok(prompted) => {
                let prompted = prompted.unwrap_or_default();
                let end = match (end(prompted.stop_reason.as_deref()), self.failure.take()) {
                    (TurnEnd::Ended, Some(words)) => TurnEnd::Failed { words },
                    (end, _) => end,
                };
                let quota = prompted.meta.and_then(|meta| meta.quota).and_then(|quota| quota.token_count);
                self.usage.take_tokens(prompted.usage.or(quota), self.agent.tokens);
                end
            }
            Err(error) if error.code == CANCELLED => TurnEnd::Interrupted,
            Err(error) => TurnEnd::Failed { words: error.words() },
        };
        // A prompt that leaves the queue before its turn ends no turn.
        if at == 0 {
            self.turn_ended(end, step);
        }
    }

    fn turn_ended(&mut self, end: TurnEnd, step: &mut Step) {
        let still_queued = self.prompts.len();
        if still_queued == 0 {
            self.drop_requests(step);
            self.calls.clear();
        }
        self.is_denied = false;
        step.said.push(Said::TurnEnded(end.clone()));
        self.last_end = Some(end);
        let how = Acceptance::Interrupted { was_open: true, still_queued };
        step.said.extend(self.interrupts.drain(..).map(|ticket| Said::Accepted { ticket, how }));
        if still_queued > 0 {
            step.said.push(Said::TurnOpened);
        }
        self.send_waiting(step);
    }
}

/// What the protocol says of an end. The last three leave the work undone, for a reason that it names.
fn end(stop_reason: Option<&str>) -> TurnEnd {
    let failed = |words: &str| TurnEnd::Failed { words: words.to_owned() };
    match stop_reason {
        Some("cancelled") => TurnEnd::Interrupted,
        Some("max_tokens") => failed("the model reached its limit of tokens"),
        Some("max_turn_requests") => failed("the agent reached its limit of model requests in one turn"),
        Some("refusal") => failed("the agent refused to go on"),
        _ => TurnEnd::Ended,
    }
}
