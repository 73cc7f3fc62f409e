//! `agentctl fuses`: lists the fuses, the next to expire first.

use std::io::Write;

use agentctl_daemon::FuseList;
use agentctl_model::text::one_line;
use agentctl_model::{Fuse, Stage};

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::Link;
use crate::link::daemon_process::{DaemonProcess, Presence};
use crate::output::Output;
use crate::render::style::Tone;
use crate::render::table::{Cell, Column, Table};
use crate::render::{json, path, sessions, time};
use crate::surroundings::Surroundings;

/// Show the fuses that are set
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let mut list = FuseList::read(&surroundings.store()?)?;
    if list.fuses.iter().any(Fuse::is_budget) {
        // The daemon has counted most of it before.
        let link = Link::open(surroundings)?;
        match link.fuses() {
            Some(counted) => list = counted,
            None => link.fleet.fill_spent(&mut list.fuses, surroundings.now()),
        }
    }
    if args.json {
        json::answer(out, &list)?;
    } else if list.fuses.is_empty() {
        writeln!(out, "no fuse is set; `agentctl fuse set DIR --ttl 2h` sets one")?;
    }
    if !args.json && !list.fuses.is_empty() {
        for line in table(&list.fuses, surroundings).lines(out.width(), out.paint) {
            writeln!(out, "{line}")?;
        }
        for words in blind(&list.fuses) {
            out.warn(&words);
        }
    }
    if !list.fuses.is_empty() {
        match DaemonProcess::new(surroundings)?.presence() {
            Ok(Presence::Answers(_)) => {}
            Ok(Presence::Silent { pid }) => {
                let (words, next) = DaemonProcess::silent(pid);
                out.warn(&format!("{words}, so no fuse burns; {next}"));
            }
            // If the lock cannot be checked, no daemon can run either.
            Ok(Presence::Nobody) | Err(_) => {
                out.warn("no daemon runs, so no fuse burns; `agentctl daemon start` starts one");
            }
        }
    }
    Ok(Exit::Done)
}

fn table(fuses: &[Fuse], surroundings: &Surroundings) -> Table {
    let mut table = Table::new(vec![
        Column::whole("ID"),
        Column::flexible("ON", 16).keep_end(),
        Column::whole("EXPIRES"),
        Column::whole("AT"),
        Column::whole("SPENT"),
        Column::whole("STAGE"),
        Column::flexible("DOES", 10).expendable(2),
        Column::flexible("LABEL", 8).expendable(1),
    ]);
    for fuse in fuses {
        let on = fuse.directory.as_ref().map(|folder| path::shown(folder, surroundings.home.as_deref()));
        let on =
            on.or_else(|| fuse.session_id.as_ref().map(|id| format!("session {id}"))).unwrap_or_default();
        table.row(vec![
            Cell::plain(one_line(&fuse.id)),
            Cell::plain(one_line(&on)),
            Cell::plain(expiry(fuse, surroundings).unwrap_or_default()),
            Cell::plain(limits(fuse).join(", ")),
            Cell::plain(spent(fuse).unwrap_or_default()),
            Cell::new(
                state(fuse).unwrap_or("set"),
                if state(fuse).is_none() { Tone::Dim } else { Tone::Attention },
            ),
            Cell::new(one_line(&actions(fuse)), Tone::Dim),
            Cell::plain(fuse.label.as_deref().map(one_line).unwrap_or_default()),
        ]);
    }
    table
}

/// How long until the fuse expires, or the period of a budget ends.
fn expiry(fuse: &Fuse, surroundings: &Surroundings) -> Option<String> {
    let ends = fuse.spent.as_ref().map(|spent| spent.until);
    let (at, now) = (fuse.expires_at.or(ends)?, surroundings.now());
    Some(if at <= now { "now".to_owned() } else { format!("in {}", time::ahead(at, now)) })
}

/// The limits of a session or budget.
fn limits(fuse: &Fuse) -> Vec<String> {
    let per = fuse.per.map(|per| format!(" a {}", per.as_str())).unwrap_or_default();
    let tokens = fuse.max_tokens.map(|tokens| format!("{tokens} tokens{per}"));
    tokens.into_iter().chain(fuse.max_cost.map(|cost| sessions::cost(cost) + &per)).collect()
}

/// What is spent of a budget, in what it is counted in. More may be spent of one that is blind.
fn spent(fuse: &Fuse) -> Option<String> {
    let spent = fuse.spent.as_ref()?;
    let cost = fuse.max_cost.map(|_| sessions::cost(spent.cost.unwrap_or(0.0)));
    let tokens = fuse.max_tokens.map(|_| format!("{} tokens", spent.tokens));
    let both: Vec<String> = tokens.into_iter().chain(cost).collect();
    let least = if spent.blind.is_empty() { "" } else { "≥ " };
    Some(format!("{least}{}", both.join(", ")))
}

/// The stage as it is shown. A budget of which not everything is known is never shown as one that is not spent.
fn state(fuse: &Fuse) -> Option<&'static str> {
    match &fuse.spent {
        Some(spent) if fuse.is_spent(spent) => Some("spent"),
        Some(spent) if !spent.blind.is_empty() => Some("blind"),
        Some(spent) if fuse.stage_at < spent.from => None,
        _ => stage(fuse.stage),
    }
}

/// Why not everything is known of these budgets.
pub(crate) fn blind(fuses: &[Fuse]) -> Vec<String> {
    let why = |fuse: &Fuse| {
        let spent = fuse.spent.as_ref().filter(|spent| !spent.blind.is_empty())?;
        Some(format!("budget {} is blind: {}", fuse.id, spent.blind.join("; ")))
    };
    fuses.iter().filter_map(why).map(|words| one_line(&words)).collect()
}

/// What happens when the fuse expires.
fn actions(fuse: &Fuse) -> String {
    let does = &fuse.on_expire;
    let script = does.script.as_ref().map(|script| format!("runs {script}"));
    // An address may contain a secret, so it is shown only in the JSON.
    let webhook = does.webhook.as_ref().map(|_| "tells a webhook".to_owned());
    let event = does.event.as_ref().map(|event| format!("event {event}"));
    script.into_iter().chain(webhook).chain(event).collect::<Vec<_>>().join(", ")
}

fn stage(stage: Stage) -> Option<&'static str> {
    match stage {
        Stage::Set => None,
        Stage::Warned => Some("warned"),
        Stage::Reached => Some("reached"),
        Stage::Interrupted => Some("interrupted"),
        Stage::Firing => Some("firing"),
        Stage::Spent => Some("spent"),
    }
}

/// One line: the fuse, what it is on, how much time is left, and its label.
pub(crate) fn words(fuse: &Fuse, surroundings: &Surroundings) -> String {
    let mut words = vec![fuse.id.clone()];
    words.extend(fuse.directory.as_ref().map(|folder| path::shown(folder, surroundings.home.as_deref())));
    words.extend(fuse.session_id.as_ref().map(|id| format!("session {id}")));
    let ends = if fuse.is_budget() { "begins anew" } else { "expires" };
    words.extend(expiry(fuse, surroundings).map(|when| format!("{ends} {when}")));
    words.extend(limits(fuse).iter().map(|limit| format!("at {limit}")));
    words.extend(fuse.adapter.as_ref().filter(|_| fuse.is_budget()).map(|adapter| format!("for {adapter}")));
    words.extend(spent(fuse).map(|spent| format!("{spent} spent")));
    words.extend(state(fuse).map(|stage| format!("({stage})")));
    words.extend(fuse.label.as_ref().map(|label| format!("- {label}")));
    one_line(&words.join(" "))
}
