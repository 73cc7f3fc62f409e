//! Several launches at once. One that fails does not fail the others.

use agentctl_model::Surveyed;
use jiff::Timestamp;

use super::Launching;
use super::slots::{LaunchPlan, PlannedSlot};
use crate::read::groups::{FailedSlot, GroupLaunch};
use crate::{Caller, Fleet};

/// The results of the slots, in their order.
#[derive(Debug)]
pub struct SlotResults {
    pub group: String,
    pub sessions: Vec<(String, Box<Surveyed>)>,
    pub failed: Vec<FailedSlot>,
}

impl From<SlotResults> for GroupLaunch {
    fn from(done: SlotResults) -> Self {
        let sessions = done.sessions.into_iter().map(|(_, surveyed)| *surveyed.session).collect();
        Self { group: done.group, sessions, failed: done.failed }
    }
}

enum State {
    Starting(Launching),
    Done(Box<Surveyed>),
    Failed(String),
}

/// The launches that have no outcome yet.
fn starting(slots: &[(String, State)]) -> impl Iterator<Item = &Launching> {
    slots.iter().filter_map(|(_, state)| state.starting())
}

impl State {
    fn starting(&self) -> Option<&Launching> {
        match self {
            Self::Starting(launching) => Some(launching),
            Self::Done(_) | Self::Failed(_) => None,
        }
    }
}

impl Fleet {
    /// Starts all slots and waits until each has a session or has failed. Each slot has its own launch time, because
    /// those times define their order. The slots that have no session yet are cancelled once `cancelled` returns true.
    pub fn launch_side_by_side(
        &self,
        plan: LaunchPlan,
        caller: &Caller,
        now: impl Fn() -> Timestamp,
        cancelled: impl Fn() -> bool,
    ) -> SlotResults {
        let words = plan.words;
        let begin = |slot: PlannedSlot| (slot.name.clone(), self.begin(slot, &words, caller, now()));
        let mut slots: Vec<(String, State)> = plan.slots.into_iter().map(begin).collect();
        loop {
            for (_, state) in &mut slots {
                self.step(state, &cancelled);
            }
            if starting(&slots).next().is_none() {
                break;
            }
            Launching::rest(starting(&slots));
        }
        let (mut sessions, mut failed) = (Vec::new(), Vec::new());
        for (slot, state) in slots {
            match state {
                State::Done(session) => sessions.push((slot, session)),
                State::Failed(error) => failed.push(FailedSlot { slot, error }),
                State::Starting(_) => {}
            }
        }
        SlotResults { group: plan.group.unwrap_or_default(), sessions, failed }
    }

    fn begin(&self, slot: PlannedSlot, words: &str, caller: &Caller, now: Timestamp) -> State {
        let order = match slot.order {
            Ok(order) => order,
            Err(error) => return State::Failed(error.message),
        };
        match self.launch(order, words, caller, now) {
            Ok(launching) => State::Starting(launching),
            Err(error) => State::Failed(error.message),
        }
    }

    fn step(&self, state: &mut State, cancelled: &impl Fn() -> bool) {
        let State::Starting(launching) = state else { return };
        if cancelled() {
            launching.cancel();
        }
        match launching.outcome(self) {
            None => {}
            Some(Ok(session)) => *state = State::Done(Box::new(session)),
            Some(Err(error)) => *state = State::Failed(error.message),
        }
    }
}
