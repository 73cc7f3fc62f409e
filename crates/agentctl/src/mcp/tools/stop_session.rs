//! `stop_session`: what `agentctl stop` does.

use std::path::PathBuf;
use std::time::Duration;

use agentctl_fleet::act::asker::Asker;
use agentctl_fleet::{Purpose, StopOptions};
use agentctl_model::event::ActionVerb;
use agentctl_model::{Error, ProcessEntry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::launch_session::start_daemon;
use super::{Card, Request, Told, TypedTool};
use crate::failure::Failure;
use crate::mcp::desk::{Desk, Target};
use crate::mcp::rights::Right;
use crate::mcp::row::SessionRow;
use crate::render::time;

const GRACE: Duration = Duration::from_secs(10);

pub(super) struct StopSession;

/// Which session, and how.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Takes {
    /// Full id, unique beginning of one, or exact name; on another machine HOST/ID.
    id: String,
    /// Only a session of this agent.
    adapter: Option<String>,
    /// Only a session that works in this folder.
    cwd: Option<PathBuf>,
    /// How long a clean end may take before the processes are killed: 10s.
    grace: Option<String>,
    /// Kill at once.
    #[serde(default)]
    force: bool,
}

/// What ended and what survived.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gives {
    id: String,
    adapter: String,
    /// Nobody ran it before.
    was_stopped: bool,
    ended: Vec<ProcessEntry>,
    survived: Vec<ProcessEntry>,
    /// Where the session is still open after its turn was ended.
    open_in: Option<String>,
    /// The session as it is afterwards; `null` when it could not be looked at again.
    session: Option<SessionRow>,
}

impl TypedTool for StopSession {
    const CARD: Card = Card {
        name: "stop_session",
        title: "Stop a session",
        about: "Ends a session with all its processes, the clean way first. Stopping a stopped session is success. A \
                session cannot stop itself.",
        needs: Some(Right::Stop),
        ends_work: true,
    };
    type Takes = Takes;
    type Gives = Gives;

    fn run(desk: &Desk, takes: Takes, request: &Request<'_>) -> Result<Told<Gives>, Error> {
        let grace = takes.grace.as_deref().map(time::parse_duration).transpose().map_err(Error::usage)?;
        let surroundings = desk.surroundings();
        let settings = surroundings.settings().map_err(|error| Failure::from(error).into_error())?;
        let fleet = surroundings.fleet_under(&settings);
        let caller = surroundings.caller(&settings).map_err(Failure::into_error)?;
        let target = Target { id: takes.id, adapter: takes.adapter, cwd: takes.cwd };
        let found = desk.find(&target, Purpose::Act, &fleet)?;
        if found.far.is_none() {
            start_daemon(&surroundings);
        }
        request.tell("stopping it");
        let options = StopOptions {
            grace: grace.unwrap_or(GRACE),
            force: takes.force,
            asker: Asker::this_process(desk.rights.allow_self),
        };
        let stopped = found.stop(&fleet, &caller, options).map_err(Failure::into_error);
        let stopped = stopped.and_then(|report| match report.error.clone() {
            Some(error) => Err(error),
            None => Ok(report),
        });
        let asked = desk.asked(request.client.as_deref());
        asked.tell(ActionVerb::Stop, Some((&found.found.key.adapter, &found.id())), &stopped, &surroundings);
        let report = stopped?;
        let headline = match (report.was_stopped, report.survived.len()) {
            (true, _) => "nobody ran it".to_owned(),
            (false, 0) => format!("stopped; {} processes ended", report.ended.len()),
            (false, left) => format!("{left} processes survived"),
        };
        let data = Gives {
            id: found.id(),
            session: report.session.as_ref().map(|now| SessionRow::of(found.id(), now)),
            adapter: found.found.key.adapter,
            was_stopped: report.was_stopped,
            ended: report.ended,
            survived: report.survived,
            open_in: report.open_in,
        };
        Ok(Told { data, headline, body: String::new() })
    }
}
