//! Budgets of directories: a warning at four fifths, then the sessions there are interrupted, then stopped. While a budget
//! is spent, a session that begins to work there is interrupted and stopped too.
//!
//! Each look counts the agents' records, of which those that have not changed are not read again. Only what was heard can
//! spend a budget.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use agentctl_fleet::BudgetState;
use agentctl_fleet::keep::fault::reach;
use agentctl_model::text::{counted, one_line};
use agentctl_model::{EndedBy, EventKind, Fuse, Period, SessionKey, Stage, Status, Surveyed};
use jiff::Timestamp;

use super::expiry::{expire, tell};
use super::limits::{GRACE, WARNING};
use crate::run::clock;
use crate::shared::Shared;

/// The shortest pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// A look that took long is followed by a pause of this many times its length.
const SHARE: u32 = 10;
/// The longest time without a look: some servers do not announce their changes, and a period may end.
const LONGEST: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Budgets {
    last: Option<Look>,
    /// When a session that works in spite of a budget was interrupted, by the budget's id.
    interrupted: HashMap<(String, SessionKey), Instant>,
}

struct Look {
    began: Instant,
    took: Duration,
    changes: u64,
    budgets: BTreeSet<String>,
    /// When what was begun is to be continued, whether something has changed by then or not.
    due: Option<Instant>,
}

impl Budgets {
    /// Looks if something may have changed, and returns how long nothing needs to be done.
    pub(super) fn check(&mut self, shared: &Arc<Shared>, budgets: &[Fuse], now: Timestamp) -> Duration {
        if budgets.is_empty() {
            *self = Self::default();
            return LONGEST;
        }
        let changes = shared.live.changes();
        let ids: BTreeSet<String> = budgets.iter().map(|budget| budget.id.clone()).collect();
        if let Some(last) = self.last.as_ref().filter(|last| last.budgets == ids) {
            let has_changed = last.changes != changes || last.began.elapsed() >= LONGEST;
            let has_rested = last.began.elapsed() >= rest(last.took);
            let left = last.due.map(|due| due.saturating_duration_since(Instant::now()));
            if left != Some(Duration::ZERO) && !(has_changed && has_rested) {
                return left.map_or(PAUSE, |left| left.min(PAUSE));
            }
        }
        let began = Instant::now();
        let Ok(fleet) = shared.settings.fleet() else { return PAUSE };
        let states = fleet.budgets(budgets, now);
        let took = began.elapsed();
        for (budget, state) in budgets.iter().zip(&states) {
            if let Err(error) = self.advance(shared, budget, state) {
                shared.log.say(&format!("budget {}: {error}", budget.id));
            }
        }
        self.interrupted.retain(|(id, _), _| ids.contains(id));
        let due = self.due(shared, &ids, rest(took));
        self.last = Some(Look { began, took, changes, budgets: ids, due });
        PAUSE
    }

    /// When the next session is to be stopped, or the next step taken that could not be recorded. It is asked of the
    /// budgets as they are after the look.
    fn due(&self, shared: &Arc<Shared>, budgets: &BTreeSet<String>, rest: Duration) -> Option<Instant> {
        let now = Instant::now();
        let of_budget = |budget: Fuse| match budget.stage {
            Stage::Reached => Some(now + rest),
            Stage::Interrupted => {
                let since = clock::now().duration_since(budget.stage_at).unsigned_abs();
                Some(now + GRACE.checked_sub(since).unwrap_or(rest))
            }
            _ => None,
        };
        let stages = budgets.iter().filter_map(|id| shared.fuses.get(id)).filter_map(of_budget);
        stages.chain(self.interrupted.values().map(|at| *at + GRACE)).min()
    }

