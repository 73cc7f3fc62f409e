//! Claude Code over its pipes: lines of JSON in both directions, with requests on top (`--input-format stream-json
//! --output-format stream-json --verbose --permission-prompt-tool stdio --replay-user-messages`, and
//! `CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS=1`).
//!
//! The agent ends itself at the first line that is no JSON, so nothing else is ever written.

mod asked;
mod field;
mod frames;
#[cfg(test)]
mod tests;

use ring::digest;
use serde_json::{Value, json};

use crate::hold::json_lines::{Answered, JsonLines, Requests};
use crate::hold::lines::Lines;
use crate::hold::{Acceptance, Decision, HeldState, Said, Step, Ticket, TurnEnd};
use asked::Asked;
use frames::{Frame, Lifecycle, Outcome, Response, System, User};

/// Our request with which the line is opened.
const OPENING: &str = "open";

/// The machine for one process of Claude Code.
pub struct StreamJson {
    lines: Lines,
    session: String,
    nonce: String,
    is_ready: bool,
    turn_open: bool,
    /// The turn has begun its work, so a message that is queued now waits behind it. The agent calls itself running before
    /// it queues the very message that opens the turn.
    is_at_work: bool,
    last_end: Option<TurnEnd>,
    /// Messages that the agent has not begun to work on.
    messages: Vec<Message>,
    asked: Requests<Asked>,
    interrupts: Vec<Interrupt>,
}

struct Message {
    uuid: String,
    /// Who waits for its acceptance.
    ticket: Option<Ticket>,
    is_queued: bool,
}

struct Interrupt {
    request_id: String,
    /// Who waits for it; `None` once the ticket was withdrawn.
    ticket: Option<Ticket>,
    /// How many messages stay queued; `None` until the agent has agreed.
    still_queued: Option<usize>,
}

impl StreamJson {
    /// The session's id is the one that the agent is started with or resumes. The nonce makes the ids of our messages
    /// differ from those of every earlier process of the session, because the agent remembers them.
    pub fn new(session: impl Into<String>, nonce: impl Into<String>) -> Self {
        Self {
            lines: Lines::default(),
            session: session.into(),
            nonce: nonce.into(),
            is_ready: false,
            turn_open: false,
            is_at_work: false,
            last_end: None,
            messages: Vec::new(),
            asked: Requests::default(),
            interrupts: Vec::new(),
        }
    }

    /// The id of the message with this ticket.
    fn uuid(&self, ticket: Ticket) -> String {
        let seed = format!("{}\n{}\n{}", self.session, self.nonce, ticket.0);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest::digest(&digest::SHA256, seed.as_bytes()).as_ref()[..16]);
        bytes[6] = 0x80 | (bytes[6] & 0x0f);
        bytes[8] = 0x80 | (bytes[8] & 0x3f);
        let hex = data_encoding::HEXLOWER.encode(&bytes);
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    fn moved(&mut self, lifecycle: &Lifecycle, step: &mut Step) {
        let found = self.messages.iter().position(|one| one.uuid == lifecycle.command_uuid);
        match lifecycle.state.as_str() {
            "queued" => {
                if let Some(index) = found {
                    self.messages[index].is_queued = true;
                }
                if self.is_at_work {
                    self.tell_queued(step);
                }
            }
            "started" => {
                self.open_turn(step);
                self.begun(&lifecycle.command_uuid, step);
            }
            "completed" => self.begun(&lifecycle.command_uuid, step),
            "cancelled" => {
                let dropped = found.map(|index| self.messages.remove(index));
                if let Some(ticket) = dropped.and_then(|one| one.ticket) {
                    step.refuse(ticket, "the agent dropped the message before it began with it");
                }
            }
            _ => {}
        }
    }

    /// The agent works on this message, or did.
    fn begun(&mut self, uuid: &str, step: &mut Step) {
        let Some(index) = self.messages.iter().position(|one| one.uuid == uuid) else { return };
        if let Some(ticket) = self.messages.remove(index).ticket {
            step.accept(ticket, Acceptance::Now);
        }
    }

    fn tell_queued(&mut self, step: &mut Step) {
        for message in self.messages.iter_mut().filter(|one| one.is_queued) {
            if let Some(ticket) = message.ticket.take() {
                step.accept(ticket, Acceptance::Queued);
            }
        }
    }

