//! `agentctl fuses`: lists the fuses, the next to expire first.

use std::io::Write;

use agentctl_daemon::FuseList;
use agentctl_hosts::Ask;
use agentctl_model::text::one_line;
use agentctl_model::{CoverageKind, Fuse, HostReport, Road, Stage};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::host_args::{self, HostArgs};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::Link;
use crate::link::daemon_process::{DaemonProcess, Presence};
use crate::link::hosts::{Asked, Roster};
use crate::output::Output;
use crate::render::style::Tone;
use crate::render::table::{Cell, Column, Table};
use crate::render::{json, path, sessions, time};
use crate::surroundings::Surroundings;

/// Show the fuses that are set
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    hosts: HostArgs,
    /// One JSON object: asOf, fuses; with --host also hosts
    #[arg(long)]
    json: bool,
}

/// What `fuses --host NAME --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostFuses {
    as_of: Timestamp,
    fuses: Vec<HostFuse>,
    hosts: Vec<HostReport>,
}

/// A fuse of some machine.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HostFuse {
    pub(crate) host: String,
    #[serde(flatten)]
    pub(crate) fuse: Fuse,
}

/// A fuse as it is shown: on which other machine it burns, and what that machine's clock says.
struct Row<'f> {
    fuse: &'f Fuse,
    far: Option<&'f str>,
    now: Timestamp,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let here = || own_fuses(surroundings);
    if let Some(roster) = args.hosts.roster(surroundings)? {
        let asked = args.hosts.asked(&roster, &surroundings.host())?;
        if args.hosts.are_given() || !asked.is_here() {
            let own = if asked.local { Some(here()?) } else { None };
            return over_hosts(args, &roster, &asked, own, surroundings, out);
        }
    }
    let list = here()?;
    if args.json {
        json::answer(out, &list)?;
    } else if list.fuses.is_empty() {
        writeln!(out, "no fuse is set; `agentctl fuse set DIR --ttl 2h` sets one")?;
    } else {
        let rows = list.fuses.iter().map(|fuse| Row { fuse, far: None, now: list.as_of });
        for line in table(rows, surroundings).lines(out.width(), out.paint) {
            writeln!(out, "{line}")?;
        }
        for words in blind(&list.fuses) {
            out.warn(&words);
        }
    }
    if !list.fuses.is_empty() {
        warn_of_no_daemon(surroundings, out)?;
    }
    Ok(Exit::Done)
}

/// The fuses of this machine, each budget with what is spent of it.
fn own_fuses(surroundings: &Surroundings) -> Result<FuseList, Failure> {
    let mut list = FuseList::read(&surroundings.store()?)?;
    if list.fuses.iter().any(Fuse::is_budget) {
        // The daemon has counted most of it before.
        let link = Link::open(surroundings)?;
        match link.fuses() {
            Some(counted) => list = counted,
            None => link.fleet.fill_spent(&mut list.fuses, surroundings.now()),
        }
    }
    Ok(list)
}

fn warn_of_no_daemon(surroundings: &Surroundings, out: &mut Output) -> Result<(), Failure> {
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
    Ok(())
}

