//! The steps of a launch, for the command line and the API alike: a request becomes orders, the user consents to what a
//! checkout would run, agentctl's directory is prepared, and each order is carried out.

use std::io;
use std::time::Duration;

use agentctl_model::{Error, Surveyed};
use jiff::Timestamp;

use super::request::LaunchRequest;
use super::slots::{Defaults, LaunchPlan};
use crate::keep::launches::{LaunchOrder, WorktreeOrder};
use crate::keep::store::StoreError;
use crate::{Caller, Fleet, Store};

/// What is needed to start and stop agents in the environment of the caller.
pub struct Launcher {
    pub fleet: Fleet,
    pub caller: Caller,
    pub defaults: Defaults,
    /// How long the records of finished launches are kept.
    pub kept: Duration,
    /// A mistake in the settings that would start another agent than the one that is meant.
    pub mistake: Option<String>,
}

impl Launcher {
    /// Returns the orders of a launch. Creates nothing.
    pub fn plan(&self, request: &LaunchRequest, words: String) -> io::Result<LaunchPlan> {
        self.fleet.plan_launch(request, words, &self.caller.programs)
    }

    /// Does the last steps before something is started; `consent` is called for every worktree that will be made.
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

    /// The same for a resumed session, for which no worktree is made.
    pub fn make_ready(&self, now: Timestamp) -> Result<(), StoreError> {
        Store::at(&self.caller.home).prepare()?;
        self.fleet.forget_old_launches(now, self.kept);
        Ok(())
    }

    /// Starts the launch and waits until a survey shows its turn; cancels it once `cancelled` returns true.
    pub fn carry_out(
        &self,
        order: LaunchOrder,
        words: &str,
        now: Timestamp,
        cancelled: impl Fn() -> bool,
    ) -> Result<Surveyed, Error> {
        self.fleet.launch(order, words, &self.caller, now)?.wait(&self.fleet, cancelled)
    }
}
