//! `agentctl stop ID...`: ends sessions, cleanly if possible.

use std::io::Write;
use std::time::Duration;

use agentctl_fleet::act::asker::Asker;
use agentctl_fleet::act::stop::{StopAnswer, StopReport};
use agentctl_fleet::{Caller, Fleet, Purpose, StopOptions};
use agentctl_model::{Outcome, ProcessEntry, Status, text};

use super::target::{Found, Targets};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::hosts::Located;
use crate::output::Output;
use crate::render::width::{measure, wrap};
use crate::render::{json, time};
use crate::surroundings::Surroundings;

/// End sessions with all their processes, the clean way first
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl stop 5f0c\n  \
    agentctl stop 5f0c 7a1e --grace 30s\n  \
    agentctl stop 5f0c --force\n\n\
    Stopping a stopped session is success. With several ids, a bad one is\n\
    reported and the others are stopped all the same; the exit code is the worst.\n\
    For a session in an agent's own server only the turn is ended, and the answer\n\
    says where it is still open.")]
pub(crate) struct Args {
    #[command(flatten)]
    targets: Targets,
    /// How long a clean end may take before the processes are killed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time::parse_duration)]
    grace: Duration,
    /// Kill at once
    #[arg(long)]
    force: bool,
    /// Stop the session even from one of its own processes
    #[arg(long)]
    allow_self: bool,
    /// What ended and what survived, as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let settings = surroundings.settings()?;
    let fleet = surroundings.fleet_under(&settings);
    let caller = surroundings.caller(&settings)?;
    let found = args.targets.find(Purpose::Act, &fleet, surroundings, out)?;
    let options =
        StopOptions { grace: args.grace, force: args.force, asker: Asker::this_process(args.allow_self) };
    stop_all(&found, options, args.json, &fleet, &caller, out)
}

/// Stops the sessions one after the other and reports each. The exit code is the worst of them and of those
/// not found.
pub(crate) fn stop_all(
    found: &Found,
    options: StopOptions,
    as_json: bool,
    fleet: &Fleet,
    caller: &Caller,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let alone = found.sessions.len() + found.bad.len() == 1;
    let mut stopped = Vec::with_capacity(found.sessions.len());
    for target in &found.sessions {
        let id = text::one_line(&target.id());
        out.progress(Some(&format!("stopping {id} ...")));
        let report = stop_one(target, options, fleet, caller)?;
        out.progress(None);
        match &report.error {
            // The command itself fails with this error.
            Some(_) if alone && !as_json => {}
            Some(error) => out.error(&format!("{id}: {}", text::clean(&error.message))),
            None if as_json => {}
            None => tell(target, &report, out)?,
        }
        stopped.push(report);
    }
    let exit = stopped.iter().map(exit_of).fold(found.exit(), Exit::or_worse);
    if as_json {
        let bad = found.bad.iter().map(|(typed, why)| StopReport::new(typed, Err(why.clone()), None));
        json::answer(out, &StopAnswer { sessions: bad.chain(stopped).collect() })?;
        return Ok(exit);
    }
    match stopped.into_iter().find_map(|report| report.error).filter(|_| alone) {
        Some(error) => Err(error.into()),
        None => Ok(exit),
    }
}

/// A failure is part of the report and does not prevent the others.
fn stop_one(
    target: &Located,
    options: StopOptions,
    fleet: &Fleet,
    caller: &Caller,
) -> Result<StopReport, Failure> {
    match target.stop(fleet, caller, options) {
        Err(Failure::Said(error)) => {
            let session = (*target.found.session).clone();
            Ok(StopReport::new(&target.found.key.id, Err(error), Some(session)))
        }
        other => other,
    }
}

fn exit_of(report: &StopReport) -> Exit {
    match &report.error {
        Some(error) => error.kind.into(),
        None if report.survived.is_empty() => Exit::Done,
        None => Exit::Failed,
    }
}

fn tell(target: &Located, report: &StopReport, out: &mut Output) -> Result<(), Failure> {
    let id = text::one_line(&target.id());
    if report.was_stopped {
        // An idle session in a gateway has nothing that could be stopped; it may have become idle just now.
        let now = report.session.as_ref().map_or(target.found.session.status, |now| now.status);
        let word = if now == Status::Idle { "idle" } else { "stopped" };
        writeln!(out, "{id} was {word} already")?;
        still_open(report, out)?;
        return tell_processes(report, out);
    }
    let outcome = report.session.as_ref().and_then(|now| now.outcome).map(Outcome::as_str);
    // A session that a server keeps stays open after its turn was ended.
    let done = if report.open_in.is_some() { "turn ended" } else { "stopped" };
    let words = match (report.survived.is_empty(), outcome) {
        (true, Some(outcome)) => format!("{done}, {outcome}"),
        (true, None) => done.to_owned(),
        (false, _) => "not stopped".to_owned(),
    };
    wrapped(
        "",
        &format!("{id} {words} ({})", text::one_line(report.how.as_deref().unwrap_or_default())),
        out,
    )?;
    still_open(report, out)?;
    tell_processes(report, out)
}

fn tell_processes(report: &StopReport, out: &mut Output) -> Result<(), Failure> {
    for (word, entries) in [("ended", &report.ended), ("survived", &report.survived)] {
        if !entries.is_empty() {
            let entries: Vec<String> = entries.iter().map(process).collect();
            wrapped(&format!("  {word:<9} "), &entries.join(", "), out)?;
        }
    }
    Ok(())
}

fn still_open(report: &StopReport, out: &mut Output) -> Result<(), Failure> {
    if let Some(place) = &report.open_in {
        wrapped("  ", &format!("still open in {}", text::one_line(place)), out)?;
    }
    Ok(())
}

/// Prints text after a beginning, wrapped between words; the continuation is aligned below the text.
fn wrapped(beginning: &str, words: &str, out: &mut Output) -> Result<(), Failure> {
    let indent = measure(beginning).max(2);
    let lines = wrap(words, out.width().saturating_sub(indent).max(20));
    for (index, line) in lines.iter().enumerate() {
        if index == 0 {
            writeln!(out, "{beginning}{line}")?;
        } else {
            writeln!(out, "{:indent$}{line}", "")?;
        }
    }
    Ok(())
}

fn process(entry: &ProcessEntry) -> String {
    format!("{} {} ({})", entry.pid, text::one_line(&entry.command), entry.role)
}
