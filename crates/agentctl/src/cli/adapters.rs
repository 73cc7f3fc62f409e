//! `agentctl adapters`: the known agents, and what can be done with each.

use std::io::Write;

use agentctl_fleet::known_agents;
use agentctl_model::text;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::json;
use crate::render::style::Tone;
use crate::render::table::{Cell, Column, Table};
use crate::surroundings::Surroundings;

/// Show which agents are known and what can be done with their sessions
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The table as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let settings = surroundings.settings()?;
    let entries = known_agents(&settings.acp_agents(), |name| settings.adapter(name).enabled.value);
    if args.json {
        json::answer(out, &entries)?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(vec![
        Column::whole("NAME"),
        Column::flexible("AGENT", 8).expendable(1),
        Column::whole("PROGRAMS").expendable(3),
        Column::flexible("OBSERVED WITH", 8).expendable(2),
        Column::whole("SESSIONS CAN"),
    ]);
    for entry in &entries {
        let can: Vec<&str> = entry.capabilities.iter().map(|capability| capability.as_str()).collect();
        let name = Cell::plain(text::one_line(&entry.name));
        let observed = Cell::new(&entry.known_good, Tone::Dim);
        table.row(vec![
            if entry.enabled { name } else { name.and(" (off)", Tone::Dim) },
            Cell::plain(text::one_line(&entry.title)),
            Cell::plain(text::one_line(&entry.programs.join(", "))),
            // What the user named was seen by nobody else.
            if entry.verified || entry.known_good.is_empty() {
                observed
            } else {
                observed.and(" (source only)", Tone::Dim)
            },
            Cell::plain(can.join(", ")),
        ]);
    }
    for line in table.lines(out.width(), out.paint) {
        writeln!(out, "{line}")?;
    }
    Ok(Exit::Done)
}
