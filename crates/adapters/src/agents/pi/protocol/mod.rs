//! Pi over its pipes (`--mode rpc`): commands and their responses, events, and the dialogs of extensions.

mod dialog;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::hold::json_lines::{Answered, JsonLines, Requests};
use crate::hold::lines::Lines;
use crate::hold::{Acceptance, Decision, HeldState, Said, Step, Ticket, TurnEnd};
use dialog::{Dialog, Shown};

/// Our question for the state, whose response names the session.
const STATE: &str = "state";

/// The machine for one process of Pi.
#[derive(Default)]
pub struct Rpc {
    lines: Lines,
    session: Option<String>,
    turn_open: bool,
    last_end: Option<TurnEnd>,
    /// How the agent's last message of the turn failed.
    failure: Option<String>,
    queued: usize,
    dialogs: Requests<Dialog>,
    /// Tool calls that run.
    calls: Vec<String>,
    /// Commands without a response.
    commands: Vec<Command>,
}

struct Command {
    id: String,
    /// Who waits for it; `None` once the ticket was withdrawn.
    ticket: Option<Ticket>,
    what: What,
}

enum What {
    Send,
    /// Follows an answer: its response shows that the answer was read.
    Answer,
    Interrupt {
        was_open: bool,
    },
}

#[derive(Deserialize)]
struct Response {
    id: Option<String>,
    #[serde(default)]
    success: bool,
    error: Option<String>,
    #[serde(default)]
    data: Value,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(rename = "stopReason")]
    stop_reason: Option<String>,
    #[serde(rename = "errorMessage")]
    error: Option<String>,
}

#[derive(Deserialize)]
struct MessageEnd {
    message: Message,
}

#[derive(Deserialize)]
struct Queue {
    #[serde(default)]
    steering: Vec<Value>,
    #[serde(default, rename = "followUp")]
    follow_up: Vec<Value>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(rename = "toolCallId")]
    id: String,
}

#[derive(Deserialize)]
struct Settled {
    #[serde(default)]
    aborted: bool,
}

impl Rpc {
    pub fn new() -> Self {
        Self::default()
    }

    fn command(&mut self, ticket: Ticket, what: What, mut frame: Value, step: &mut Step) {
        let id = match what {
            What::Send => format!("send-{}", ticket.0),
            What::Answer => format!("answer-{}", ticket.0),
            What::Interrupt { .. } => format!("interrupt-{}", ticket.0),
        };
        frame["id"] = json!(id);
        step.frame(&frame);
        self.commands.push(Command { id, ticket: Some(ticket), what });
    }

