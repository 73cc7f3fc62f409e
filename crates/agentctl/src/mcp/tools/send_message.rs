//! `send_message`: what `agentctl send` does; with `resume`, what `agentctl resume --hold` does.

use std::path::PathBuf;

use agentctl_fleet::Purpose;
use agentctl_fleet::act::asker::Asker;
use agentctl_fleet::act::launch::{ResumeRequest, Stay, check_words};
use agentctl_fleet::act::steer::{Accepted, SteerOptions};
use agentctl_model::event::ActionVerb;
use agentctl_model::{Error, Session, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::launch_session::start_daemon;
use super::{Card, Request, Told, TypedTool};
use crate::failure::Failure;
use crate::link::hosts::Located;
use crate::mcp::desk::{Desk, Target};
use crate::mcp::rights::Right;
use crate::mcp::row::SessionRow;
use crate::render::time;
use crate::surroundings::Surroundings;

pub(super) struct SendMessage;

/// What to say, and to whom.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Takes {
    /// Full id, unique beginning of one, or exact name; on another machine HOST/ID.
    id: String,
    /// Only a session of this agent.
    adapter: Option<String>,
    /// Only a session that works in this folder.
    cwd: Option<PathBuf>,
    message: String,
    /// Take a session up again that nobody runs, and hold it; the server needs --allow launch for that.
    #[serde(default)]
    resume: bool,
    /// How long the agent may take to accept it: 30s.
    timeout: Option<String>,
}

/// How the agent took the message.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Gives {
    id: String,
    adapter: String,
    accepted: Accepted,
    /// The session as it is afterwards; `null` when it could not be looked at again.
    session: Option<SessionRow>,
}

impl TypedTool for SendMessage {
    const CARD: Card = Card {
        name: "send_message",
        title: "Say something to a session",
        about: "Sends a message to a live session, where its agent offers a way in. Success means that the agent accepted \
                it, now or in its own queue; the message is always plain text, never a command of the agent.",
        needs: Some(Right::Send),
        ends_work: false,
    };
    type Takes = Takes;
    type Gives = Gives;

    fn run(desk: &Desk, takes: Takes, request: &Request<'_>) -> Result<Told<Gives>, Error> {
        check_words(&takes.message).map_err(Error::usage)?;
        let timeout = takes.timeout.as_deref().map(time::parse_duration).transpose().map_err(Error::usage)?;
        let surroundings = desk.surroundings();
        let fleet = surroundings.fleet().map_err(Failure::into_error)?;
        let target = Target { id: takes.id, adapter: takes.adapter, cwd: takes.cwd };
        let found = desk.find(&target, Purpose::Act, &fleet)?;
        if found.far.is_none() {
            start_daemon(&surroundings);
        }
        let usual = SteerOptions::default();
        let options = SteerOptions {
            asker: Asker::this_process(desk.rights.allow_self),
            timeout: timeout.unwrap_or(usual.timeout),
            as_command: false,
        };
        let sent = if takes.resume && found.found.session.status == Status::Stopped {
            desk.rights
                .require(Right::Launch, "take up a session that nobody runs")
                .and_then(|()| take_up(&found, &takes.message, request, &surroundings))
                .map(|session| (Accepted::Now, Some(session)))
        } else {
            let sent = found.send(&fleet, &takes.message, options).map_err(Failure::into_error);
            sent.map(|receipt| (receipt.accepted, receipt.session))
        };
        let asked = desk.asked(request.client.as_deref());
        asked.tell(ActionVerb::Send, Some((&found.found.key.adapter, &found.id())), &sent, &surroundings);
        let (accepted, session): (Accepted, Option<Session>) = sent?;
        let headline = match accepted {
            Accepted::Now => "the agent accepted the message",
            Accepted::Queued => "the agent has the message in its queue",
        };
        let session = session.as_ref().map(|now| SessionRow::of(found.id(), now));
        let (id, adapter) = (found.id(), found.found.key.adapter);
        Ok(Told {
            data: Gives { id, adapter, accepted, session },
            headline: headline.to_owned(),
            body: String::new(),
        })
    }
}

/// A further turn of a session that nobody runs; it is held afterwards.
fn take_up(
    found: &Located,
    words: &str,
    request: &Request<'_>,
    surroundings: &Surroundings,
) -> Result<Session, Error> {
    request.tell(&format!("resuming {}", found.found.key.adapter));
    let stay = Stay { hold: true, ..Stay::default() };
    let how = ResumeRequest { stay, ..ResumeRequest::default() };
    if let Some(far) = &found.far {
        return far.resume(&found.found, words, &how).map_err(Failure::into_error);
    }
    let settings = surroundings.settings().map_err(|error| Failure::from(error).into_error())?;
    let launcher = surroundings.launcher(&settings).map_err(Failure::into_error)?;
    let order = launcher.fleet.resume_order(&found.found, &how, &launcher.caller.programs)?;
    launcher.make_ready(surroundings.now())?;
    let taken_up = launcher.carry_out(order, words, surroundings.now(), || request.is_over())?;
    Ok(*taken_up.session)
}
