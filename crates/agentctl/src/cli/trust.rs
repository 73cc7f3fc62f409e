//! Asks a person whether a repository's own programs may run. Only a checkout needs this; reading runs none.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::worktree::{self, Programs};

use crate::failure::Failure;
use crate::output::Output;
use crate::render::request;
use crate::surroundings::Surroundings;

/// Requires agreement: from before, by the flag, or now from the person at the terminal. Otherwise the
/// command is refused.
pub(super) fn consent(
    repository: &Path,
    (branch, base): (&str, Option<&str>),
    trust: bool,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<(), Failure> {
    let marks = Marks::of(surroundings.store()?);
    let agree = |programs: &Programs| trust || agrees(repository, programs, surroundings, out);
    Ok(worktree::consent(&marks, (repository, branch, base), surroundings.now(), agree)?)
}

fn agrees(repository: &Path, programs: &Programs, surroundings: &Surroundings, out: &mut Output) -> bool {
    let mut ask = || -> io::Result<bool> {
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Ok(false);
        }
        out.flush()?;
        let mut screen = io::stderr();
        writeln!(screen, "a checkout of {} runs programs of its own:", surroundings.shown(repository))?;
        for line in programs.named.iter().flat_map(|program| request::lines(program, 2, out.width())) {
            writeln!(screen, "{line}")?;
        }
        write!(screen, "run them, now and until they change? [y/N] ")?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    };
    // A person who cannot be asked has not agreed.
    ask().unwrap_or(false)
}
