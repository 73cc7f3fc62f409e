//! Sessions that live in a server: launched, stopped and spoken to by asking it. Nothing is started here, so there is no
//! runner, no process to end and no lock to hold.
//!
//! A launch leaves one record, written when the server has named the session and never before: what was asked for, for
//! `launch` and `group` of the session. It joins by that id, makes no row of its own, and expires like every other.

mod launch;
mod places;
mod refuse;

use std::time::{Duration, Instant};

use agentctl_adapters::Answer;
use agentctl_adapters::gateway::{Addressee, Gateway, Request, ServerError};
use agentctl_model::{Refusal, SpawnPlan, Status, Surveyed};

use crate::act::steer::SpeakError;
use crate::act::stop::{StopError, Stopped, not_broken_off};
use crate::keep::fresh;
use crate::keep::launches::{CallbackOrder, LaunchOrder};
use crate::{Fleet, Source};

pub(crate) use launch::Hosted;

/// How often a server is asked whether its list shows what it was told.
const LOOK: Duration = Duration::from_millis(200);

/// What a launch would do.
#[derive(Debug, Clone, PartialEq)]
pub enum Preview {
    Spawn(SpawnPlan),
    Request(Request),
}

/// Somebody who was to be told how a session ended, and was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    pub launch: String,
    pub session: Option<String>,
    pub order: CallbackOrder,
    /// Why the last try failed.
    pub error: Option<String>,
    /// It is still being tried.
    pub tried: bool,
}

/// The server behind one source.
pub(crate) struct Server<'f> {
    fleet: &'f Fleet,
    source: &'f Source,
    gateway: &'static dyn Gateway,
}

impl Fleet {
    /// Whether this session lives in a server and not in a process here.
    pub fn is_hosted(&self, target: &Surveyed) -> bool {
        self.server_of(target).is_some()
    }

    /// The callbacks of launches that are over and that nobody has heard.
    pub fn untold(&self) -> Vec<Untold> {
        let ledger = self.ledger();
        let over = ledger.entries().iter().filter(|(folder, _)| folder.exit().is_some());
        let untold = over.filter_map(|(folder, record)| {
            let order = record.order.callback.clone()?;
            let state = folder.callback();
            if state.as_ref().is_some_and(|state| state.delivered_at.is_some()) {
                return None;
            }
            // A runner at work holds its folder: where nobody does, nobody will tell.
            let tried = folder.hold().is_ok_and(|held| held.is_none());
            let error = state.and_then(|state| state.error);
            Some(Untold {
                launch: record.id.clone(),
                session: record.session_id.clone(),
                order,
                error,
                tried,
            })
        });
        untold.collect()
    }

    /// What a launch would start or send. Refuses what makes no sense for this agent.
    pub fn preview(&self, order: &LaunchOrder, words: &str) -> Result<Preview, Refusal> {
        match self.server_named(&order.adapter, &order.root) {
            Some(server) => server.request(order, words).map(Preview::Request),
            None => self.plan(order, &order.intent(words.to_owned(), order.cwd.clone())).map(Preview::Spawn),
        }
    }

    pub(crate) fn server_of(&self, target: &Surveyed) -> Option<Server<'_>> {
        self.server_named(&target.key.adapter, &target.key.root)
    }

    pub(crate) fn server_named(&self, adapter: &str, root: &str) -> Option<Server<'_>> {
        let source = self.source(adapter, root)?;
        Some(Server { fleet: self, source, gateway: source.adapter.gateway()? })
    }
}

impl Server<'_> {
    /// Breaks off the turn; the session stays and takes the next message.
    pub(crate) fn stop(&self, target: &Surveyed, grace: Duration) -> Result<Stopped, StopError> {
        let aborted = self.gateway.stop(&self.source.root, &target.key.id)?;
        let began = Instant::now();
        loop {
            let survey = self.fleet.survey_of(target);
            let seen = survey.sessions.iter().find(|surveyed| surveyed.key == target.key);
            let now = seen.map(|seen| seen.session.status);
            let gone = seen.is_none() && survey.prove_ended(&target.key).is_some();
            // Not to hear of it is not to know that it rests.
            if gone || matches!(now, Some(Status::Idle | Status::Stopped)) {
                let how = if aborted { "its gateway broke off the turn; the session stays" } else { "" };
                let open_in =
                    (now == Some(Status::Idle)).then(|| format!("its gateway, {}", target.key.root));
                let how = how.to_owned();
                return Ok(Stopped { was_stopped: !aborted, how, open_in, ..Stopped::already() });
            }
            if began.elapsed() >= grace {
                let took = if aborted { "took the stop" } else { "found nothing to stop" };
                let error = not_broken_off(&format!("the gateway {took}"), &target.key.id, now);
                return Err(error.hint("look again, or stop it in the gateway's own page"));
            }
            std::thread::sleep(LOOK);
        }
    }

    pub(crate) fn interrupt(&self, target: &Surveyed) -> Result<(), StopError> {
        Ok(self.gateway.stop(&self.source.root, &target.key.id).map(drop)?)
    }

    pub(crate) fn send(&self, target: &Surveyed, words: &str) -> Result<(), SpeakError> {
        let once = fresh::uuid().map_err(|error| SpeakError::Silent(error.to_string()))?;
        Ok(self.gateway.send(&self.source.root, &target.key.id, words, &once)?)
    }

    pub(crate) fn answer(&self, target: &Surveyed, answer: &Answer) -> Result<(), SpeakError> {
        Ok(self.gateway.answer(&self.source.root, &target.key.id, answer)?)
    }

    pub(crate) fn tell(&self, to: &Addressee, words: &str, once: &str) -> Result<(), ServerError> {
        self.gateway.tell(&self.source.root, to, words, once)
    }
}