    fn advance(&mut self, shared: &Arc<Shared>, budget: &Fuse, state: &BudgetState) -> io::Result<()> {
        let (spent, now) = (&state.spent, clock::now());
        let told = |fuse: Fuse| Fuse { spent: Some(spent.clone()), ..fuse };
        let to = |stage: Stage| {
            let changed = shared.fuses.update(&budget.id, |fuse| {
                fuse.stage = stage;
                fuse.stage_at = now;
            });
            changed.map(|fuse| fuse.map(told))
        };
        let is_new_period = budget.stage != Stage::Set && budget.stage_at < spent.from;
        if is_new_period || (budget.stage > Stage::Reached && !budget.is_spent(spent)) {
            if budget.stage == Stage::Reached {
                // The daemon died before it could tell, and the period ended meanwhile.
                expire(shared, &told(budget.clone()), None)?;
            }
            return to(Stage::Set).map(drop);
        }
        match budget.stage {
            Stage::Set | Stage::Warned if budget.part_spent(spent) >= 1.0 => {
                // It was cancelled or raised meanwhile: then there is nothing to do.
                let Some(reached) = to(Stage::Reached)? else { return Ok(()) };
                reach("budget.reached");
                break_off(shared, &reached, state, to)
            }
            Stage::Set if budget.part_spent(spent) >= WARNING => {
                if let Some(warned) = to(Stage::Warned)? {
                    tell(shared, EventKind::FuseWarned, &warned, None);
                }
                Ok(())
            }
            // A daemon that died in this stage continues in it, with the moment at which it was reached.
            Stage::Reached => break_off(shared, &told(budget.clone()), state, to),
            Stage::Interrupted if now.duration_since(budget.stage_at).unsigned_abs() >= GRACE => {
                act(shared, budget, &state.live, Deed::Stop);
                reach("budget.stopped");
                to(Stage::Spent).map(drop)
            }
            Stage::Spent => {
                self.hold_down(shared, budget, state);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Interrupts a session that works although nothing is left, and stops it if it goes on.
    fn hold_down(&mut self, shared: &Arc<Shared>, budget: &Fuse, state: &BudgetState) {
        let known = |one: &Surveyed| (budget.id.clone(), one.key.clone());
        let working: Vec<&Surveyed> = state.live.iter().filter(|one| works(one)).collect();
        self.interrupted.retain(|(id, key), _| *id != budget.id || working.iter().any(|one| one.key == *key));
        let (again, new): (Vec<&Surveyed>, Vec<&Surveyed>) =
            working.into_iter().partition(|one| self.interrupted.contains_key(&known(one)));
        let late = again.into_iter().filter(|one| self.interrupted[&known(one)].elapsed() >= GRACE);
        let late: Vec<Surveyed> = late.cloned().collect();
        act(shared, budget, &late, Deed::Stop);
        let new: Vec<Surveyed> = new.into_iter().cloned().collect();
        act(shared, budget, &new, Deed::Interrupt);
        self.interrupted.extend(late.iter().chain(&new).map(|one| (known(one), Instant::now())));
    }
}

/// The pause after a look that took this long.
fn rest(took: Duration) -> Duration {
    PAUSE.max(took * SHARE)
}

/// Tells that the budget is spent, and interrupts who works.
fn break_off(
    shared: &Arc<Shared>,
    budget: &Fuse,
    state: &BudgetState,
    to: impl Fn(Stage) -> io::Result<Option<Fuse>>,
) -> io::Result<()> {
    expire(shared, budget, None)?;
    reach("budget.told");
    if to(Stage::Interrupted)?.is_some() {
        let working: Vec<Surveyed> = state.live.iter().filter(|one| works(one)).cloned().collect();
        act(shared, budget, &working, Deed::Interrupt);
        reach("budget.interrupted");
    }
    Ok(())
}

fn works(one: &Surveyed) -> bool {
    matches!(one.session.status, Status::Running | Status::Waiting)
}

#[derive(Clone, Copy)]
enum Deed {
    Interrupt,
    Stop,
}

/// Does it to all of them at once: one that takes its time must not spend the time of the others.
fn act(shared: &Arc<Shared>, budget: &Fuse, sessions: &[Surveyed], deed: Deed) {
    if sessions.is_empty() {
        return;
    }
    let by = EndedBy::fuse(limit(budget));
    let what = match deed {
        Deed::Interrupt => "interrupts",
        Deed::Stop => "stops",
    };
    let number = counted(sessions.len(), "session", "sessions");
    shared.log.say(&format!("budget {}: {what} {number}", budget.id));
    thread::scope(|scope| {
        for Surveyed { key, .. } in sessions {
            let by = &by;
            scope.spawn(move || {
                let done = match deed {
                    Deed::Interrupt => shared.stopper.interrupt(key, by),
                    Deed::Stop => shared.stopper.stop(key, by),
                };
                if let Err(error) = done {
                    shared.log.say(&format!("budget {}: {}: {}", budget.id, key.id, one_line(&error)));
                }
            });
        }
    });
}

/// The limit as the user set it.
fn limit(budget: &Fuse) -> String {
    let cost = budget.max_cost.map(|most| format!("--max-cost {most}"));
    let tokens = budget.max_tokens.map(|most| format!("--max-tokens {most}"));
    let per = budget.per.map_or("day", Period::as_str);
    let both: Vec<String> = cost.into_iter().chain(tokens).collect();
    format!("{} --per {per}", both.join(" "))
}
