//! `doctor --reap`: ends the processes that outlived their session, and no others.

use std::io::{self, BufRead, IsTerminal, Write};

use agentctl_fleet::{Orphan, Reaped};
use agentctl_model::{ErrorKind, text};

use super::screen;
use crate::failure::Failure;
use crate::output::Output;
use crate::surroundings::Surroundings;

/// Ends every orphan to whose end the user agrees.
pub(super) fn reap(yes: bool, surroundings: &Surroundings, out: &mut Output) -> Result<Reaped, Failure> {
    let fleet = surroundings.fleet()?;
    let mut all = Reaped::default();
    for orphan in fleet.orphans() {
        if yes || agrees(&orphan, out)? {
            let reaped = fleet.reap(&orphan);
            all.ended.extend(reaped.ended);
            all.survived.extend(reaped.survived);
        }
    }
    for left in &all.survived {
        out.warn(&format!("process {} ({}) survived", left.pid, text::one_line(&left.command)));
    }
    Ok(all)
}

fn agrees(orphan: &Orphan, out: &mut Output) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(ErrorKind::Usage, "there is no terminal to ask on")
            .hint("--yes ends them without asking"));
    }
    out.flush()?;
    let session = orphan.session_id.as_deref().map(|id| format!(" of session {}", text::one_line(id)));
    let memory = orphan.memory.map(|bytes| format!(", {}", screen::bytes(bytes))).unwrap_or_default();
    let command = text::one_line(&orphan.entry.command);
    write!(
        io::stderr(),
        "end process {} ({command}{memory}){} and what it started? [y/N] ",
        orphan.process.pid,
        session.unwrap_or_default()
    )?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
