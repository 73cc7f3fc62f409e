//! The first screen on a machine without any agent: what was looked for, where, and what to do next.

use std::io::Write;
use std::path::Path;

use agentctl_fleet::{Fleet, Listing};
use agentctl_model::CoverageKind;

use super::doctor::program;
use crate::failure::Failure;
use crate::output::Output;
use crate::surroundings::Surroundings;

/// Whether no source is installed and no agent runs.
pub(crate) fn is_empty_machine<S>(listing: &Listing<S>) -> bool {
    listing.strays == 0 && listing.sources.iter().all(|source| source.coverage == CoverageKind::NotInstalled)
}

/// Two agents may share the name of a program, of which only one is installed.
fn missing(programs: &[&str], surroundings: &Surroundings) -> String {
    let is_there = |name: &&&str| surroundings.on_path(Path::new(name)).is_some();
    let absent: Vec<&str> = programs.iter().filter(|name| !is_there(name)).copied().collect();
    match (absent.as_slice(), programs.iter().find(is_there)) {
        ([], Some(other)) => format!("the `{other}` on the PATH is another agent's"),
        (absent, Some(other)) => {
            format!(
                "no program `{}` on the PATH; the `{other}` there is another agent's",
                absent.join("` or `")
            )
        }
        (absent, None) => format!("no program `{}` on the PATH", absent.join("` or `")),
    }
}

pub(crate) fn print(fleet: &Fleet, surroundings: &Surroundings, out: &mut Output) -> Result<(), Failure> {
    let paint = out.paint;
    writeln!(out, "{}", paint.strong("No coding agent has left anything on this machine yet."))?;
    writeln!(out)?;
    if fleet.sources().is_empty() {
        writeln!(out, "Nothing was looked for: HOME is not set, or every adapter is disabled.")?;
    } else {
        writeln!(out, "Looked for:")?;
    }
    for source in fleet.sources() {
        let card = source.adapter.card();
        let found = program::find(card, surroundings);
        let program = match found {
            Some(path) => format!("program {}", surroundings.shown(&path)),
            None => missing(card.programs, surroundings),
        };
        writeln!(out, "  {:<12} sessions in {}", card.name, surroundings.shown(&source.root.path))?;
        writeln!(out, "  {:<12} {}", "", paint.dim(&program))?;
    }
    let config =
        surroundings.config_path().map_or_else(|| "config.toml".into(), |path| surroundings.shown(&path));
    let first = fleet.sources().first().map_or("claude-code", agentctl_fleet::Source::name);
    writeln!(out)?;
    writeln!(out, "Next:")?;
    writeln!(out, "  Start a session in one of them; `agentctl` then shows it, whoever started it.")?;
    writeln!(out, "  If its files are elsewhere, say so in {config}:")?;
    writeln!(out, "      {}", paint.dim(&format!("[adapters.{first}]")))?;
    writeln!(out, "      {}", paint.dim("roots = [\"/where/it/keeps/them\"]"))?;
    writeln!(out, "  `agentctl doctor` says what was tried, `agentctl --help` what else there is.")?;
    Ok(())
}
