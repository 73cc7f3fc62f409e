//! Launches several agents side by side: one that fails does not affect the others.

use std::io::Write;

use agentctl_fleet::Fleet;
use agentctl_fleet::act::launch::{LaunchPlan, Launcher, SlotResults};
use agentctl_fleet::read::groups::GroupLaunch;
use agentctl_model::{Surveyed, text};

use super::turn::went_wrong;
use crate::cli::wait;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::hosts::Located;
use crate::output::Output;
use crate::render::table::{Cell, Column, Table};
use crate::render::width::wrap;
use crate::render::{json, style};
use crate::surroundings::Surroundings;

pub(super) fn launch(
    plan: LaunchPlan,
    wait: bool,
    as_json: bool,
    launcher: &Launcher,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let Launcher { fleet, caller, .. } = launcher;
    let interrupt = Interrupt::listen();
    out.progress(Some(&format!("starting {} agents ...", plan.slots.len())));
    let mut done = fleet.launch_side_by_side(plan, caller, || surroundings.now(), || interrupt.came());
    out.progress(None);
    // A script that waits gets one answer, which includes how the turns ended.
    let waited = if wait && as_json && !interrupt.came() {
        wait_for_all(&mut done.sessions, true, fleet, surroundings, out)?
    } else {
        Exit::Done
    };
    let all_well = done.failed.is_empty() && !done.sessions.iter().any(|(_, session)| went_wrong(session));
    let mut sessions = if as_json {
        json::answer(out, &GroupLaunch::from(done))?;
        Vec::new()
    } else {
        tell(&done, out)?;
        done.sessions
    };
    if interrupt.came() {
        return Ok(Exit::Interrupted);
    }
    let waited =
        if wait && !as_json { wait_for_all(&mut sessions, false, fleet, surroundings, out)? } else { waited };
    Ok(if all_well { waited } else { Exit::Failed })
}

/// Waits until every turn is over.
fn wait_for_all(
    sessions: &mut [(String, Box<Surveyed>)],
    silent: bool,
    fleet: &Fleet,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let here = |found| Located { found, sources: Vec::new(), far: None, as_of: None };
    let started = sessions.iter().map(|(_, session)| here((**session).clone())).collect();
    let ended = wait::for_turns(started, silent, fleet, surroundings, out)?;
    for (_, session) in sessions {
        if let Some(now) = fleet.again(session) {
            **session = now;
        }
    }
    Ok(ended)
}

fn tell(done: &SlotResults, out: &mut Output) -> Result<(), Failure> {
    let SlotResults { group, sessions, failed } = done;
    writeln!(out, "group {}", out.paint.strong(group))?;
    let mut table =
        Table::new(vec![Column::whole("STATUS"), Column::flexible("SLOT", 12), Column::whole("ID")]);
    for (slot, session) in sessions {
        let look = style::look(session.session.status, session.session.outcome);
        let status = Cell::new(format!("{} {}", look.glyph, look.word), look.tone);
        table.row(vec![
            status,
            Cell::plain(text::one_line(slot)),
            Cell::plain(text::one_line(&session.key.id)),
        ]);
    }
    if !sessions.is_empty() {
        for line in table.lines(out.width(), out.paint) {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "{}", out.paint.dim(&format!("  agentctl group show {group}")))?;
    }
    for failed in failed {
        // The message is printed in full: it is the agent's own text, and nothing else is left of the launch.
        let words = format!("{} {}: {}", out.paint.bad("✕"), failed.slot, text::clean(&failed.error));
        for line in wrap(&words, out.width()) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
