//! `agentctl inbox`: what waits for a person, over all agents.

use std::io::Write;

use agentctl_fleet::inbox::{A_DAY, Inbox, InboxItem, InboxKind};
use agentctl_model::text;
use jiff::Timestamp;

use super::heard;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::sessions::short_ids;
use crate::render::style::{self, Tone};
use crate::render::table::{Cell, Column, Table};
use crate::render::time::Since;
use crate::render::{json, time};
use crate::surroundings::Surroundings;

/// Show what waits for a person: approvals, questions, limits, failures
#[derive(Debug, clap::Args)]
#[command(after_help = "Who is blocked comes first, the longest wait before all; then what failed.\n\n\
    Examples:\n  \
    agentctl inbox\n  \
    agentctl inbox --since 7d          failures of a whole week\n  \
    agentctl inbox --json | jq -r '.items[].next[0]'")]
pub(crate) struct Args {
    /// How far back failures of stopped sessions count: 7d, 12h, an RFC 3339 time, or `all` [default: 1d]
    #[arg(long, value_name = "TIME", value_parser = Since::parse)]
    since: Option<Since>,
    /// Only sessions of this agent (repeatable)
    #[arg(long, value_name = "NAME", value_parser = super::adapter_names())]
    adapter: Vec<String>,
    /// One JSON object: asOf, items, sources
    #[arg(long)]
    json: bool,
    /// Exit with 6 when some source could not be heard completely
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let fleet = surroundings.fleet()?;
    let answer = fleet.inbox(args.since.unwrap_or(A_DAY), args.adapter.clone(), surroundings.now());
    let exit = heard::exit(&answer.sources, args.strict, surroundings);
    if args.json {
        json::answer(out, &answer)?;
        return Ok(exit);
    }
    if answer.items.is_empty() {
        writeln!(out, "nothing waits for you")?;
    } else {
        // What to do stands below, in one piece: a command that is cut cannot be copied.
        let lines = table(&answer).lines(out.width(), out.paint);
        let steps = std::iter::once(String::new()).chain(next_steps(&answer));
        for (line, next) in lines.into_iter().zip(steps) {
            writeln!(out, "{line}")?;
            if !next.is_empty() {
                writeln!(out, "  → {}", out.paint.strong(&next))?;
            }
        }
    }
    heard::warn_unread(&args.adapter, &fleet, out);
    heard::warn(&answer.sources, surroundings, out);
    Ok(exit)
}

fn table(inbox: &Inbox) -> Table {
    let mut table = Table::new(vec![
        Column::whole("FOR"),
        Column::flexible("WHAT", 24),
        Column::flexible("SESSION", 14),
        Column::whole("AGENT").expendable(1),
    ]);
    for item in &inbox.items {
        let session = &item.session;
        let title = session.name.as_deref().or(session.prompt.as_deref()).unwrap_or("-");
        table.row(vec![
            waited(item, inbox.as_of),
            what(item),
            Cell::plain(text::one_line(title)),
            Cell::new(text::one_line(&session.adapter), Tone::Dim),
        ]);
    }
    table
}

/// What to do about each, with ids as short as they can be.
fn next_steps(inbox: &Inbox) -> Vec<String> {
    let ids = short_ids(inbox.items.iter().map(|item| item.session.id.as_str()));
    let step = |(item, id): (&InboxItem, &str)| {
        let next = item.next.first().map(|next| next.replacen(&item.session.id, id, 1));
        text::one_line(&next.unwrap_or_default())
    };
    inbox.items.iter().zip(ids).map(step).collect()
}

fn waited(item: &InboxItem, now: Timestamp) -> Cell {
    let Some(since) = item.since else { return Cell::new("?", Tone::Dim) };
    let duration = time::elapsed(now, since);
    Cell::new(time::short(duration), style::wait_tone(item.session.status, duration))
}

fn what(item: &InboxItem) -> Cell {
    let look = style::look(item.session.status, item.session.outcome);
    let word = match (item.kind, item.session.outcome) {
        (InboxKind::Failure, Some(outcome)) => outcome.word(),
        (kind, _) => kind.word(),
    };
    let glyph = if item.kind == InboxKind::Failure { '✕' } else { look.glyph };
    let cell = Cell::new(format!("{glyph} {word}"), look.tone);
    match &item.summary {
        Some(summary) => cell.and(format!("  {}", text::one_line(summary)), Tone::Plain),
        None => cell,
    }
}
