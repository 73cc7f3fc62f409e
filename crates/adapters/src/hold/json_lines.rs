//! What agents have in common that write lines of JSON, queue messages themselves and end with their input.

use super::lines::{Line, Lines};
use super::{Acceptance, Decision, HeldState, Protocol, Request, Said, Step, Ticket, Verb};

/// One such agent. Everything else about its protocol is the same for all of them.
pub(crate) trait JsonLines: Send {
    /// The first frames for the agent.
    fn begin(&mut self, step: &mut Step);

    fn lines(&mut self) -> &mut Lines;

    fn heard(&mut self, line: &[u8], step: &mut Step);

    fn send(&mut self, ticket: Ticket, words: &str, as_command: bool, step: &mut Step);

    fn answer(&mut self, ticket: Ticket, request: &str, decision: &Decision, step: &mut Step);

    fn interrupt(&mut self, ticket: Ticket, step: &mut Step);

    /// Everything that somebody waits for and that the agent has.
    fn tickets(&mut self) -> impl Iterator<Item = &mut Option<Ticket>>;

    fn now(&self) -> HeldState;

    /// Whether a denial has a place for its reason.
    const TAKES_REASONS: bool;
}

impl<Agent: JsonLines> Protocol for Agent {
    fn open(&mut self) -> Step {
        let mut step = Step::default();
        self.begin(&mut step);
        step
    }

    fn hear(&mut self, bytes: &[u8]) -> Step {
        let mut step = Step::default();
        for line in self.lines().take(bytes) {
            // Only what tools and models wrote can be this long, and nothing here depends on it.
            let Line::Whole(line) = line else { continue };
            self.heard(&line, &mut step);
        }
        step
    }

    fn tell(&mut self, ticket: Ticket, verb: Verb) -> Step {
        let mut step = Step::default();
        match verb {
            Verb::Send { words, .. } if words.trim().is_empty() => {
                step.refuse(ticket, "there are no words to send");
            }
            Verb::Send { words, as_command } => self.send(ticket, &words, as_command, &mut step),
            Verb::Answer { request, decision } => self.answer(ticket, &request, &decision, &mut step),
            Verb::Interrupt => self.interrupt(ticket, &mut step),
            Verb::Choose { .. } => {
                step.refuse(ticket, "this agent cannot be asked for another mode or model")
            }
        }
        step
    }

    /// The agent has all messages, so nothing is here that could be taken back.
    fn withdraw(&mut self, ticket: Ticket) -> bool {
        self.tickets().filter(|held| **held == Some(ticket)).for_each(|held| *held = None);
        false
    }

    /// The end of its input is what the agent takes as the end.
    fn close(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn state(&self) -> HeldState {
        self.now()
    }

    fn takes_reasons(&self) -> bool {
        Self::TAKES_REASONS
    }
}

/// A request whose answer was written and is not confirmed yet: who answered; `None` once the ticket was withdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answered(pub(crate) Option<Ticket>);

/// A request that waits for its answer, as one agent's protocol keeps it.
pub(crate) trait Waits {
    fn request(&self) -> &Request;

    fn answered(&mut self) -> &mut Option<Answered>;
}

/// The requests that wait, in the order in which they were asked.
pub(crate) struct Requests<Asked>(Vec<Asked>);

impl<Asked> Default for Requests<Asked> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<Asked: Waits> Requests<Asked> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Asked> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Asked> {
        self.0.iter_mut()
    }

    /// The agent asks. A request that is repeated while it waits is the same request.
    pub(crate) fn ask(&mut self, asked: Asked, step: &mut Step) {
        if self.0.iter().all(|one| one.request().id != asked.request().id) {
            step.say(Said::Asked(asked.request().clone()));
            self.0.push(asked);
        }
    }

    /// The request with this id if it can be answered; otherwise the ticket is refused.
    pub(crate) fn answerable(&mut self, id: &str, ticket: Ticket, step: &mut Step) -> Option<&mut Asked> {
        let Some(found) = self.0.iter_mut().find(|one| one.request().id == id) else {
            step.refuse(ticket, "the agent no longer waits for this");
            return None;
        };
        if found.answered().is_some() {
            step.refuse(ticket, "this was answered a moment ago");
            return None;
        }
        Some(found)
    }

    /// Forgets requests that are over, and confirms the answers that ended them.
    pub(crate) fn end(&mut self, is_over: impl Fn(&Asked) -> bool, step: &mut Step) {
        for mut over in self.0.extract_if(.., |one| is_over(one)) {
            if let Some(Answered(Some(ticket))) = *over.answered() {
                step.accept(ticket, Acceptance::Answered);
            }
            step.say(Said::Gone { request: over.request().id.clone() });
        }
    }

    pub(crate) fn tickets(&mut self) -> impl Iterator<Item = &mut Option<Ticket>> {
        self.0.iter_mut().filter_map(|one| Some(&mut one.answered().as_mut()?.0))
    }

    pub(crate) fn pending(&self) -> Vec<Request> {
        self.0.iter().map(|one| one.request().clone()).collect()
    }
}
