//! Sessions that live in a gateway: they are launched, stopped and steered by asking its server. Nothing is started
//! here, so there is no runner, no process to end and no lock to hold.
//!
//! A launch leaves one record, which is written once the server has named the session and never before. It contains
//! what was asked for, for the `launch` and `group` of the session. It is joined by that id, makes no row of its own,
//! and expires like every other record.

mod launch;
mod places;
mod refuse;

use std::time::{Duration, Instant};

use agentctl_adapters::Answer;
use agentctl_adapters::gateway::{Addressee, Gateway, Request};
use agentctl_model::{Error, ErrorKind, SpawnPlan, Status, Surveyed};

use crate::act::stop::{TerminationReport, not_broken_off};
use crate::keep::launches::{CallbackOrder, LaunchOrder};
use crate::keep::new_names;
use crate::{Fleet, Source};

pub(crate) use launch::GatewayLaunch;

/// How often a server is asked whether its list shows what was requested.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// What a launch would do.
#[derive(Debug, Clone, PartialEq)]
pub enum Preview {
    Spawn(SpawnPlan),
    Request(Request),
}

/// A notification about the end of a session that was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndeliveredCallback {
    pub launch: String,
    pub session: Option<String>,
    pub order: CallbackOrder,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// Its runner still tries to deliver it.
    pub tried: bool,
}

/// The server of one source.
pub(crate) struct GatewayServer<'f> {
    fleet: &'f Fleet,
    source: &'f Source,
    gateway: &'static dyn Gateway,
}

impl Fleet {
    /// Whether this session lives in a gateway and not in a process here.
    pub fn is_in_gateway(&self, target: &Surveyed) -> bool {
        self.server_of(target).is_some()
    }

    /// Returns the callbacks of finished launches that were not delivered.
    pub fn undelivered_callbacks(&self) -> Vec<UndeliveredCallback> {
        let ledger = self.ledger();
        let over = ledger.entries().iter().filter(|(folder, _)| folder.exit().is_some());
        let undelivered = over.filter_map(|(folder, record)| {
            let order = record.order.callback.clone()?;
            let state = folder.callback();
            if state.as_ref().is_some_and(|state| state.delivered_at.is_some()) {
                return None;
            }
            // A live runner holds its directory; without a runner nothing delivers the callback.
            let tried = folder.hold().is_ok_and(|held| held.is_none());
            let error = state.and_then(|state| state.error);
            Some(UndeliveredCallback {
                launch: record.id.clone(),
                session: record.session_id.clone(),
                order,
                error,
                tried,
            })
        });
        undelivered.collect()
    }

    /// Returns what a launch would start or send. Refuses what makes no sense for this agent.
    pub fn preview(&self, order: &LaunchOrder, words: &str) -> Result<Preview, Error> {
        let preview = match self.server_named(&order.adapter, &order.root) {
            Some(server) => server.request(order, words).map(Preview::Request),
            None => self.plan(order, &order.intent(words.to_owned(), order.cwd.clone())).map(Preview::Spawn),
        };
        // Only the abilities of the agent were checked here, so a refusal means that it does not support this.
        preview.map_err(|error| error.of_kind(ErrorKind::Unsupported))
    }

    pub(crate) fn server_of(&self, target: &Surveyed) -> Option<GatewayServer<'_>> {
        self.server_named(&target.key.adapter, &target.key.root)
    }

    pub(crate) fn server_named(&self, adapter: &str, root: &str) -> Option<GatewayServer<'_>> {
        let source = self.source(adapter, root)?;
        Some(GatewayServer { fleet: self, source, gateway: source.adapter.gateway()? })
    }
}

impl GatewayServer<'_> {
    /// Interrupts the turn; the session stays and accepts the next message.
    pub(crate) fn stop(&self, target: &Surveyed, grace: Duration) -> Result<TerminationReport, Error> {
        let aborted = self.gateway.stop(&self.source.root, &target.key.id)?;
        let began = Instant::now();
        loop {
            let survey = self.fleet.survey_of(target);
            let seen = survey.sessions.iter().find(|surveyed| surveyed.key == target.key);
            let now = seen.map(|seen| seen.session.status);
            let gone = seen.is_none() && survey.prove_ended(&target.key).is_some();
            // If the session is not seen, that does not prove that it is idle.
            if gone || matches!(now, Some(Status::Idle | Status::Stopped)) {
                let how = if aborted { "its gateway broke off the turn; the session stays" } else { "" };
                let open_in =
                    (now == Some(Status::Idle)).then(|| format!("its gateway, {}", target.key.root));
                let how = how.to_owned();
                let was_stopped = !aborted;
                return Ok(TerminationReport { was_stopped, how, open_in, ..TerminationReport::default() });
            }
            if began.elapsed() >= grace {
                let took = if aborted { "took the stop" } else { "found nothing to stop" };
                let error = not_broken_off(&format!("the gateway {took}"), &target.key.id, now);
                return Err(error.hint("look again, or stop it in the gateway's own page"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    pub(crate) fn interrupt(&self, target: &Surveyed) -> Result<(), Error> {
        self.gateway.stop(&self.source.root, &target.key.id).map(drop)
    }

    pub(crate) fn send(&self, target: &Surveyed, words: &str) -> Result<(), Error> {
        let once = new_names::uuid().map_err(|error| Error::failed(error.to_string()))?;
        self.gateway.send(&self.source.root, &target.key.id, words, &once)
    }

    pub(crate) fn answer(&self, target: &Surveyed, answer: &Answer) -> Result<(), Error> {
        self.gateway.answer(&self.source.root, &target.key.id, answer)
    }

    pub(crate) fn tell(&self, to: &Addressee, words: &str, once: &str) -> Result<(), Error> {
        self.gateway.tell(&self.source.root, to, words, once)
    }
}
