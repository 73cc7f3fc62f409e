//! Carries out a resume that was planned for a time, at most once.
//!
//! The launch carries the plan's id as a label. Whoever is killed at any moment leaves a state that the next look
//! understands: without a launch of this plan and without a new record of the agent nothing was begun.

use agentctl_model::{Error, PlannedResume, SessionKey, Surveyed};
use jiff::Timestamp;

use crate::Query;
use crate::act::launch::{Launcher, ResumeRequest, clean_up};
use crate::keep::fault::reach;
use crate::keep::launches::{LaunchFolder, Record};
use crate::read::recover::is_of;

/// The label of a launch that a plan began.
pub const PLAN: &str = "plan";

/// What became of a plan whose time has come.
#[derive(Debug)]
pub enum PlanOutcome {
    /// The session goes on, as it was when its turn was seen; or, if that was not seen here, as it is now.
    Resumed(Box<Surveyed>),
    /// Nothing was done, and why.
    Left(String),
    /// Nobody knows whether the agent took it, so it is not repeated.
    Open(String),
    /// It cannot be said yet; it is looked at again.
    NotYet(String),
}

impl Launcher {
    /// Does what the plan says, unless the session is no longer as it was when the plan was made.
    pub fn carry_out_plan(
        &self,
        id: &str,
        key: &SessionKey,
        plan: &PlannedResume,
        request: &ResumeRequest,
        now: Timestamp,
    ) -> PlanOutcome {
        let survey = self.fleet.survey(&Query { subagents: false, ..Query::one(key) });
        let is_gone = survey.prove_ended(key).is_some();
        let Some(found) = survey.sessions.into_iter().find(|found| found.key == *key) else {
            // Only a source that was heard completely says that they are gone.
            return if is_gone {
                PlanOutcome::Left("its records are gone".to_owned())
            } else {
                PlanOutcome::NotYet("its records could not be read".to_owned())
            };
        };
        let is_unchanged = found.session.updated_at == plan.last_record;
        let ledger = self.fleet.ledger();
        let is_ours = |record: &Record| {
            is_of(record, key) && record.order.labels.get(PLAN).is_some_and(|label| label == id)
        };
        if let Some((folder, record)) = ledger.entries().iter().find(|(_, record)| is_ours(record)) {
            match state_of(folder, record, is_unchanged) {
                State::Starting => return PlanOutcome::NotYet("its agent is being started".to_owned()),
                State::Resumed => return PlanOutcome::Resumed(Box::new(found)),
                State::Open => {
                    return PlanOutcome::Open(
                        "its agent was started, and has recorded nothing since".to_owned(),
                    );
                }
                State::NeverBegun => clean_up(&self.fleet, folder, record),
            }
        }
        if !is_unchanged {
            return PlanOutcome::Left("somebody has taken it up meanwhile".to_owned());
        }
        match self.begin_plan(id, &found, plan, request, now) {
            Ok(resumed) => PlanOutcome::Resumed(Box::new(resumed)),
            Err(error) => PlanOutcome::Left(in_words(error)),
        }
    }

    fn begin_plan(
        &self,
        id: &str,
        found: &Surveyed,
        plan: &PlannedResume,
        request: &ResumeRequest,
        now: Timestamp,
    ) -> Result<Surveyed, Error> {
        let mut order = self.fleet.resume_order(found, request, &self.caller.programs)?;
        order.labels.insert(PLAN.to_owned(), id.to_owned());
        self.make_ready(now)?;
        reach("plan.ready");
        let launching = self.fleet.launch(order, &plan.message, &self.caller, now)?;
        reach("plan.launched");
        launching.wait(&self.fleet, || false)
    }
}

/// How far a launch of this plan came.
enum State {
    NeverBegun,
    Starting,
    Resumed,
    Open,
}

fn state_of(folder: &LaunchFolder, record: &Record, is_unchanged: bool) -> State {
    if !record.settled && (folder.is_held() || folder.is_awaited()) {
        return State::Starting;
    }
    match (record.process.is_some() || record.settled, is_unchanged) {
        (false, true) => State::NeverBegun,
        (true, true) => State::Open,
        (_, false) => State::Resumed,
    }
}

fn in_words(error: Error) -> String {
    let hint = error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{}{hint}", error.message)
}