    fn told(&mut self, system: System, step: &mut Step) {
        match (system.subtype.as_str(), system.state.as_deref()) {
            ("init", _) => {
                // A command such as `/clear` goes on under another id.
                self.ready(system.session_id, step);
                self.open_turn(step);
                self.is_at_work = true;
                self.tell_queued(step);
            }
            ("session_state_changed", Some("running" | "requires_action")) => self.open_turn(step),
            ("session_state_changed", Some("idle")) => self.close_turn(TurnEnd::Ended, step),
            _ => {}
        }
    }

    fn ready(&mut self, session: Option<String>, step: &mut Step) {
        let session = session.unwrap_or_else(|| self.session.clone());
        if !self.is_ready || session != self.session {
            self.is_ready = true;
            self.session.clone_from(&session);
            step.say(Said::Ready { session });
        }
    }

    fn open_turn(&mut self, step: &mut Step) {
        if !self.turn_open {
            self.turn_open = true;
            step.say(Said::TurnOpened);
        }
    }

    fn close_turn(&mut self, end: TurnEnd, step: &mut Step) {
        self.is_at_work = false;
        if self.turn_open {
            self.turn_open = false;
            self.last_end = Some(end.clone());
            step.say(Said::TurnEnded(end));
            for done in self.interrupts.extract_if(.., |one| one.still_queued.is_some()) {
                if let (Some(ticket), Some(still_queued)) = (done.ticket, done.still_queued) {
                    step.accept(ticket, Acceptance::Interrupted { was_open: true, still_queued });
                }
            }
        }
    }

    fn replayed(&mut self, user: &User, step: &mut Step) {
        if user.is_replay
            && let Some(uuid) = &user.uuid
        {
            self.begun(uuid, step);
        }
        // A call that has its result waits for nobody, even if the agent did not say so.
        for call in user.finished_calls() {
            self.asked.end(|one| one.call.as_deref() == Some(call), step);
        }
    }

    fn ended(&mut self, outcome: Outcome, step: &mut Step) {
        for uuid in &outcome.user_message_uuids {
            self.begun(uuid, step);
        }
        self.open_turn(step);
        let end = match outcome.terminal_reason.as_deref() {
            Some(reason) if reason.starts_with("aborted") => TurnEnd::Interrupted,
            _ if outcome.is_error => TurnEnd::Failed { words: complaint(outcome) },
            _ => TurnEnd::Ended,
        };
        self.close_turn(end, step);
    }

    fn responded(&mut self, response: &Response, step: &mut Step) {
        if response.request_id == OPENING {
            return self.ready(None, step);
        }
        if let Some(index) = self.interrupts.iter().position(|one| one.request_id == response.request_id) {
            let still_queued = response.content["still_queued"].as_array().map_or(0, Vec::len);
            let agrees = response.subtype.as_deref() == Some("success");
            // The turn's end is always told after this response, and is what the caller waits for.
            if agrees && self.turn_open {
                self.interrupts[index].still_queued = Some(still_queued);
                return;
            }
            let Some(ticket) = self.interrupts.remove(index).ticket else { return };
            if !agrees {
                let reason = response.error.as_deref().unwrap_or("the agent did not interrupt the turn");
                return step.refuse(ticket, reason);
            }
            return step.accept(ticket, Acceptance::Interrupted { was_open: false, still_queued });
        }
        // The agent repeats our own response once it has taken it.
        self.asked.end(|one| one.request_id == response.request_id && one.answered.is_some(), step);
    }

    /// An answer that met this on its way is not taken.
    fn withdrawn(&mut self, request_id: &str, step: &mut Step) {
        for asked in self.asked.iter_mut().filter(|one| one.request_id == request_id) {
            if let Some(Answered(Some(ticket))) = asked.answered.take() {
                step.refuse(ticket, "the agent withdrew the request");
            }
        }
        self.asked.end(|one| one.request_id == request_id, step);
    }
}

impl JsonLines for StreamJson {
    const TAKES_REASONS: bool = true;

    fn begin(&mut self, step: &mut Step) {
        // The agent says nothing of its own accord before the first message.
        step.frame(&json!({
            "type": "control_request", "request_id": OPENING, "request": {"subtype": "initialize"},
        }));
    }

