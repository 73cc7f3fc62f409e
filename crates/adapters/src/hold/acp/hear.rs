//! What the agent says, line by line.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::agent::{Counts, Queue};
use super::asked::{self, Asked};
use super::greeting::{Greeting, short};
use super::wire::{
    self, BAD_PARAMS, CANCELLED, CancelRequest, Chunk, Elicitation, Initialized, Message, NO_METHOD,
    OfSession, Opened, RequestPermission, RpcError, SessionUpdate, ToolCall, UpdateHead,
};
use super::{Acp, Call, LONGEST_ID, LONGEST_PENDING, MOST_PENDING, Start, settings};
use crate::hold::lines::Line;
use crate::hold::{Acceptance, Preference, Said, Step};

/// The error with which agents ask for a login.
const LOGIN_NEEDED: i64 = -32000;

/// The words of a failure that a piece of text tells.
fn failure(update: &RawValue, notice: &str) -> Option<String> {
    let text = wire::read::<Chunk>(Some(update))?.content?.text?;
    text.strip_prefix(notice).map(short)
}

impl Acp {
    pub(super) fn hear_line(&mut self, line: &Line, step: &mut Step) {
        // Responses and requests are short: a line that is too long is one of the updates, which are not kept.
        let Line::Whole(line) = line else { return };
        if self.lost.is_some() {
            return;
        }
        let Ok(message) = serde_json::from_slice::<Message>(line) else { return };
        match (&message.method, message.id()) {
            (Some(method), Some(id)) => self.asked_for(method, id, message.params, step),
            (Some(method), None) => self.notified(method, message.params, step),
            (None, Some(id)) => {
                let outcome = match (message.error, message.result) {
                    (Some(error), _) => Err(error),
                    (None, Some(result)) => Ok(result),
                    (None, None) => return,
                };
                if let Some(id) = id.as_u64() {
                    self.answered(id, outcome, step);
                }
            }
            (None, None) => {}
        }
    }

    /// Whether a message belongs to the session that is held. Others can be on the same line.
    fn is_ours(&self, params: Option<&RawValue>) -> bool {
        let of: OfSession = wire::read(params).unwrap_or_default();
        self.session.is_some() && of.session_id == self.session
    }

    fn answered(&mut self, id: u64, outcome: Result<&RawValue, RpcError>, step: &mut Step) {
        let call = self.call.take_if(|(of, _)| *of == id).map(|(_, call)| call);
        match call {
            Some(Call::Initialize) => match outcome {
                Ok(result) => self.greeted(wire::read(Some(result)).unwrap_or_default(), step),
                Err(error) => self.lose(format!("the agent did not open the line: {}", error.words()), step),
            },
            Some(Call::Open) => match outcome {
                Ok(result) => self.opened(&wire::read(Some(result)).unwrap_or_default(), step),
                Err(error) => self.lose(self.not_opened(&error), step),
            },
            Some(Call::Set(setting)) => match outcome {
                Ok(result) => {
                    self.about.took(setting, wire::read(Some(result)).unwrap_or_default());
                    self.set_next(step);
                }
                Err(error) => {
                    self.lose(format!("the agent did not take {}: {}", setting.value(), error.words()), step);
                }
            },
            None if self.chosen.iter().any(|(of, ..)| *of == id) => self.choice_answered(id, outcome, step),
            None => {
                let outcome = outcome.map(|result| wire::read(Some(result)));
                self.prompt_answered(id, outcome, step);
            }
        }
    }

    fn choice_answered(&mut self, id: u64, outcome: Result<&RawValue, RpcError>, step: &mut Step) {
        let at = self.chosen.iter().position(|(of, ..)| *of == id);
        let Some((_, ticket, setting)) = at.map(|at| self.chosen.remove(at)) else { return };
        match (outcome, ticket) {
            (Ok(result), ticket) => {
                self.about.took(setting, wire::read(Some(result)).unwrap_or_default());
                ticket.into_iter().for_each(|ticket| step.accept(ticket, Acceptance::Chosen));
            }
            (Err(error), Some(ticket)) => step.refuse(ticket, error.words()),
            (Err(_), None) => {}
        }
    }