    /// `None` for a line that is none of Pi's.
    fn take(&mut self, line: &[u8], step: &mut Step) -> Option<()> {
        #[derive(Deserialize)]
        struct Head<'a> {
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
        }
        fn whole<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
            serde_json::from_slice(line).ok()
        }
        let head: Head<'_> = serde_json::from_slice(line).ok()?;
        match head.kind.as_ref() {
            "response" => self.responded(&whole(line)?, step),
            "agent_start" => self.open_turn(step),
            "message_end" => self.said(whole::<MessageEnd>(line)?.message),
            "agent_settled" => self.settled(&whole(line)?, step),
            "queue_update" => {
                let queue: Queue = whole(line)?;
                self.queued = queue.steering.len() + queue.follow_up.len();
            }
            "tool_execution_start" => self.calls.push(whole::<Call>(line)?.id),
            "tool_execution_end" => self.call_ended(&whole(line)?, step),
            "extension_ui_request" => self.asks(Dialog::read(whole::<Shown>(line)?)?, step),
            _ => {}
        }
        Some(())
    }

    fn open_turn(&mut self, step: &mut Step) {
        if !self.turn_open {
            self.turn_open = true;
            self.failure = None;
            step.say(Said::TurnOpened);
        }
    }

    fn said(&mut self, message: Message) {
        if message.role == "assistant" {
            let is_error = message.stop_reason.as_deref() == Some("error");
            let words = message.error.unwrap_or_else(|| "the model failed".to_owned());
            self.failure = is_error.then_some(words);
        }
    }

    fn settled(&mut self, settled: &Settled, step: &mut Step) {
        self.open_turn(step);
        for command in &mut self.commands {
            if let What::Interrupt { was_open } = &mut command.what {
                *was_open = settled.aborted;
            }
        }
        self.turn_open = false;
        self.calls.clear();
        // After an abort the last message may say either that it was aborted or that it failed.
        let end = match self.failure.take() {
            _ if settled.aborted => TurnEnd::Interrupted,
            Some(words) => TurnEnd::Failed { words },
            None => TurnEnd::Ended,
        };
        self.last_end = Some(end.clone());
        step.say(Said::TurnEnded(end));
        // A dialog of a tool call is over with the turn, and one that closes itself is taken to be.
        self.dialogs.end(|one| one.closes_itself || !one.calls.is_empty(), step);
    }

    fn call_ended(&mut self, call: &Call, step: &mut Step) {
        self.calls.retain(|id| *id != call.id);
        let running = &self.calls;
        let mut over = Vec::new();
        for dialog in self.dialogs.iter_mut().filter(|one| one.calls.contains(&call.id)) {
            dialog.calls.retain(|id| running.contains(id));
            if dialog.calls.is_empty() {
                over.push(dialog.request.id.clone());
            }
        }
        self.dialogs.end(|one| over.contains(&one.request.id), step);
    }

    fn asks(&mut self, mut dialog: Dialog, step: &mut Step) {
        // It was opened before Pi read our abort, and would hold it up.
        if self.commands.iter().any(|one| matches!(one.what, What::Interrupt { .. })) {
            return step.frame(&dialog.cancel());
        }
        dialog.calls.clone_from(&self.calls);
        self.dialogs.ask(dialog, step);
    }

    fn responded(&mut self, response: &Response, step: &mut Step) {
        // Every response that names the session is welcome: a command may have gone on under another id.
        if let Some(session) = response.data["sessionId"].as_str()
            && self.session.as_deref() != Some(session)
        {
            self.session = Some(session.to_owned());
            step.say(Said::Ready { session: session.to_owned() });
        }
        let Some(index) = self.commands.iter().position(|one| Some(&one.id) == response.id.as_ref()) else {
            return;
        };
        let command = self.commands.remove(index);
        let disposition = response.data["disposition"].as_str();
        if disposition == Some("handled") {
            step.frame(&json!({"id": STATE, "type": "get_state"}));
        }
        if let What::Answer = command.what {
            return self.dialogs.end(|one| one.answered == Some(Answered(command.ticket)), step);
        }
        let Some(ticket) = command.ticket else { return };
        if !response.success {
            return step.refuse(ticket, response.error.as_deref().unwrap_or("Pi refused it"));
        }
        step.accept(
            ticket,
            match command.what {
                What::Interrupt { was_open } => {
                    Acceptance::Interrupted { was_open, still_queued: self.queued }
                }
                _ if disposition == Some("queued") => Acceptance::Queued,
                _ => Acceptance::Now,
            },
        );
    }
}

impl JsonLines for Rpc {
    const TAKES_REASONS: bool = false;

    fn begin(&mut self, step: &mut Step) {
        step.frame(&json!({"id": STATE, "type": "get_state"}));
    }

    fn lines(&mut self) -> &mut Lines {
        &mut self.lines
    }

    fn heard(&mut self, line: &[u8], step: &mut Step) {
        // What is no frame of Pi's means nothing here.
        let _ = self.take(line, step);
    }

    fn send(&mut self, ticket: Ticket, words: &str, as_command: bool, step: &mut Step) {
        // Pi looks for a command, a skill or a template only at the very first character.
        let is_hidden_command = !as_command && words.starts_with('/');
        let message = if is_hidden_command { format!(" {words}") } else { words.to_owned() };
        // Without a turn the behaviour in a turn means nothing, and so it does not matter which of the two Pi finds.
        let frame = json!({"type": "prompt", "message": message, "streamingBehavior": "steer"});
        self.command(ticket, What::Send, frame, step);
    }

    fn answer(&mut self, ticket: Ticket, request: &str, decision: &Decision, step: &mut Step) {
        let Some(dialog) = self.dialogs.answerable(request, ticket, step) else { return };
        match dialog.response(decision) {
            Ok(response) => {
                step.frame(&response);
                dialog.answered = Some(Answered(Some(ticket)));
                // Pi confirms no answer, but it reads its lines in order.
                self.command(ticket, What::Answer, json!({"type": "get_state"}), step);
            }
            Err(reason) => step.refuse(ticket, reason),
        }
    }

    /// Pi does not respond to an abort while a dialog is open, so the dialogs are closed first.
    fn interrupt(&mut self, ticket: Ticket, step: &mut Step) {
        for dialog in self.dialogs.iter().filter(|one| one.answered.is_none()) {
            step.frame(&dialog.cancel());
        }
        self.dialogs.end(|one| one.answered.is_none(), step);
        let what = What::Interrupt { was_open: self.turn_open };
        self.command(ticket, what, json!({"type": "abort"}), step);
    }

    fn tickets(&mut self) -> impl Iterator<Item = &mut Option<Ticket>> {
        self.commands.iter_mut().map(|one| &mut one.ticket).chain(self.dialogs.tickets())
    }

    fn now(&self) -> HeldState {
        HeldState {
            session: self.session.clone(),
            turn_open: self.turn_open,
            last_end: self.last_end.clone(),
            pending: self.dialogs.pending(),
            queued: self.queued,
            lost: None,
        }
    }
}
