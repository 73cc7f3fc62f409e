//! `session/prompt`: says something to a session and waits for the end of the turn. A session that nobody runs is taken up
//! and held; one that somebody else carries is spoken with where its agent offers a way in, and else refused with words.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agentctl_adapters::Answer;
use agentctl_adapters::hold::Decision;
use agentctl_fleet::act::asker::Asker;
use agentctl_fleet::act::launch::{ResumeRequest, Stay, check_words};
use agentctl_fleet::act::steer::SteerOptions;
use agentctl_fleet::{Fleet, Offer};
use agentctl_model::event::ActionVerb;
use agentctl_model::{Error, ErrorKind, Outcome, PendingKind, Rule, Status, Surveyed, text};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::drafts::start_daemon;
use super::opened::Opened;
use super::{Office, fault, held, in_words, permissions};
use crate::failure::Failure;
use crate::link::hosts::Located;
use crate::rpc::{Call, Fault};

/// How often the turn is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// How long the records of a turn may lag behind its end, and how long nothing more comes of records that are read here.
const LAST_ENTRIES: Duration = Duration::from_secs(5);
const QUIET: Duration = Duration::from_millis(150);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Prompt {
    pub(super) session_id: String,
    prompt: Vec<Block>,
}

#[derive(Debug, Deserialize)]
struct Block {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    uri: Option<String>,
    #[serde(default)]
    resource: Option<Resource>,
}

#[derive(Debug, Deserialize)]
struct Resource {
    uri: Option<String>,
    text: Option<String>,
}

impl Prompt {
    /// The words of the prompt; files that the editor names are named, and those that it gives are given.
    pub(super) fn words(&self) -> Result<String, Fault> {
        let part = |block: &Block| match (&block.text, &block.resource, &block.uri) {
            (Some(text), _, _) => Some(text.clone()),
            (None, Some(Resource { uri, text }), _) => {
                let (uri, text) = (uri.as_deref().unwrap_or("a file"), text.as_deref()?);
                Some(format!("{uri}:\n{text}"))
            }
            (None, None, Some(uri)) => Some(uri.clone()),
            (None, None, None) => None,
        };
        let words = self.prompt.iter().filter_map(part).collect::<Vec<_>>().join("\n");
        check_words(&words).map_err(Fault::invalid_params)?;
        Ok(words)
    }
}

/// Why nothing can be said to a session, if nothing can.
pub(super) fn read_only(fleet: &Fleet, found: &Surveyed) -> Option<String> {
    let offers = fleet.offers(found);
    let can_speak = [Offer::Send, Offer::Resume, Offer::Answer].iter().any(|offer| offers.contains(offer));
    let hint = || fleet.instead_of(&[Offer::Send, Offer::Resume, Offer::Attach], found);
    (!can_speak).then(|| format!("this session is read-only here; {}", hint()))
}

impl Opened {
    pub(super) fn prompt(
        self: &Arc<Self>,
        office: &Arc<Office>,
        call: &Call,
        words: &str,
    ) -> Result<Value, Fault> {
        let Ok(_turn) = self.turn.try_lock() else {
            return Err(Fault::invalid_request("another turn of this session is in progress"));
        };
        self.begin_turn();
        let fleet = office.fleet().map_err(|error| fault(&error))?;
        let now = self.look(&fleet);
        let before = self.tell_news(call.wire()).unwrap_or_default();
        self.said_here(words);
        match say(office, call, &fleet, &now, words) {
            Ok(()) => self.until_its_end(office, call, &fleet, before, now.found.session.updated_at),
            Err(error) if matches!(error.kind, ErrorKind::Refused | ErrorKind::Unsupported) => {
                self.note(call.wire(), &in_words(&error));
                Ok(json!({"stopReason": "refusal"}))
            }
            Err(error) => Err(fault(&error)),
        }
    }

    /// The turn of a session that was begun with its first words.
    pub(super) fn await_turn(self: &Arc<Self>, office: &Arc<Office>, call: &Call) -> Result<Value, Fault> {
        let Ok(_turn) = self.turn.try_lock() else {
            return Err(Fault::invalid_request("another turn of this session is in progress"));
        };
        let fleet = office.fleet().map_err(|error| fault(&error))?;
        self.until_its_end(office, call, &fleet, 0, None)
    }

