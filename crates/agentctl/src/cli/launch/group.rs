//! Several launches side by side: one that fails does not fail the others.

use std::io::Write;

use agentctl_fleet::{Caller, Fleet, Launching};
use agentctl_model::{Session, Surveyed, text};
use serde::Serialize;

use super::slots::{Plan, Slot};
use crate::cli::wait;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::render::{json, style};
use crate::surroundings::Surroundings;

/// The answer of a group launch.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    group: &'a str,
    sessions: Vec<&'a Session>,
    failed: &'a [FailedSlot],
}

#[derive(Debug, Serialize)]
struct FailedSlot {
    slot: String,
    error: String,
}

enum State {
    Starting(Launching),
    Done(Box<Surveyed>),
    Failed(String),
}

pub(super) fn launch(
    plan: Plan,
    wait: bool,
    as_json: bool,
    fleet: &Fleet,
    caller: &Caller,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let interrupt = Interrupt::listen();
    let group = plan.group.clone().unwrap_or_default();
    let mut slots: Vec<(String, State)> = plan
        .slots
        .into_iter()
        .map(|slot| {
            let name = slot.name.clone();
            (name, start(slot, &plan.words, fleet, caller, surroundings))
        })
        .collect();
    out.progress(Some(&format!("starting {} agents ...", slots.len())));
    while slots.iter().any(|(_, state)| matches!(state, State::Starting(_))) {
        for (_, state) in &mut slots {
            step(state, fleet, &interrupt);
        }
    }
    out.progress(None);
    let (mut sessions, mut failed) = (Vec::new(), Vec::new());
    for (slot, state) in slots {
        match state {
            State::Done(session) => sessions.push((slot, session)),
            State::Failed(error) => failed.push(FailedSlot { slot, error }),
            State::Starting(_) => {}
        }
    }
    // A script that waits gets one answer, with how it ended.
    let waited = if wait && as_json && !interrupt.came() {
        wait_for_all(&mut sessions, true, fleet, surroundings, out)?
    } else {
        Exit::Done
    };
    if as_json {
        let objects = sessions.iter().map(|(_, session)| &*session.session).collect();
        json::answer(out, &Answer { group: &group, sessions: objects, failed: &failed })?;
    } else {
        tell(&group, &sessions, &failed, out)?;
    }
    if interrupt.came() {
        return Ok(Exit::Interrupted);
    }
    let waited =
        if wait && !as_json { wait_for_all(&mut sessions, false, fleet, surroundings, out)? } else { waited };
    Ok(if failed.is_empty() { waited } else { Exit::Failed })
}

/// Until every turn is over.
fn wait_for_all(
    sessions: &mut [(String, Box<Surveyed>)],
    silent: bool,
    fleet: &Fleet,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let started = sessions.iter().map(|(_, session)| (**session).clone()).collect();
    let ended = wait::for_turns(started, silent, fleet, surroundings, out)?;
    for (_, session) in sessions {
        if let Some(now) = fleet.again(session) {
            **session = now;
        }
    }
    Ok(ended)
}

fn start(slot: Slot, words: &str, fleet: &Fleet, caller: &Caller, surroundings: &Surroundings) -> State {
    let order = match slot.order {
        Ok(order) => order,
        Err(unfit) => return State::Failed(unfit.message),
    };
    match fleet.launch(order, words, caller, surroundings.now()) {
        Ok(launching) => State::Starting(launching),
        Err(error) => State::Failed(error.message),
    }
}

fn step(state: &mut State, fleet: &Fleet, interrupt: &Interrupt) {
    let State::Starting(launching) = state else { return };
    if interrupt.came() {
        launching.cancel();
    }
    match launching.outcome(fleet) {
        None => {}
        Some(Ok(session)) => *state = State::Done(Box::new(session)),
        Some(Err(error)) => *state = State::Failed(error.message),
    }
}

fn tell(
    group: &str,
    sessions: &[(String, Box<Surveyed>)],
    failed: &[FailedSlot],
    out: &mut Output,
) -> Result<(), Failure> {
    writeln!(out, "group {}", out.paint.strong(group))?;
    let widest = sessions.iter().map(|(slot, _)| slot.chars().count());
    let width = widest.chain(failed.iter().map(|failed| failed.slot.chars().count())).max().unwrap_or(0);
    for (slot, session) in sessions {
        let look = style::look(session.session.status, session.session.outcome);
        let status = out.paint.apply(look.tone, &format!("{} {:<11}", look.glyph, look.word));
        writeln!(out, "  {status} {slot:<width$}  {}", text::one_line(&session.session.id))?;
    }
    for failed in failed {
        let status = out.paint.bad(&format!("✕ {:<11}", "failed"));
        let first = failed.error.lines().next().unwrap_or_default();
        writeln!(out, "  {status} {:<width$}  {}", failed.slot, text::one_line(first))?;
    }
    let next = format!("  agentctl group show {group}");
    writeln!(out, "{}", out.paint.dim(&next))?;
    Ok(())
}