/// The fuses of several machines. Each burns on its own, by its own clock.
fn over_hosts(
    args: &Args,
    roster: &Roster,
    asked: &Asked,
    own: Option<FuseList>,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let mut all = HostFuses { as_of: surroundings.now(), fuses: Vec::new(), hosts: Vec::new() };
    let mut row = HostReport::unheard(surroundings.host(), Road::Local);
    if let Some(own) = &own {
        row.told(own.as_of, &[], None);
    }
    let told = |row: &mut HostReport, there: &FuseList| row.told(there.as_of, &[], None);
    let burns_here = own.as_ref().is_some_and(|own| !own.fuses.is_empty());
    let own_row = own.iter().map(|_| row.clone()).collect();
    let (rows, answers) = roster.ask_all(asked, own_row, Ask::get("/v1/fuses"), told);
    all.hosts = rows;
    let own = own.map(|own| (surroundings.host(), own));
    for (host, list) in own.into_iter().chain(answers) {
        all.fuses.extend(list.fuses.into_iter().map(|fuse| HostFuse { host: host.clone(), fuse }));
    }
    host_args::warn(&all.hosts, out);
    if burns_here {
        warn_of_no_daemon(surroundings, out)?;
    }
    if args.json {
        json::answer(out, &all)?;
        return Ok(Exit::Done);
    }
    if all.fuses.is_empty() {
        let unheard = all.hosts.iter().any(|host| host.coverage == CoverageKind::Failed);
        let words = if unheard {
            "no fuse was heard of, and not every machine was heard"
        } else {
            "no fuse is set on these machines"
        };
        writeln!(out, "{words}")?;
        return Ok(Exit::Done);
    }
    let shown = all.fuses.iter().map(|HostFuse { host, fuse }| {
        let far = all.hosts.iter().find(|row| row.name == *host && row.via != Road::Local);
        let now = far.and_then(|row| row.as_of).unwrap_or(all.as_of);
        Row { fuse, far: far.map(|row| row.name.as_str()), now }
    });
    for line in table(shown, surroundings).lines(out.width(), out.paint) {
        writeln!(out, "{line}")?;
    }
    Ok(Exit::Done)
}

fn table<'f>(rows: impl Iterator<Item = Row<'f>>, surroundings: &Surroundings) -> Table {
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
    for Row { fuse, far, now } in rows {
        table.row(vec![
            Cell::plain(one_line(&fuse.id)),
            Cell::plain(on(fuse, far, surroundings)),
            Cell::plain(expiry(fuse, now).unwrap_or_default()),
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

/// What the fuse is on. Folders of another machine stand behind its name, and its sessions too.
fn on(fuse: &Fuse, far: Option<&str>, surroundings: &Surroundings) -> String {
    let directory = fuse.directory.as_ref().map(|folder| match far {
        None => path::shown(folder, surroundings.home.as_deref()),
        Some(host) => format!("{host}:{folder}"),
    });
    let host = far.map(|host| format!("{host}/")).unwrap_or_default();
    let session = || fuse.session_id.as_ref().map(|id| format!("session {host}{id}"));
    one_line(&directory.or_else(session).unwrap_or_default())
}

/// When the fuse expires, or the period of a budget ends.
fn end(fuse: &Fuse) -> Option<Timestamp> {
    fuse.expires_at.or_else(|| Some(fuse.spent.as_ref()?.until))
}

/// How long until then.
fn expiry(fuse: &Fuse, now: Timestamp) -> Option<String> {
    let at = end(fuse)?;
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
    if let Some(plan) = &fuse.resume {
        return match &plan.problem {
            Some(why) => format!("not resumed: {why}"),
            None => format!("resumes it: {}", plan.message),
        };
    }
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
pub(crate) fn words(fuse: &Fuse, far: Option<&str>, surroundings: &Surroundings) -> String {
    let mut words = vec![fuse.id.clone(), on(fuse, far, surroundings)];
    let ends = match fuse {
        fuse if fuse.is_budget() => "begins anew",
        fuse if fuse.is_plan() => "is resumed",
        _ => "expires",
    };
    words.extend(match far {
        // The clock of its machine may differ from the one here.
        Some(_) => end(fuse).map(|at| format!("{ends} at {at} by its clock")),
        None => expiry(fuse, surroundings.now()).map(|when| format!("{ends} {when}")),
    });
    words.extend(limits(fuse).iter().map(|limit| format!("at {limit}")));
    words.extend(fuse.adapter.as_ref().filter(|_| fuse.is_budget()).map(|adapter| format!("for {adapter}")));
    words.extend(spent(fuse).map(|spent| format!("{spent} spent")));
    words.extend(state(fuse).map(|stage| format!("({stage})")));
    words.extend(fuse.label.as_ref().map(|label| format!("- {label}")));
    one_line(&words.join(" "))
}
