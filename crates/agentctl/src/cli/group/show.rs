//! `agentctl group show GROUP`: what each session of a group has done so far, and at what cost.

use std::io::Write;
use std::path::Path;

use agentctl_fleet::Slot;
use agentctl_fleet::read::groups::GroupView;
use agentctl_fleet::worktree::DiffStat;
use agentctl_model::text;

use super::super::coverage;
use super::{Name, over_hosts};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::sessions::{cost, short_ids, tokens};
use crate::render::style::{self, Tone};
use crate::render::table::{Cell, Column, Table};
use crate::render::{json, time};
use crate::surroundings::Surroundings;

/// Show the sessions of a group side by side: status, time, tokens, cost, changes
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    name: Name,
    /// One JSON object: group, launchedAt, slots, sources
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let fleet = surroundings.fleet()?;
    let now = surroundings.now();
    if let Some(asked) = args.name.asked(false, surroundings)? {
        let own = asked.local.then(|| args.name.find(&fleet, true)).and_then(Result::ok);
        let own = own.map(|(group, sources)| {
            let changes = group.slots.iter().map(|slot| slot.diffstat().ok().flatten()).collect();
            GroupView::new(group, changes, sources, now)
        });
        return over_hosts::show(&asked, &args.name.group, own, args.json, out);
    }
    let (group, sources) = args.name.find(&fleet, true)?;
    let mut changes = Vec::new();
    for slot in &group.slots {
        // A working tree that git cannot read does not affect the others.
        let stat = slot.diffstat();
        if let Err(error) = &stat {
            out.warn(&format!("{}: {error}", text::one_line(&slot.name)));
        }
        changes.push(stat.ok().flatten());
    }
    if args.json {
        json::answer(out, &GroupView::new(group, changes, sources, now))?;
        return Ok(Exit::Done);
    }
    let ago = time::ago(now, group.launched_at);
    writeln!(out, "group {}, launched {ago} ago", out.paint.strong(&text::one_line(&group.name)))?;
    for line in table(&group.slots, &changes, out.is_unbounded(), surroundings).lines(out.width(), out.paint)
    {
        writeln!(out, "{line}")?;
    }
    coverage::warn(&sources, surroundings, out);
    Ok(Exit::Done)
}

/// The symbol, word and tone of a slot's state.
pub(super) fn state(slot: &Slot) -> (char, &'static str, Tone) {
    match &slot.session {
        Some(surveyed) => {
            let look = style::look(surveyed.session.status, surveyed.session.outcome);
            (look.glyph, look.word, look.tone)
        }
        None if slot.is_starting() => ('◌', "starting", Tone::Dim),
        None => ('?', "not stored", Tone::Dim),
    }
}

fn table(slots: &[Slot], changes: &[Option<DiffStat>], whole: bool, surroundings: &Surroundings) -> Table {
    let mut table = Table::new(vec![
        Column::flexible("SLOT", 36),
        Column::whole("STATUS"),
        Column::whole("ID"),
        Column::whole("TIME").expendable(1),
        Column::whole("TOKENS").expendable(3),
        Column::whole("COST").expendable(2),
        Column::whole("CHANGES"),
        Column::flexible("BRANCH", 12).keep_end().expendable(4),
        Column::flexible("WORKTREE", 16).keep_end().expendable(5),
    ]);
    let id = |slot: &Slot| slot.session.as_ref().map(|surveyed| surveyed.key.id.clone()).unwrap_or_default();
    let ids: Vec<String> = slots.iter().map(id).collect();
    let ids = ids.iter().map(String::as_str);
    let ids = if whole { ids.collect() } else { short_ids(ids) };
    for ((slot, diff), id) in slots.iter().zip(changes).zip(ids) {
        let session = slot.session.as_ref().map(|surveyed| &surveyed.session);
        let (glyph, word, tone) = state(slot);
        let took = slot.took(surroundings.now()).map(time::short).unwrap_or_default();
        let used = session.and_then(|session| session.tokens);
        let price = session.and_then(|session| session.cost);
        let tree = slot.record.made.as_ref().map(|made| surroundings.shown(Path::new(&made.path)));
        table.row(vec![
            Cell::new(text::one_line(&slot.name), Tone::Strong),
            Cell::new(format!("{glyph} {word}"), tone),
            Cell::plain(text::one_line(id)),
            Cell::plain(took),
            Cell::plain(used.map(|used| tokens(&used)).unwrap_or_default()),
            Cell::plain(price.map(cost).unwrap_or_default()),
            diff.map(counts).unwrap_or_default(),
            Cell::new(slot.branch().map(text::one_line).unwrap_or_default(), Tone::Dim),
            Cell::new(tree.unwrap_or_default(), Tone::Dim),
        ]);
    }
    table
}

/// "3 files +120 -4".
fn counts(stat: DiffStat) -> Cell {
    if stat == DiffStat::default() {
        return Cell::new("none", Tone::Dim);
    }
    let files = if stat.files == 1 { "file" } else { "files" };
    let cell = Cell::plain(format!("{} {files}", stat.files));
    cell.and(format!(" +{}", stat.insertions), Tone::Good).and(format!(" -{}", stat.deletions), Tone::Bad)
}
