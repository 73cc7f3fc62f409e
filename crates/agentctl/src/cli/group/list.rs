//! `agentctl group list`: the known groups, newest first.

use std::io::Write;

use agentctl_fleet::read::groups::{GroupList, Groups};
use agentctl_fleet::{Group, Slot};
use agentctl_model::text;

use super::super::coverage;
use super::super::host_args::HostArgs;
use super::over_hosts;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::style::Tone;
use crate::render::table::{Cell, Column, Table};
use crate::render::{json, time};
use crate::surroundings::Surroundings;

/// List the groups with the states of their sessions
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    hosts: HostArgs,
    /// One JSON object: groups, sources
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let found = surroundings.fleet()?.groups(None, false);
    if let Some(asked) = super::elsewhere(&args.hosts, false, surroundings)? {
        let own = if asked.local { found } else { Groups::default() };
        return over_hosts::list(&asked, GroupList::from(own), args.json, out);
    }
    if args.json {
        json::answer(out, &GroupList::from(found))?;
        return Ok(Exit::Done);
    }
    if found.groups.is_empty() {
        writeln!(out, "no groups; `agentctl launch` with several --adapter makes one")?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(vec![
        Column::whole("GROUP"),
        Column::flexible("SESSIONS", 16),
        Column::flexible("PROMPT", 16).expendable(1),
        Column::whole("AGE"),
    ]);
    for group in &found.groups {
        table.row(vec![
            Cell::plain(text::one_line(&group.name)),
            states(&group.slots),
            Cell::plain(prompt(group)),
            Cell::new(time::ago(surroundings.now(), group.launched_at), Tone::Dim),
        ]);
    }
    for line in table.lines(out.width(), out.paint) {
        writeln!(out, "{line}")?;
    }
    coverage::warn(&found.sources, surroundings, out);
    Ok(Exit::Done)
}

/// "2 running, 1 done", in the order of appearance.
fn states(slots: &[Slot]) -> Cell {
    let mut counts: Vec<(&str, Tone, usize)> = Vec::new();
    for slot in slots {
        let (_, word, tone) = super::show::state(slot);
        match counts.iter_mut().find(|(known, _, _)| *known == word) {
            Some((_, _, count)) => *count += 1,
            None => counts.push((word, tone, 1)),
        }
    }
    let mut cell = Cell::default();
    for (index, (word, tone, count)) in counts.into_iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        cell = cell.and(comma, Tone::Plain).and(format!("{count} {word}"), tone);
    }
    cell
}

fn prompt(group: &Group) -> String {
    let launches = group.slots.iter().filter_map(|slot| slot.session.as_ref()?.session.launch.as_ref());
    let prompts = launches.filter_map(|launch| launch.prompt.as_deref());
    prompts.into_iter().next().map(text::one_line).unwrap_or_default()
}
