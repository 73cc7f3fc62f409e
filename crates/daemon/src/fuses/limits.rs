//! Limits of sessions: a warning at four fifths, then an interrupt, then a stop.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentctl_fleet::Query;
use agentctl_fleet::keep::fault::reach;
use agentctl_model::{EndedBy, EventKind, Fuse, Session, SessionKey, Stage, Status};
use jiff::{SignedDuration, Timestamp};

use super::expiry::{expire, tell};
use crate::run::clock;
use crate::shared::Shared;

/// The used part of a limit at which the warning is sent.
pub(super) const WARNING: f64 = 0.8;
/// How long an interrupted session may take before it is stopped.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// Ends sessions. The implementation lives in a crate above this one.
pub trait SessionStopper: Send + Sync + 'static {
    /// Interrupts what the session is doing.
    fn interrupt(&self, session: &SessionKey, by: &EndedBy) -> Result<(), String>;

    /// Ends the session with its whole process tree.
    fn stop(&self, session: &SessionKey, by: &EndedBy) -> Result<(), String>;

    /// Ends the private servers without a runner whose idle timeout is over. Returns what was done, in words, and when
    /// the next one is due.
    fn end_unattended(&self, now: Timestamp) -> Result<(Vec<String>, Option<Timestamp>), String>;
}

/// When each session was last read, and the change counter at that time. A session that writes nothing uses
/// nothing.
#[derive(Default)]
pub(super) struct Limits {
    seen: BTreeMap<String, (Instant, u64)>,
}

impl Limits {
    pub(super) fn check(&mut self, shared: &Arc<Shared>, fuse: &Fuse) -> io::Result<()> {
        let Some(key) = fuse.session() else { return shared.fuses.remove(&fuse.id).map(drop) };
        let now = clock::now();
        // A check reads the whole conversation, so it happens only when files have changed or a stage is due
        // by time.
        let changes = shared.live.changes();
        let next = if fuse.stage == Stage::Set { WARNING } else { 1.0 };
        let due =
            fuse.stage > Stage::Warned || fuse.expires_at.is_some_and(|at| time_used(fuse, at, now) >= next);
        let looked = self.seen.get(&fuse.id).copied();
        let old = looked.is_none_or(|(at, _)| at.elapsed() > Duration::from_secs(30));
        if !(due || old || looked.is_some_and(|(_, then)| then != changes)) {
            return Ok(());
        }
        self.seen.insert(fuse.id.clone(), (Instant::now(), changes));
        self.seen.retain(|id, _| shared.fuses.has(id));
        let Ok(fleet) = shared.settings.fleet() else { return Ok(()) };
        let survey = fleet.survey(&Query { usage: true, ..Query::one(&key) });
        // The limits of a session end with it. A source that cannot be read proves no end.
        if survey.prove_ended(&key).is_some() {
            return shared.fuses.remove(&fuse.id).map(drop);
        }
        let session = survey.sessions.iter().find(|seen| seen.key == key).map(|seen| &*seen.session);
        let Some(session) = session else { return Ok(()) };
        advance(shared, fuse, &key, session, now)
    }
}

fn advance(
    shared: &Arc<Shared>,
    fuse: &Fuse,
    key: &SessionKey,
    session: &Session,
    now: Timestamp,
) -> io::Result<()> {
    let used = most_used(fuse, session, now).part;
    let next = match fuse.stage {
        Stage::Set | Stage::Warned if used >= 1.0 => Stage::Reached,
        Stage::Set if used >= WARNING => Stage::Warned,
        Stage::Interrupted if now.duration_since(fuse.stage_at) >= GRACE.try_into().unwrap_or_default() => {
            Stage::Firing
        }
        // A daemon that died in this stage continues in it.
        Stage::Reached => Stage::Reached,
        Stage::Firing => Stage::Firing,
        _ => return Ok(()),
    };
    let reached = shared.fuses.update(&fuse.id, |fuse| {
        fuse.stage = next;
        fuse.stage_at = now;
    })?;
    let Some(fuse) = reached else { return Ok(()) };
    let said = |what: &str, done: Result<(), String>| {
        let words = done.err().map_or_else(String::new, |error| format!(": {error}"));
        shared.log.say(&format!("fuse {}: {what} {}{words}", fuse.id, key.id));
    };
    let by = EndedBy::fuse(most_used(&fuse, session, now).limit);
    match next {
        Stage::Set | Stage::Interrupted | Stage::Spent => {}
        Stage::Warned => tell(shared, EventKind::FuseWarned, &fuse, Some(session)),
        Stage::Reached => {
            reach("limit.reached");
            expire(shared, &fuse, Some(session))?;
            reach("limit.told");
            shared.fuses.update(&fuse.id, |fuse| {
                fuse.stage = Stage::Interrupted;
                fuse.stage_at = now;
            })?;
            if matches!(session.status, Status::Running | Status::Waiting) {
                said("interrupt", shared.stopper.interrupt(key, &by));
            }
        }
        Stage::Firing => {
            said("stop", shared.stopper.stop(key, &by));
            shared.fuses.remove(&fuse.id)?;
        }
    }
    Ok(())
}

/// One limit of a fuse.
struct Used {
    /// The used part of the limit.
    part: f64,
    /// The limit as the user set it.
    limit: String,
}

/// Returns the limit of which the largest part is used.
fn most_used(fuse: &Fuse, session: &Session, now: Timestamp) -> Used {
    let time = fuse.expires_at.map(|at| Used {
        part: time_used(fuse, at, now),
        limit: format!("--max-time {:#}", at.duration_since(fuse.set_at)),
    });
    let tokens = fuse.max_tokens.zip(session.tokens.as_ref()).map(|(most, tokens)| {
        let parts = [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write];
        let total: u64 = parts.into_iter().flatten().sum();
        #[expect(clippy::cast_precision_loss, reason = "no session has 2^53 tokens")]
        let part = total as f64 / most as f64;
        Used { part, limit: format!("--max-tokens {most}") }
    });
    let cost = fuse
        .max_cost
        .zip(session.cost)
        .map(|(most, cost)| Used { part: cost / most, limit: format!("--max-cost {most}") });
    let used = [time, tokens, cost].into_iter().flatten();
    let nothing = Used { part: 0.0, limit: "a limit of its own".to_owned() };
    used.max_by(|one, other| one.part.total_cmp(&other.part)).unwrap_or(nothing)
}

/// When time alone moves the fuse to its next stage: the warning or the end.
pub(super) fn next_stage_at(fuse: &Fuse) -> Option<Timestamp> {
    let at = fuse.expires_at.filter(|_| fuse.stage <= Stage::Warned)?;
    if fuse.stage == Stage::Warned {
        return Some(at);
    }
    // One millisecond is added so that `time_used`, which computes in floating point, has reached the warning
    // by then.
    let warning = at.duration_since(fuse.set_at).mul_f64(WARNING) + SignedDuration::from_millis(1);
    fuse.set_at.checked_add(warning).ok()
}

fn time_used(fuse: &Fuse, at: Timestamp, now: Timestamp) -> f64 {
    let whole = at.duration_since(fuse.set_at).as_secs_f64();
    if whole <= 0.0 { 1.0 } else { now.duration_since(fuse.set_at).as_secs_f64() / whole }
}
