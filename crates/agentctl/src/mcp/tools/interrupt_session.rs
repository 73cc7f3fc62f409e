//! `interrupt_session`: what `agentctl interrupt` does.

use agentctl_fleet::Purpose;
use agentctl_fleet::act::asker::Asker;
use agentctl_fleet::act::steer::SteerOptions;
use agentctl_model::Error;
use agentctl_model::event::ActionVerb;
use schemars::JsonSchema;
use serde::Serialize;

use super::launch_session::start_daemon;
use super::{Card, Request, Told, TypedTool, Which};
use crate::failure::Failure;
use crate::mcp::desk::{Desk, Target};
use crate::mcp::rights::Right;
use crate::mcp::row::SessionRow;

pub(super) struct InterruptSession;

/// What was interrupted.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gives {
    id: String,
    adapter: String,
    /// False: no turn was open.
    interrupted: bool,
    /// Messages that stay in the agent's own queue.
    still_queued: usize,
    /// The session as it is afterwards; `null` when it could not be looked at again.
    session: Option<SessionRow>,
}

impl TypedTool for InterruptSession {
    const CARD: Card = Card {
        name: "interrupt_session",
        title: "Interrupt a turn",
        about: "Ends the open turn of a session and keeps the session, where its agent offers that.",
        needs: Some(Right::Interrupt),
        ends_work: true,
    };
    type Takes = Which;
    type Gives = Gives;

    fn run(
        desk: &Desk,
        Which { id, adapter, cwd }: Which,
        request: &Request<'_>,
    ) -> Result<Told<Gives>, Error> {
        let surroundings = desk.surroundings();
        let fleet = surroundings.fleet().map_err(Failure::into_error)?;
        let found = desk.find(&Target { id, adapter, cwd }, Purpose::Act, &fleet)?;
        if found.far.is_none() {
            start_daemon(&surroundings);
        }
        let options =
            SteerOptions { asker: Asker::this_process(desk.rights.allow_self), ..SteerOptions::default() };
        let done = found.interrupt(&fleet, options).map_err(Failure::into_error);
        let asked = desk.asked(request.client.as_deref());
        asked.tell(
            ActionVerb::Interrupt,
            Some((&found.found.key.adapter, &found.id())),
            &done,
            &surroundings,
        );
        let receipt = done?;
        let headline = if receipt.interrupted { "the turn was ended" } else { "no turn was open" };
        let data = Gives {
            id: found.id(),
            session: receipt.session.as_ref().map(|now| SessionRow::of(found.id(), now)),
            adapter: found.found.key.adapter,
            interrupted: receipt.interrupted,
            still_queued: receipt.still_queued,
        };
        Ok(Told { data, headline: headline.to_owned(), body: String::new() })
    }
}
