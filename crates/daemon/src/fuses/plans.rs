//! Plans: resumes at a time. Each is carried out in a thread of its own, because an agent may start slowly.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentctl_fleet::act::planned::PlanOutcome;
use agentctl_fleet::keep::fault::reach;
use agentctl_model::{EventKind, Fuse, Session, Stage, text};
use jiff::{SignedDuration, Timestamp};

use super::expiry::{tell, until};
use crate::run::clock;
use crate::serve::api::planned_request;
use crate::shared::Shared;

/// How soon a plan that cannot be carried out yet is looked at again.
const AGAIN: Duration = Duration::from_secs(2);
/// How long a plan that was not carried out is shown.
const SHOWN: SignedDuration = SignedDuration::from_hours(24);

/// The plans that are being carried out.
#[derive(Default)]
pub(super) struct Plans {
    at_work: Arc<Mutex<BTreeSet<String>>>,
    /// Why each could not be carried out yet, so that the same words are logged once.
    said: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Plans {
    /// Begins what is due, and returns how long nothing else is.
    pub(super) fn check(&self, shared: &Arc<Shared>, fuse: &Fuse, now: Timestamp) -> io::Result<Duration> {
        if fuse.resume.as_ref().is_some_and(|plan| plan.problem.is_some()) {
            if now.duration_since(fuse.stage_at) > SHOWN {
                shared.fuses.remove(&fuse.id)?;
            }
            return Ok(Duration::MAX);
        }
        if fuse.stage != Stage::Firing && fuse.expires_at.is_some_and(|at| at > now) {
            return Ok(until(fuse.expires_at, now));
        }
        if !self.at_work.lock().unwrap_or_else(PoisonError::into_inner).insert(fuse.id.clone()) {
            return Ok(AGAIN);
        }
        let (at_work, said) = (self.at_work.clone(), self.said.clone());
        let (shared, fuse) = (shared.clone(), fuse.clone());
        std::thread::Builder::new().name("plan".into()).spawn(move || {
            let words = carry_out(&shared, &fuse).err().map(|error| error.to_string());
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            said.retain(|id, _| shared.fuses.has(id));
            if let Some(words) = words.filter(|words| said.get(&fuse.id) != Some(words)) {
                shared.log.say(&format!("plan {}: {words}", fuse.id));
                said.insert(fuse.id.clone(), words);
            }
            drop(said);
            at_work.lock().unwrap_or_else(PoisonError::into_inner).remove(&fuse.id);
        })?;
        Ok(AGAIN)
    }
}

/// That it is being carried out is on disk before anything is done, and what became of it before it is told.
fn carry_out(shared: &Arc<Shared>, fuse: &Fuse) -> io::Result<()> {
    // What was listed a moment ago may have been cancelled or carried out since.
    let is_waiting = |fuse: &Fuse| fuse.resume.as_ref().is_some_and(|plan| plan.problem.is_none());
    if !shared.fuses.get(&fuse.id).is_some_and(|now| is_waiting(&now)) {
        return Ok(());
    }
    if fuse.stage != Stage::Firing {
        let firing = shared.fuses.update(&fuse.id, |fuse| {
            fuse.stage = Stage::Firing;
            fuse.stage_at = clock::now();
        })?;
        // It was cancelled in the meantime.
        if firing.is_none() {
            return Ok(());
        }
    }
    reach("plan.begun");
    let outcome = outcome(shared, fuse);
    reach("plan.acted");
    match outcome {
        PlanOutcome::Resumed(surveyed) => done(shared, fuse, Some(&surveyed.session)),
        PlanOutcome::Left(why) => failed(shared, fuse, &why),
        PlanOutcome::Open(why) => {
            failed(shared, fuse, &format!("whether the agent took it is not known: {why}"))
        }
        PlanOutcome::NotYet(why) => Err(io::Error::other(why)),
    }
}

fn outcome(shared: &Arc<Shared>, fuse: &Fuse) -> PlanOutcome {
    let (Some(plan), Some(key)) = (&fuse.resume, fuse.session()) else {
        return PlanOutcome::Left("it names no session".to_owned());
    };
    let launcher = match shared.settings.launcher_with(&plan.variables) {
        Ok(launcher) => launcher,
        Err(why) => return PlanOutcome::NotYet(why),
    };
    match planned_request(plan, &key.adapter) {
        Ok(request) => launcher.carry_out_plan(&fuse.id, &key, plan, &request, clock::now()),
        Err(problem) => PlanOutcome::Left(problem.detail.clone()),
    }
}

/// It is told before it is forgotten: who was killed in between tells it again.
fn done(shared: &Arc<Shared>, fuse: &Fuse, session: Option<&Session>) -> io::Result<()> {
    tell(shared, EventKind::FuseExpired, fuse, session);
    reach("plan.told");
    shared.fuses.remove(&fuse.id).map(drop)
}

/// A plan that was not carried out stays to be seen.
fn failed(shared: &Arc<Shared>, fuse: &Fuse, why: &str) -> io::Result<()> {
    let kept = shared.fuses.update(&fuse.id, |fuse| {
        if let Some(plan) = &mut fuse.resume {
            plan.problem = Some(text::one_line(why));
        }
    })?;
    if let Some(kept) = kept {
        tell(shared, EventKind::FuseExpired, &kept, super::session_of(shared, &kept).as_deref());
    }
    Ok(())
}
