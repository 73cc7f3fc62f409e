//! The way of a launch, for the command line and the API alike: a request becomes orders, what a checkout would run is agreed
//! to, agentctl's folder is made ready, and each order is carried out.

use std::io;
use std::time::Duration;

use agentctl_model::Surveyed;
use jiff::Timestamp;

use super::LaunchError;
use super::request::LaunchRequest;
use super::slots::{Defaults, LaunchPlan};
use crate::keep::launches::{LaunchOrder, WorktreeOrder};
use crate::keep::store::StoreError;
use crate::{Caller, Fleet, Store};

/// What starting and stopping agents takes, in the environment of whoever asks.
pub struct Launcher {
    pub fleet: Fleet,
    pub caller: Caller,
    pub defaults: Defaults,
    /// How long the records of launches that ended are kept.
    pub kept: Duration,
    /// A mistake in the settings because of which another agent would be started than was meant.
    pub mistake: Option<String>,
}

impl Launcher {
    /// The orders of a launch. Makes nothing.
    pub fn plan(&self, request: &LaunchRequest, words: String) -> io::Result<LaunchPlan> {
        self.fleet.plan_launch(request, words, &self.caller.programs)
    }

    /// The last steps before something is started: `consent` is asked for every working tree that will be made.
    pub fn prepare<E: From<StoreError>>(
        &self,
        plan: &LaunchPlan,
        now: Timestamp,
        mut consent: impl FnMut(&WorktreeOrder) -> Result<(), E>,
    ) -> Result<(), E> {
        let orders = plan.slots.iter().filter_map(|slot| slot.order.as_ref().ok());
        orders.filter_map(|order| self.fleet.tree_of(order)).try_for_each(&mut consent)?;
        Ok(self.make_ready(now)?)
    }

    /// The same for a session that goes on: no working tree is made for it.
    pub fn make_ready(&self, now: Timestamp) -> Result<(), StoreError> {
        Store::at(&self.caller.home).prepare()?;
        self.fleet.forget_old_launches(now, self.kept);
        Ok(())
    }

    /// Starts it and waits until a survey shows its turn; it is taken back once `cancelled` says so.
    pub fn carry_out(
        &self,
        order: LaunchOrder,
        words: &str,
        now: Timestamp,
        cancelled: impl Fn() -> bool,
    ) -> Result<Surveyed, LaunchError> {
        self.fleet.launch(order, words, &self.caller, now)?.wait(&self.fleet, cancelled)
    }
}
