//! `agentctl inbox`: what waits for a person, over all agents.

use std::io::Write;
use std::path::PathBuf;

use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::read::inbox::{A_DAY, Inbox, InboxItem, InboxKind, PutAwayReport};
use agentctl_fleet::{Fleet, Purpose};
use agentctl_model::{CoverageKind, text};
use clap::builder::NonEmptyStringValueParser;
use clap_complete::engine::ArgValueCompleter;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::complete;
use super::coverage;
use super::fuses;
use super::host_args::{self, HostArgs};
use super::target::{Machines, NarrowingArgs};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::hosts::Located;
use crate::link::hosts::inbox::{as_of, elsewhere};
use crate::output::Output;
use crate::render::request;
use crate::render::sessions::short_ids;
use crate::render::style::{self, Tone};
use crate::render::table::{Cell, Column, Table};
use crate::render::time::Since;
use crate::render::{json, time};
use crate::surroundings::Surroundings;

/// Show what waits for a person: approvals, questions, limits, failures
#[derive(Debug, clap::Args)]
#[command(after_help = "Blocked sessions come first, the longest wait on top; then failures.\n\n\
    Examples:\n  \
    agentctl inbox\n  \
    agentctl inbox --since 7d          failures of a whole week\n  \
    agentctl inbox --done 5f0c         mark a failure as done until its next turn\n  \
    agentctl inbox --json | jq -r '.items[].next[0]'")]
pub(crate) struct Args {
    /// How far back failures of stopped sessions count: 7d, 12h, an RFC 3339 time, or `all` [default: 1d]
    #[arg(long, value_name = "TIME", value_parser = Since::parse)]
    since: Option<Since>,
    /// Only sessions of this agent (repeatable)
    #[arg(long, value_name = "NAME", value_parser = super::adapter_names())]
    adapter: Vec<String>,
    /// Mark the failure of this session as done until its next turn (repeatable)
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::failures))]
    done: Vec<String>,
    /// With --done: only sessions stored under this config root
    #[arg(long, value_name = "DIR", requires = "done", value_hint = clap::ValueHint::DirPath)]
    root: Option<PathBuf>,
    /// With --done: only sessions that work in this folder
    #[arg(long, value_name = "DIR", requires = "done", value_hint = clap::ValueHint::DirPath)]
    cwd: Option<PathBuf>,
    #[command(flatten)]
    hosts: HostArgs,
    /// One JSON object: asOf, items, fuses, sources, hosts; with --done: done
    #[arg(long)]
    json: bool,
    /// Exit with 6 when some source could not be heard completely
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let fleet = surroundings.fleet()?;
    let marks = Marks::of(surroundings.store()?);
    if !args.done.is_empty() {
        return put_away(args, &marks, &fleet, surroundings, out);
    }
    let since = args.since.unwrap_or(A_DAY);
    let here = || fleet.inbox(since, args.adapter.clone(), &marks, surroundings.now());
    let answer = match args.hosts.roster(surroundings)? {
        None => here(),
        Some(roster) => {
            let asked = args.hosts.asked(&roster, fleet.host())?;
            roster.inbox(&asked, here, (since, &args.adapter), surroundings)
        }
    };
    let exit = coverage::exit(&answer.sources, args.strict, surroundings);
    let exit = exit.or_worse(host_args::exit(&answer.hosts, args.strict));
    host_args::warn(&answer.hosts, out);
    if args.json {
        json::answer(out, &answer)?;
        return Ok(exit);
    }
    if answer.items.is_empty() && answer.fuses.is_empty() {
        let unheard = answer.hosts.iter().any(|host| host.coverage == CoverageKind::Failed);
        let words = if unheard {
            "nothing was heard to wait, and not every machine was heard"
        } else {
            "nothing waits for you"
        };
        writeln!(out, "{words}")?;
    } else if !answer.items.is_empty() {
        let mut lines = table(&answer).lines(out.width(), out.paint).into_iter();
        if let Some(header) = lines.next() {
            writeln!(out, "{header}")?;
        }
        for ((line, item), next) in lines.zip(&answer.items).zip(next_steps(&answer)) {
            writeln!(out, "{line}")?;
            // What a person has to decide, and why something failed, is shown in full below its row.
            let summary = item.summary.as_deref().filter(|summary| !summary.trim().is_empty());
            for line in summary.map(|words| request::lines(words, 2, out.width())).unwrap_or_default() {
                writeln!(out, "{line}")?;
            }
            // The command stays in one piece, because a command that is cut cannot be copied.
            if let Some(place) = &item.only_in {
                writeln!(out, "  → answer it where it runs: {}", text::one_line(place))?;
            } else if !next.is_empty() {
                writeln!(out, "  → {}", out.paint.strong(&next))?;
            }
        }
    }
    for fuse in &answer.fuses {
        if let Some(why) = fuse.resume.as_ref().and_then(|plan| plan.problem.as_deref()) {
            let id = text::one_line(&fuse.id);
            writeln!(
                out,
                "plan {} was not carried out: {}",
                fuses::words(fuse, None, surroundings),
                text::one_line(why)
            )?;
            writeln!(out, "  → agentctl fuse cancel {id}")?;
            continue;
        }
        writeln!(out, "budget {}", fuses::words(fuse, None, surroundings))?;
    }
    for words in fuses::blind(&answer.fuses) {
        out.warn(&words);
    }
    coverage::warn_unread(&args.adapter, &fleet, out);
    coverage::warn(&answer.sources, surroundings, out);
    for warning in &answer.warnings {
        out.warn(&format!("{}; what was put away is shown", text::clean(warning)));
    }
    Ok(exit)
}