    fn lines(&mut self) -> &mut Lines {
        &mut self.lines
    }

    fn heard(&mut self, line: &[u8], step: &mut Step) {
        let Some(frame) = Frame::read(line) else { return };
        match frame {
            Frame::Lifecycle(lifecycle) => self.moved(&lifecycle, step),
            Frame::System(system) => self.told(system, step),
            Frame::User(user) => self.replayed(&user, step),
            Frame::Result(outcome) => self.ended(outcome, step),
            Frame::Asks(asks) => match Asked::read(&asks) {
                Some(asked) => self.asked.ask(asked, step),
                // The agent waits for every response, so it gets one.
                None => step.frame(&json!({"type": "control_response", "response": {
                    "subtype": "error", "request_id": asks.request_id, "error": "not supported here",
                }})),
            },
            Frame::Responds(response) => self.responded(&response, step),
            Frame::Withdraws(request_id) => self.withdrawn(&request_id, step),
        }
    }

    fn send(&mut self, ticket: Ticket, words: &str, as_command: bool, step: &mut Step) {
        let text = match plain(words) {
            _ if as_command => words.to_owned(),
            Ok(text) => text,
            Err(reason) => return step.refuse(ticket, reason),
        };
        let uuid = self.uuid(ticket);
        let content = json!([{"type": "text", "text": text}]);
        step.frame(&json!({"type": "user", "uuid": uuid, "message": {"role": "user", "content": content}}));
        self.messages.push(Message { uuid, ticket: Some(ticket), is_queued: false });
    }

    fn answer(&mut self, ticket: Ticket, request: &str, decision: &Decision, step: &mut Step) {
        let Some(asked) = self.asked.answerable(request, ticket, step) else { return };
        match asked.response(decision) {
            Ok(response) => {
                step.frame(&success(&asked.request_id, &response));
                asked.answered = Some(Answered(Some(ticket)));
            }
            Err(reason) => step.refuse(ticket, reason),
        }
    }

    fn interrupt(&mut self, ticket: Ticket, step: &mut Step) {
        let request_id = format!("interrupt-{}", ticket.0);
        step.frame(&json!({
            "type": "control_request", "request_id": request_id, "request": {"subtype": "interrupt"},
        }));
        self.interrupts.push(Interrupt { request_id, ticket: Some(ticket), still_queued: None });
    }

    fn tickets(&mut self) -> impl Iterator<Item = &mut Option<Ticket>> {
        let messages = self.messages.iter_mut().map(|one| &mut one.ticket);
        let interrupts = self.interrupts.iter_mut().map(|one| &mut one.ticket);
        messages.chain(interrupts).chain(self.asked.tickets())
    }

    fn now(&self) -> HeldState {
        HeldState {
            session: self.is_ready.then(|| self.session.clone()),
            turn_open: self.turn_open,
            last_end: self.last_end.clone(),
            pending: self.asked.pending(),
            queued: self.messages.iter().filter(|one| one.is_queued && one.ticket.is_none()).count(),
            lost: None,
        }
    }
}

fn success(request_id: &str, response: &Value) -> Value {
    json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": request_id, "response": response,
    }})
}

/// The message as the agent takes it for words. It looks for a command only at the very first character; `!` and `#` mean
/// nothing to it here. A file that is named with `@` is read and attached wherever it stands, so a message that begins with
/// one cannot be sent as words.
fn plain(words: &str) -> Result<String, String> {
    if words.trim_start().starts_with('@') {
        return Err(
            "Claude Code would take the first word for a file to attach: put a word before it".to_owned()
        );
    }
    Ok(if words.starts_with('/') { format!(" {words}") } else { words.to_owned() })
}

/// Why a turn failed, in the agent's words.
fn complaint(outcome: Outcome) -> String {
    let errors: Vec<&str> = outcome.errors.iter().filter_map(Value::as_str).collect();
    let told = outcome.result.filter(|words| !words.is_empty());
    told.or_else(|| (!errors.is_empty()).then(|| errors.join("\n")))
        .or(outcome.subtype)
        .unwrap_or_else(|| "the turn failed".to_owned())
}
