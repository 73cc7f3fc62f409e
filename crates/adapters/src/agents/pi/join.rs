//! Which processes own which sessions of Pi or Pi Rust. Pure.

use std::collections::HashSet;

use agentctl_model::{Claim, Found, Harvest, Joined, KernelView, Process, Stray, Tie, TurnState};

use super::file::header::{Creator, creator_by_name};
use super::file::session::name_of;
use super::processes::{Family, Mark, agents, is_headless, marks};
use crate::join::{alive, claim, only_candidates, subagent_of};

/// Uses exact marks first, then the contract's rule of the only candidate. The two agents can continue each
/// other's sessions: marks are accepted from either, but the rule of the only candidate pairs an agent only
/// with sessions that it created.
pub(super) fn join(
    creator: Creator,
    harvest: &Harvest,
    kernel: &KernelView,
    ours: impl Fn(&Process) -> bool,
) -> Joined {
    let (marks, family) = (marks(kernel), Family::of(kernel));
    let mut joined = Joined { blind: unseen(kernel), ..Joined::default() };
    let (mut top, mut nested, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for (process, kind) in agents(kernel) {
        let is_nested = family.agent_above(process).is_some();
        match marks.get(&process.pid()) {
            // Whatever its environment contains, the process names a file of this source.
            Some(mark) if !ours(process) => {
                let file = mark.file.as_ref().map(|file| file.to_string_lossy());
                let mut claims = marked(mark, process, harvest, kernel);
                claims.retain(|claim| file.is_some() && claim.variant.as_deref() == file.as_deref());
                joined.claims.extend(claims);
            }
            None if !ours(process) => {}
            Some(mark) => {
                let claims = marked(mark, process, harvest, kernel);
                if claims.is_empty() && kind == creator && !is_nested && !is_the_others(mark, creator) {
                    joined.strays.push(stray(process));
                    joined.claims.extend(unread(mark, process, kernel));
                }
                joined.claims.extend(claims);
            }
            None if kind != creator => others.push(process),
            None if is_nested => nested.push(process),
            None => top.push(process),
        }
    }
    // Who nobody started has not the session of one that somebody started.
    pair(&top, harvest, kernel, &mut joined, |found| subagent_of(found).is_none(), None);
    // An agent that another agent started is a run with a prompt, so its session has an open turn.
    pair(&nested, harvest, kernel, &mut joined, is_open, None);
    // The other agent may have continued a session that this one created; nothing more is known.
    pair(&others, harvest, kernel, &mut joined, is_open, Some(Tie::OneOfSeveral));

    let owning: HashSet<_> = joined.claims.iter().map(|claim| claim.owner.process).collect();
    let idle = top.iter().filter(|process| !owning.contains(&process.head.process));
    joined.strays.extend(idle.map(|process| stray(process)));
    joined
}

/// The sessions that a mark names: one, or several when an id occurs twice and nothing distinguishes them.
fn marked(mark: &Mark, process: &Process, harvest: &Harvest, kernel: &KernelView) -> Vec<Claim> {
    let fits = |found: &&Found| match (&mark.id, &mark.file) {
        (Some(id), _) => found.id == *id,
        (None, Some(file)) => name_of(&found.place) == name_of(file),
        (None, None) => false,
    };
    let all: Vec<&Found> = harvest.found.iter().filter(fits).collect();
    let narrowed = |narrow: &dyn Fn(&&&Found) -> bool| {
        let some: Vec<&Found> = all.iter().filter(narrow).copied().collect();
        (!some.is_empty()).then_some(some)
    };
    let cwd = process.cwd.seen().map(|cwd| cwd.to_string_lossy());
    let chosen = narrowed(&|found| mark.file.as_deref() == Some(&found.place))
        .or_else(|| narrowed(&|found| mark.file.as_deref().map(name_of) == Some(name_of(&found.place))))
        .or_else(|| narrowed(&|found| found.facts.cwd.as_deref() == cwd.as_deref()))
        .unwrap_or(all);
    let tie = if chosen.len() == 1 { Tie::Exact } else { Tie::OneOfSeveral };
    let how = || alive(process, kernel, mark.how);
    chosen
        .into_iter()
        .map(|found| Claim {
            variant: found.variant.clone(),
            ..claim(&found.id, process, tie, ends_with_its_turn(process, kernel), how())
        })
        .collect()
}

/// Claims a session whose file was not read yet, so that its id is requested and the file is read.
fn unread(mark: &Mark, process: &Process, kernel: &KernelView) -> Option<Claim> {
    let (id, file) = (mark.id.as_deref()?, mark.file.as_ref()?);
    let how = alive(process, kernel, mark.how);
    let variant = Some(file.to_string_lossy().into_owned());
    Some(Claim { variant, ..claim(id, process, Tie::Exact, ends_with_its_turn(process, kernel), how) })
}

/// Whether the process exits with its turn: its arguments say so while they are visible, or agentctl started
/// it without a screen.
fn ends_with_its_turn(process: &Process, kernel: &KernelView) -> bool {
    let is_run = || kernel.launched_for(process).is_some() && !kernel.is_on_screen(process);
    is_headless(&process.head) || is_run()
}

fn is_the_others(mark: &Mark, creator: Creator) -> bool {
    let by = mark.file.as_deref().and_then(|file| creator_by_name(name_of(file)));
    by.is_some_and(|by| by != creator)
}

/// Applies the rule of the only candidate to sessions that have no claim yet.
fn pair(
    processes: &[&Process],
    harvest: &Harvest,
    kernel: &KernelView,
    joined: &mut Joined,
    fits: impl Fn(&Found) -> bool,
    tie: Option<Tie>,
) {
    if processes.is_empty() {
        return;
    }
    let claimed: HashSet<(&str, Option<&str>)> =
        joined.claims.iter().map(|claim| (claim.id.as_str(), claim.variant.as_deref())).collect();
    let free = harvest
        .found
        .iter()
        .filter(|found| fits(found) && !claimed.contains(&(found.id.as_str(), found.variant.as_deref())));
    let mut paired = only_candidates(processes, free, &[], kernel, |process| is_headless(&process.head));
    if let Some(tie) = tie {
        for claim in &mut paired {
            claim.tie = tie;
        }
    }
    joined.claims.extend(paired);
}

fn is_open(found: &Found) -> bool {
    found.facts.turn.as_ref().is_some_and(|turn| turn.state == TurnState::Open)
}

/// An agent whose environment cannot be seen may belong to this source; then no session may be called
/// stopped.
fn unseen(kernel: &KernelView) -> Option<String> {
    agents(kernel).find_map(|(process, _)| {
        let why = process.environ.why_not()?;
        Some(format!("the variables of pid {} cannot be seen: {why}", process.pid()))
    })
}

fn stray(process: &Process) -> Stray {
    Stray::of(&process.head, process.cwd.seen().map(|cwd| cwd.to_string_lossy().into_owned()))
}