/// What `inbox --done` prints with --json.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Done {
    done: Vec<PutAwayReport>,
}

/// Marks all of them or none: a mistyped id is reported before anything changes.
fn put_away(
    args: &Args,
    marks: &Marks,
    fleet: &Fleet,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let narrowed = NarrowingArgs::by(args.adapter.first().cloned(), args.root.clone(), args.cwd.clone());
    let machines = Machines::of(&args.hosts, Purpose::Act, surroundings)?;
    let find = |id: &String| narrowed.locate(id, Purpose::Act, &machines, fleet, surroundings, out);
    let found = args.done.iter().map(find).collect::<Result<Vec<Located>, Failure>>()?;
    let put_away = |target: &Located| match &target.far {
        Some(far) => far.put_away(&target.found),
        None => Ok(fleet.put_failure_away(&target.found, marks, surroundings.now())?),
    };
    let done = found.iter().map(put_away).collect::<Result<Vec<PutAwayReport>, Failure>>()?;
    if args.json {
        json::answer(out, &Done { done })?;
        return Ok(Exit::Done);
    }
    for report in done {
        writeln!(out, "{} is put away until its next turn", text::one_line(&report.id))?;
    }
    Ok(Exit::Done)
}

fn table(inbox: &Inbox) -> Table {
    let mut table = Table::new(vec![
        Column::whole("FOR"),
        Column::flexible("WHAT", 12),
        Column::flexible("SESSION", 14),
        Column::whole("AGENT").expendable(1),
    ]);
    for item in &inbox.items {
        let session = &item.session;
        let title = session.name.as_deref().or(session.prompt.as_deref()).unwrap_or("-");
        table.row(vec![
            waited(item, as_of(item, inbox)),
            what(item),
            Cell::plain(text::one_line(title)),
            Cell::new(text::one_line(&session.adapter), Tone::Dim),
        ]);
    }
    table
}

/// The next step for each item, with ids as short as possible.
fn next_steps(inbox: &Inbox) -> Vec<String> {
    let ids = short_ids(inbox.items.iter().map(|item| item.session.id.as_str()));
    let step = |(item, id): (&InboxItem, &str)| {
        let far = elsewhere(item, inbox).map(|host| format!("{}/", host.name)).unwrap_or_default();
        let whole = format!("{far}{}", item.session.id);
        let next = item.next.first().map(|next| next.replacen(&whole, &format!("{far}{id}"), 1));
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
        (InboxKind::Failure, Some(outcome)) => outcome.as_str(),
        (kind, _) => kind.as_str(),
    };
    let glyph = if item.kind == InboxKind::Failure { '✕' } else { look.glyph };
    Cell::new(format!("{glyph} {word}"), look.tone)
}
