//! The thread that expires fuses. It sleeps until the next fuse is due.
//!
//! A fuse fires in three steps: the daemon records that it fires, performs its actions, and removes it. A
//! daemon that dies in between continues where it stopped. A webhook carries the fuse's id, and a script
//! first creates a mark file, which can be created only once.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use agentctl_fleet::keep::fault::reach;
use agentctl_fleet::keep::outbox::body;
use agentctl_model::{Event, EventKind, Fuse, Session, Stage};
use jiff::Timestamp;

use super::Fuses;
use super::budgets::Budgets;
use super::idle_servers::IdleServers;
use super::limits::{Limits, next_stage_at};
use super::plans::Plans;
use crate::run::clock;
use crate::shared::Shared;
use crate::tell::commands::about;
use crate::watch::live::survey_sessions;

/// The thread wakes at least this often, because the clock may be set and the machine may sleep.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// How often a session with a limit is checked.
const LIMITS: Duration = Duration::from_secs(1);
/// The pause after a failed write.
const RETRY: Duration = Duration::from_secs(5);

/// Runs until the fuses are closed.
pub(crate) fn run_fuses(shared: &Arc<Shared>) {
    let fuses = &shared.fuses;
    let mut limits = Limits::default();
    let mut budgets = Budgets::default();
    let plans = Plans::default();
    let mut idle_servers = IdleServers::default();
    let mut reported = false;
    loop {
        let now = clock::now();
        let mut sleep = LONGEST_SLEEP;
        let known = match fuses.all() {
            Ok(known) => {
                reported = false;
                // Marks can only be swept when all fuses are known.
                fuses.sweep_marks();
                known.fuses
            }
            Err(error) => {
                if !std::mem::replace(&mut reported, true) {
                    shared.log.say(&format!("no fuse burns: {error}"));
                }
                sleep = RETRY;
                Vec::new()
            }
        };
        let (set_budgets, others): (Vec<Fuse>, Vec<Fuse>) = known.into_iter().partition(Fuse::is_budget);
        sleep = sleep.min(budgets.check(shared, &set_budgets, now));
        for fuse in others {
            let burnt = if fuse.is_plan() {
                plans.check(shared, &fuse, now).map(|rest| sleep = sleep.min(rest))
            } else if fuse.directory.is_none() {
                sleep = sleep.min(LIMITS).min(until(next_stage_at(&fuse), now));
                limits.check(shared, &fuse)
            } else if fuse.stage == Stage::Firing || fuse.expires_at.is_some_and(|at| at <= now) {
                fire(shared, &fuse)
            } else {
                sleep = sleep.min(until(fuse.expires_at, now));
                Ok(())
            };
            if let Err(error) = burnt {
                shared.log.say(&format!("fuse {}: {error}", fuse.id));
                sleep = sleep.min(RETRY);
            }
        }
        sleep = sleep.min(idle_servers.check(shared));
        let active = fuses.active();
        if active.closed {
            return;
        }
        drop(fuses.news.wait_timeout(active, sleep).unwrap_or_else(PoisonError::into_inner));
        if fuses.active().closed {
            return;
        }
    }
}

pub(super) fn until(at: Option<Timestamp>, now: Timestamp) -> Duration {
    let left = at.map(|at| at.duration_since(now)).and_then(|left| Duration::try_from(left).ok());
    left.unwrap_or(LONGEST_SLEEP).max(Duration::from_millis(1))
}

fn fire(shared: &Arc<Shared>, fuse: &Fuse) -> std::io::Result<()> {
    let fuses = &shared.fuses;
    if fuse.stage != Stage::Firing {
        let firing = fuses.update(&fuse.id, |fuse| {
            fuse.stage = Stage::Firing;
            fuse.stage_at = clock::now();
        })?;
        // The fuse was cancelled or extended in the meantime.
        if firing.is_none() {
            return Ok(());
        }
    }
    reach("fire.begun");
    expire(shared, fuse, None)?;
    reach("fire.acted");
    fuses.remove(&fuse.id)?;
    Ok(())
}

/// Performs the actions at the end of any fuse. `session` is the session that the fuse is on.
pub(super) fn expire(shared: &Arc<Shared>, fuse: &Fuse, session: Option<&Session>) -> std::io::Result<()> {
    if let Some(url) = &fuse.on_expire.webhook {
        let body = body(&event(EventKind::FuseExpired, fuse, session), clock::now(), false);
        shared.outbox.put(&fuse.firing(), &fuse.id, Some(url.clone()), body)?;
    }
    if let Some(script) = &fuse.on_expire.script {
        run(shared, fuse, session, script);
    }
    tell(shared, EventKind::FuseExpired, fuse, session);
    Ok(())
}

/// Returns the current state of the session that a fuse is on. Returns `None` when the session cannot be
/// read, and for the fuse of a directory.
pub(crate) fn session_of(shared: &Shared, fuse: &Fuse) -> Option<Box<Session>> {
    let key = fuse.session()?;
    let fleet = shared.settings.fleet().ok()?;
    survey_sessions(&fleet, &[key]).sessions.pop().map(|surveyed| surveyed.session)
}

pub(crate) fn tell(shared: &Shared, kind: EventKind, fuse: &Fuse, session: Option<&Session>) {
    let posted = shared.hub.post(event(kind, fuse, session));
    shared.on_event(&posted);
}

fn event(kind: EventKind, fuse: &Fuse, session: Option<&Session>) -> Event {
    Event {
        adapter: fuse.adapter.clone(),
        session_id: fuse.session_id.clone(),
        session: session.cloned().map(Box::new),
        fuse: Some(Box::new(fuse.clone())),
        ..Event::new(kind)
    }
}

/// The mark file is created first, and only one creation succeeds, so a restarted daemon never runs a script
/// a second time.
fn run(shared: &Arc<Shared>, fuse: &Fuse, session: Option<&Session>, script: &str) {
    let mark = shared.fuses.mark(&fuse.firing());
    let mut variables = about(session);
    variables.extend([
        ("AGENTCTL_FUSE_ID", fuse.id.clone()),
        ("AGENTCTL_FUSE_DIRECTORY", fuse.directory.clone().unwrap_or_default()),
        ("AGENTCTL_FUSE_LABEL", fuse.label.clone().unwrap_or_default()),
        ("AGENTCTL_FUSE_MARK", mark.to_string_lossy().into_owned()),
        ("AGENTCTL_FUSE_SCRIPT", script.to_owned()),
    ]);
    let line = "mkdir \"$AGENTCTL_FUSE_MARK\" 2>/dev/null || exit 0; exec sh -c \"$AGENTCTL_FUSE_SCRIPT\"";
    let folder = fuse.directory.as_deref().map(AsRef::as_ref);
    shared.commands.run(&format!("script of fuse {}", fuse.id), line, folder, variables);
}

impl Fuses {
    fn mark(&self, firing: &str) -> PathBuf {
        self.home.folder().join(format!(".fired-{firing}"))
    }

    /// Removes the marks of fuses that no longer exist.
    fn sweep_marks(&self) {
        let (Ok(known), Ok(entries)) = (self.known(), agentctl_files::own::entries(self.home.folder()))
        else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_known = |firing: &str| {
                // The one of a budget is needed until its next period.
                let of_budget = |fuse: &Fuse| fuse.stage != Stage::Set && firing.starts_with(&fuse.id);
                known.contains_key(firing) || known.values().any(|fuse| fuse.is_budget() && of_budget(fuse))
            };
            if name.strip_prefix(".fired-").is_some_and(|firing| !is_known(firing)) {
                let _ = std::fs::remove_dir(entry.path());
            }
        }
    }
}