    fn greeted(&mut self, said: Initialized, step: &mut Step) {
        let greeting = match Greeting::take(said) {
            Ok(greeting) => greeting,
            Err(why) => return self.lose(why, step),
        };
        let can = greeting.capabilities;
        self.about.agent = Some(greeting);
        let mut params = json!({"cwd": self.opening.cwd, "mcpServers": []});
        let method = match &self.opening.start {
            Start::New => "session/new",
            Start::Continue { session, may_load } => {
                params["sessionId"] = Value::from(self.on_the_line(session));
                match (can.resume, can.load, may_load) {
                    (true, ..) => "session/resume",
                    (false, true, true) => "session/load",
                    (false, true, false) => {
                        let why = "the agent can only load the session, and that may damage it while another \
                                   process has it: end that process first";
                        return self.lose(why.to_owned(), step);
                    }
                    (false, false, _) => {
                        let why = "the agent cannot go on with a session over this protocol: start a new one";
                        return self.lose(why.to_owned(), step);
                    }
                }
            }
        };
        let id = self.request(method, &params, step);
        self.call = Some((id, Call::Open));
    }

    /// The id under which a session that exists is spoken of on this line.
    fn on_the_line(&self, session: &str) -> String {
        let is_loaded = self.greeting().is_some_and(|greeting| !greeting.capabilities.resume);
        let before = if is_loaded { self.agent.before_loaded } else { "" };
        format!("{before}{session}")
    }

