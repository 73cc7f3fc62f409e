//! `agentctl locks`: who holds which directory.

use std::io::Write;
use std::path::Path;

use agentctl_fleet::keep::locks::LockList;
use agentctl_hosts::Ask;
use agentctl_model::{DirectoryHolder, HostReport, LockType, Road, text};

use super::host_args::{self, HostArgs};
use super::{coverage, lock};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::hosts::{Asked, Roster};
use crate::output::Output;
use crate::render::sessions::short_ids;
use crate::render::style::{self, Tone};
use crate::render::table::{Cell, Column, Table};
use crate::render::{json, time};
use crate::surroundings::Surroundings;

/// Show who holds a directory: manual locks, and the live sessions that work there
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    hosts: HostArgs,
    /// One JSON object: asOf, locks, sources, hosts
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let fleet = surroundings.fleet()?;
    let here = || Ok::<_, Failure>(fleet.held(&surroundings.locks()?, surroundings.now())?);
    let held = match args.hosts.roster(surroundings)? {
        None => here()?,
        Some(roster) => over_hosts(&roster, &args.hosts.asked(&roster, fleet.host())?, here, surroundings)?,
    };
    host_args::warn(&held.hosts, out);
    if args.json {
        json::answer(out, &held)?;
        return Ok(Exit::Done);
    }
    if held.locks.is_empty() {
        writeln!(out, "no directory is held; `agentctl lock DIR` keeps launches out of one")?;
    } else {
        for line in table(&held, surroundings).lines(out.width(), out.paint) {
            writeln!(out, "{line}")?;
        }
    }
    coverage::warn(&held.sources, surroundings, out);
    Ok(Exit::Done)
}

/// Who holds what on these machines, all asked at once.
fn over_hosts(
    roster: &Roster,
    asked: &Asked,
    here: impl FnOnce() -> Result<LockList, Failure>,
    surroundings: &Surroundings,
) -> Result<LockList, Failure> {
    let empty =
        || LockList { as_of: surroundings.now(), locks: Vec::new(), sources: Vec::new(), hosts: Vec::new() };
    let mut held = if asked.local { here()? } else { empty() };
    let told = |row: &mut HostReport, there: &LockList| {
        row.told(there.as_of, &there.sources, there.hosts.first());
    };
    let (rows, answers) = roster.ask_all(asked, std::mem::take(&mut held.hosts), Ask::get("/v1/locks"), told);
    held.hosts = rows;
    for (name, mut there) in answers {
        there.locks.iter_mut().for_each(|holder| holder.host.clone_from(&name));
        there.sources.iter_mut().for_each(|source| source.host.clone_from(&name));
        held.locks.extend(there.locks);
        held.sources.extend(there.sources);
    }
    held.locks.sort_by_key(|holder| holder.lock_type != LockType::Manual);
    Ok(held)
}

fn table(held: &LockList, surroundings: &Surroundings) -> Table {
    let locks = &held.locks;
    // The times of another machine are told by its own clock.
    let row = |holder: &DirectoryHolder| held.hosts.iter().find(|host| host.name == holder.host);
    let elsewhere = |holder: &DirectoryHolder| row(holder).filter(|host| host.via != Road::Local);
    let mut table = Table::new(vec![
        Column::flexible("DIRECTORY", 20).keep_end(),
        Column::flexible("HELD BY", 16),
        Column::flexible("WHY", 12),
        Column::whole("SINCE").expendable(1),
        Column::whole("ENDS").expendable(2),
    ]);
    let mut ids = short_ids(locks.iter().filter_map(|holder| holder.session_id.as_deref())).into_iter();
    for holder in locks {
        let far = elsewhere(holder);
        let now = far.and_then(|host| host.as_of).unwrap_or(held.as_of);
        let prefix = far.map(|host| format!("{}/", host.name)).unwrap_or_default();
        let (by, why) = match holder.lock_type {
            LockType::Manual => by_hand(holder),
            LockType::Auto => by_session(holder, &format!("{prefix}{}", ids.next().unwrap_or_default())),
        };
        let directory = match far {
            None => surroundings.shown(Path::new(&holder.directory)),
            Some(host) => format!("{}:{}", host.name, text::one_line(&holder.directory)),
        };
        table.row(vec![
            Cell::plain(directory),
            by,
            why,
            Cell::new(holder.since.map(|since| time::ago(now, since)).unwrap_or_default(), Tone::Dim),
            Cell::new(lock::left(holder, now).unwrap_or_default(), Tone::Dim),
        ]);
    }
    table
}

fn by_hand(holder: &DirectoryHolder) -> (Cell, Cell) {
    let by = holder.by.as_deref().map_or_else(|| "somebody".to_owned(), text::one_line);
    let why = holder
        .reason
        .as_deref()
        .map_or_else(|| "locked".to_owned(), |why| format!("locked: {}", text::one_line(why)));
    (Cell::new(by, Tone::Strong), Cell::new(why, Tone::Attention))
}

fn by_session(holder: &DirectoryHolder, id: &str) -> (Cell, Cell) {
    let adapter = holder.adapter.as_deref().map(text::one_line).unwrap_or_default();
    let by = Cell::plain(text::one_line(id)).and(format!(" {adapter}"), Tone::Dim);
    let look = style::look(holder.status.unwrap_or(agentctl_model::Status::Unknown), None);
    let pid = holder.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
    (by, Cell::new(format!("{} {}", look.glyph, look.word), look.tone).and(pid, Tone::Dim))
}