    /// Tells the turn as it goes on, and how it ended. `before` counts the entries of the agent that were told before it, and
    /// `earlier` is the time of its newest record then: an agent that has accepted the words may rest in its last turn for a
    /// moment longer, and how that one ended is not the answer.
    fn until_its_end(
        self: &Arc<Self>,
        office: &Arc<Office>,
        call: &Call,
        fleet: &Fleet,
        before: u64,
        earlier: Option<Timestamp>,
    ) -> Result<Value, Fault> {
        let wire = call.wire();
        let mut interrupted = false;
        let (mut has_begun, said_at) = (earlier.is_none(), Instant::now());
        loop {
            if call.is_over() {
                return Err(Fault::internal("nobody waits for the turn any more"));
            }
            let now = self.look(fleet);
            let told = self.tell_news(wire).unwrap_or(before);
            let session = &now.found.session;
            self.ask(&now, office, wire);
            if self.is_cancelled() && !interrupted {
                interrupted = true;
                if let Err(error) = interrupt(office, fleet, &now) {
                    self.note(wire, &format!("the turn goes on: {}", in_words(&error)));
                    return Ok(json!({"stopReason": "cancelled"}));
                }
                continue;
            }
            let is_over = matches!(session.status, Status::Idle | Status::Stopped);
            has_begun |= !is_over || session.updated_at != earlier || interrupted;
            // Where no record tells of the turn at all, its end is told as it is seen.
            let is_over = is_over && (has_begun || said_at.elapsed() > LAST_ENTRIES);
            if is_over && now.found.rule != Rule::ExitNotWrittenYet {
                self.tell_the_rest(call, before, told.max(before));
                return ended(&now.found, self.is_cancelled());
            }
            if let Some(words) = unanswerable(&now.found) {
                self.note(wire, &words);
                return Ok(json!({"stopReason": "end_turn"}));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// The agent may say that its turn is over a moment before its last words are in its records, and another machine may
    /// be slow to pass them on. `before` and `told` count the entries of the agent at the beginning of the turn and now.
    fn tell_the_rest(&self, call: &Call, before: u64, mut told: u64) {
        let latest = held(&self.latest).clone();
        let quiet_enough = if latest.far.is_some() { LAST_ENTRIES } else { QUIET };
        let (began, mut last) = (Instant::now(), Instant::now());
        while latest.found.session.last_message.is_some()
            && !(told > before && self.has_told_the_last_words())
            && last.elapsed() < quiet_enough
            && began.elapsed() < LAST_ENTRIES
            && !call.is_over()
        {
            std::thread::sleep(Duration::from_millis(50));
            let now = self.tell_news(call.wire()).unwrap_or(told);
            if now != told {
                (told, last) = (now, Instant::now());
            }
        }
    }
}

/// What the session waits for, where the editor cannot be asked it: the next prompt answers a question, and everything
/// else is answered where the session runs.
fn unanswerable(now: &Surveyed) -> Option<String> {
    if now.session.status != Status::Waiting || now.session.pending.iter().any(permissions::can_be_asked) {
        return None;
    }
    let pending = now.session.pending.first()?;
    let words = text::visible(pending.summary.as_deref().unwrap_or_default());
    Some(match (pending.kind, pending.answerable) {
        (PendingKind::Question, true) => format!("it asks, and your next message answers it:\n{words}"),
        _ => format!("it waits for something that can be answered only where it runs:\n{words}"),
    })
}

fn ended(now: &Surveyed, is_cancelled: bool) -> Result<Value, Fault> {
    let session = &now.session;
    let stop_reason = match session.outcome {
        _ if is_cancelled => "cancelled",
        Some(Outcome::Interrupted) => "cancelled",
        Some(Outcome::Failed | Outcome::Died) => {
            let why = session.status_detail.as_deref().unwrap_or("the turn failed");
            return Err(Fault::internal(text::clean(why)).with(json!({"details": text::clean(why)})));
        }
        Some(Outcome::Completed) | None => "end_turn",
    };
    Ok(json!({"stopReason": stop_reason}))
}

/// Says the words in the way that the session offers now.
fn say(office: &Office, call: &Call, fleet: &Fleet, now: &Located, words: &str) -> Result<(), Error> {
    let surroundings = office.surroundings();
    if now.far.is_none() {
        start_daemon(&surroundings);
    }
    let options = SteerOptions { asker: Asker::this_process(false), ..SteerOptions::default() };
    let session = &now.found.session;
    let asks = session.pending.iter().find(|one| one.kind == PendingKind::Question && one.answerable);
    // What another machine offers it knows itself, and it refuses what it does not.
    let rests = match now.far {
        Some(_) => session.status == Status::Stopped,
        None => fleet.offers(&now.found).contains(&Offer::Resume),
    };
    let (verb, said) = if let Some(question) = asks {
        // The question was shown, and these are the words of the person who read it.
        let answer = Answer { request: question.id.clone(), decision: Decision::Text(words.to_owned()) };
        (ActionVerb::Answer, now.answer(fleet, answer, options).map(drop).map_err(Failure::into_error))
    } else if rests {
        (ActionVerb::Launch, take_up(office, call, now, words))
    } else {
        (ActionVerb::Send, now.send(fleet, words, options).map(drop).map_err(Failure::into_error))
    };
    office.asked().tell(verb, Some((&now.found.key.adapter, &now.id())), &said, &surroundings);
    said
}

fn interrupt(office: &Office, fleet: &Fleet, now: &Located) -> Result<(), Error> {
    let options = SteerOptions { asker: Asker::this_process(false), ..SteerOptions::default() };
    let done = now.interrupt(fleet, options).map(drop).map_err(Failure::into_error);
    let named = (&*now.found.key.adapter, &*now.id());
    office.asked().tell(ActionVerb::Interrupt, Some(named), &done, &office.surroundings());
    done
}

/// A further turn of a session that nobody runs; it is held from then on.
fn take_up(office: &Office, call: &Call, found: &Located, words: &str) -> Result<(), Error> {
    let stay = Stay { hold: true, ..Stay::default() };
    let how = ResumeRequest { stay, ..ResumeRequest::default() };
    if let Some(far) = &found.far {
        return far.resume(&found.found, words, &how).map(drop).map_err(Failure::into_error);
    }
    let surroundings = office.surroundings();
    let settings = surroundings.settings().map_err(|error| Failure::from(error).into_error())?;
    let launcher = surroundings.launcher(&settings).map_err(Failure::into_error)?;
    let order = launcher.fleet.resume_order(&found.found, &how, &launcher.caller.programs)?;
    launcher.make_ready(surroundings.now())?;
    launcher.carry_out(order, words, surroundings.now(), || call.is_over()).map(drop)
}