    /// The agent's own id of a session that is spoken of so.
    pub(super) fn own_name<'s>(&self, session: &'s str) -> &'s str {
        session.strip_prefix(self.agent.before_loaded).unwrap_or(session)
    }

    fn not_opened(&self, error: &RpcError) -> String {
        let logins = self.greeting().map(|greeting| greeting.logins.join(", ")).unwrap_or_default();
        match error.code {
            LOGIN_NEEDED if logins.is_empty() => format!("the agent wants a login: {}", error.words()),
            LOGIN_NEEDED => format!("the agent wants a login ({logins}): {}", error.words()),
            _ => format!("the agent did not open the session: {}", error.words()),
        }
    }

    fn opened(&mut self, opened: &Opened, step: &mut Step) {
        let session = match &self.opening.start {
            Start::New => opened.session_id.clone().filter(|id| !id.is_empty()),
            Start::Continue { session, .. } => Some(self.on_the_line(session)),
        };
        let Some(session) = session else {
            return self.lose("the agent opened a session without an id".to_owned(), step);
        };
        if session.len() > LONGEST_ID || session.chars().any(char::is_control) {
            let why =
                format!("the agent opened a session with an id that cannot be used: {}", short(&session));
            return self.lose(why, step);
        }
        step.said.push(Said::Ready { session: self.own_name(&session).to_owned() });
        self.session = Some(session);
        self.about.opened(opened);
        self.offers = settings::offers(opened);
        let offered = |wanted| {
            self.offers
                .iter()
                .filter(move |(what, ..)| *what == wanted)
                .map(|(_, offered, _)| offered.clone())
        };
        self.about.modes = offered(Preference::Mode).collect();
        self.about.models = offered(Preference::Model).collect();
        match settings::wanted(opened, self.opening.modes, self.opening.model.as_deref()) {
            Ok(settings) => {
                self.settings = settings.into();
                self.set_next(step);
            }
            Err(why) => self.lose(why, step),
        }
    }

    /// Sets what is still to be set, one after the other. After the last, what waits is sent.
    fn set_next(&mut self, step: &mut Step) {
        let Some(setting) = self.settings.pop_front() else {
            self.is_set_up = true;
            return self.send_waiting(step);
        };
        let params = setting.params(self.session.as_deref().unwrap_or_default());
        let id = self.request(setting.method(), &params, step);
        self.call = Some((id, Call::Set(setting)));
    }

    fn notified(&mut self, method: &str, params: Option<&RawValue>, step: &mut Step) {
        match method {
            // While a session is being loaded its id is not set yet, so its replay is dropped here.
            "session/update" if self.is_ours(params) => {
                if let Some(SessionUpdate { update: Some(update) }) = wire::read(params) {
                    self.updated(update, step);
                }
            }
            "$/cancel_request" => {
                let cancelled: CancelRequest = wire::read(params).unwrap_or_default();
                let withdrawn = self.asked.iter().position(|asked| asked.rpc == cancelled.request_id);
                if let Some(asked) = withdrawn.map(|at| self.asked.remove(at)) {
                    step.write.extend(wire::error(&asked.rpc, CANCELLED, "the request was cancelled"));
                    step.said.push(Said::Gone { request: asked.request.id });
                }
            }
            _ => {}
        }
    }

    fn updated(&mut self, update: &RawValue, step: &mut Step) {
        let Some(head) = wire::read::<UpdateHead>(Some(update)) else { return };
        match head.session_update.as_deref() {
            Some("tool_call" | "tool_call_update") => {
                let said: ToolCall = wire::read(Some(update)).unwrap_or_default();
                let call = said.id.clone();
                if self.calls.take(said) {
                    // Nothing can be decided about a call that is over.
                    let is_over = |asked: &mut Asked| asked.call.is_some() && asked.call == call;
                    let over = self.asked.extract_if(.., is_over);
                    step.said.extend(over.map(|asked| Said::Gone { request: asked.request.id }));
                }
                self.goes_on(step);
            }
            Some("user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" | "plan") => {
                // Qwen tells the tokens of each step in an empty piece of text.
                if self.agent.tokens == Counts::Step {
                    self.usage.take_tokens(head.meta.and_then(|meta| meta.usage), Counts::Step);
                }
                self.failure = self.agent.failure_notice.and_then(|notice| failure(update, notice));
                self.goes_on(step);
            }
            Some("usage_update") => {
                self.usage.take_context(head.used, head.size);
                self.about.used(self.usage.context, wire::read(Some(update)).unwrap_or_default());
            }
            Some("current_mode_update" | "config_option_update" | "session_info_update") => {
                self.about.changed(wire::read(Some(update)).unwrap_or_default());
            }
            // Lists of commands, modes and titles come at any time and say nothing of the turn.
            _ => {}
        }
    }

    fn asked_for(&mut self, method: &str, id: Value, params: Option<&RawValue>, step: &mut Step) {
        match method {
            "session/request_permission" => match wire::read::<RequestPermission>(params) {
                Some(asked) if self.is_ours(params) => self.ask_permission(id, asked, step),
                // Nobody can decide for a session that is not held here.
                Some(_) => step.write.extend(wire::result(&id, &asked::cancelled())),
                None => step.write.extend(wire::error(&id, BAD_PARAMS, "the request cannot be read")),
            },
            "elicitation/create" => match wire::read::<Elicitation>(params) {
                Some(asked) if self.is_ours(params) => {
                    let name = self.request_name(&id, asked.tool_call_id.as_deref());
                    self.ask(Asked::elicitation(id, name, asked), step);
                }
                _ => step.write.extend(wire::result(&id, &json!({"action": "cancel"}))),
            },
            "craft/drainMidTurnQueue" if self.agent.queue == Queue::Drained => {
                let is_ours = self.is_ours(params);
                if is_ours {
                    self.goes_on(step);
                }
                let messages = if is_ours { self.drain() } else { Vec::new() };
                step.write.extend(wire::result(&id, &json!({"messages": messages})));
            }
            _ => step.write.extend(wire::error(&id, NO_METHOD, "the method is not offered")),
        }
    }

    fn ask_permission(&mut self, id: Value, mut asked: RequestPermission, step: &mut Step) {
        if let Some(call) = &mut asked.tool_call {
            self.calls.complete(call);
        }
        let call = asked.tool_call.as_ref().and_then(|call| call.id.as_deref());
        let name = self.request_name(&id, call);
        self.ask(Asked::permission(id, name, asked, self.agent.options), step);
    }

    fn ask(&mut self, asked: Asked, step: &mut Step) {
        self.goes_on(step);
        // Two requests with one id cannot be told apart by their answer, so neither is decided.
        if let Some(at) = self.asked.iter().position(|other| other.rpc == asked.rpc) {
            let other = self.asked.remove(at);
            step.write.extend(wire::result(&other.rpc, &other.cancelled()));
            step.said.push(Said::Gone { request: other.request.id });
            return;
        }
        let length = |asked: &Asked| asked.request.summary.as_ref().map_or(0, String::len);
        let waits: usize = self.asked.iter().map(length).sum();
        if self.asked.len() >= MOST_PENDING || waits + length(&asked) > LONGEST_PENDING {
            step.write.extend(wire::result(&asked.rpc, &asked.cancelled()));
            return;
        }
        step.said.push(Said::Asked(asked.request.clone()));
        self.asked.push(asked);
    }

    /// A name that no other request of the session has. Agents count their requests anew in each process, so the
    /// number is joined with the tool call; and where the numbers do not go up, with a count of ours.
    fn request_name(&mut self, id: &Value, call: Option<&str>) -> String {
        self.requests += 1;
        let number = id.as_u64();
        let is_new = number.is_some() && number > self.highest;
        self.highest = self.highest.max(number);
        let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        let of = call.unwrap_or(&self.opening.launch);
        if is_new { format!("{id}:{of}") } else { format!("{id}:{of}:{}", self.requests) }
    }
}
