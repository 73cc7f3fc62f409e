//! `agentctl locks`: who holds which directory.

use std::io::Write;
use std::path::Path;

use agentctl_model::text;
use agentctl_model::{DirectoryHolder, LockType};
use jiff::Timestamp;

use super::{coverage, lock};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::sessions::short_ids;
use crate::render::style::{self, Tone};
use crate::render::table::{Cell, Column, Table};
use crate::render::{json, time};
use crate::surroundings::Surroundings;

/// Show who holds a directory: manual locks, and the live sessions that work there
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One JSON object: asOf, locks, sources
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let fleet = surroundings.fleet()?;
    let held = fleet.held(&surroundings.locks()?, surroundings.now())?;
    if args.json {
        json::answer(out, &held)?;
        return Ok(Exit::Done);
    }
    if held.locks.is_empty() {
        writeln!(out, "no directory is held; `agentctl lock DIR` keeps launches out of one")?;
    } else {
        for line in table(&held.locks, held.as_of, surroundings).lines(out.width(), out.paint) {
            writeln!(out, "{line}")?;
        }
    }
    coverage::warn(&held.sources, surroundings, out);
    Ok(Exit::Done)
}

fn table(locks: &[DirectoryHolder], now: Timestamp, surroundings: &Surroundings) -> Table {
    let mut table = Table::new(vec![
        Column::flexible("DIRECTORY", 20).keep_end(),
        Column::flexible("HELD BY", 16),
        Column::flexible("WHY", 12),
        Column::whole("SINCE").expendable(1),
        Column::whole("ENDS").expendable(2),
    ]);
    let mut ids = short_ids(locks.iter().filter_map(|holder| holder.session_id.as_deref())).into_iter();
    for holder in locks {
        let (by, why) = match holder.lock_type {
            LockType::Manual => by_hand(holder),
            LockType::Auto => by_session(holder, ids.next().unwrap_or_default()),
        };
        table.row(vec![
            Cell::plain(surroundings.shown(Path::new(&holder.directory))),
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
