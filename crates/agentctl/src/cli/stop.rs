//! `agentctl stop ID...`: ends sessions, cleanly if possible.

use std::io::Write;
use std::time::Duration;

use agentctl_fleet::act::stop::{StopAnswer, StopReport};
use agentctl_fleet::{Caller, Fleet, Patience, Purpose, Stopped};
use agentctl_model::{Outcome, ProcessEntry, Status, Surveyed, text};

use super::target::{Found, Targets};
use crate::exit_codes::Exit;
use crate::failure::Failure;
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
    Stopping a stopped session is success. Of several ids a bad one is named and\n\
    does not keep the others; the worst of them is the exit code. Of a session in\n\
    an agent's own server the turn is ended, and where it is still open is said.")]
pub(crate) struct Args {
    #[command(flatten)]
    targets: Targets,
    /// How long the clean way may take before it becomes the hard one
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time::parse_duration)]
    grace: Duration,
    /// Kill at once
    #[arg(long)]
    force: bool,
    /// What ended and what survived, as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let settings = surroundings.settings()?;
    let fleet = surroundings.fleet_under(&settings);
    let caller = surroundings.caller(&settings)?;
    let found = args.targets.find(Purpose::Act, &fleet, surroundings, out)?;
    let patience = Patience { grace: args.grace, force: args.force };
    stop_all(&found, patience, args.json, &fleet, &caller, out)
}

/// Stops the sessions one after the other and reports each. The exit code is the worst of them and of those
/// not found.
pub(crate) fn stop_all(
    found: &Found,
    patience: Patience,
    as_json: bool,
    fleet: &Fleet,
    caller: &Caller,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let (mut exit, mut answer) = (found.exit, StopAnswer::default());
    answer.sessions.extend(found.bad.iter().map(|(typed, why)| StopReport::not_found(typed, why)));
    let alone = found.sessions.len() + found.bad.len() == 1;
    for target in &found.sessions {
        out.progress(Some(&format!("stopping {} ...", text::one_line(&target.key.id))));
        let stopped = fleet.stop(target, caller, patience);
        out.progress(None);
        let stopped = match stopped {
            Ok(stopped) => stopped,
            Err(error) if alone && !as_json => return Err(error.into()),
            Err(error) => {
                exit = exit.or_worse(error.kind.into());
                out.error(&format!("{}: {}", text::one_line(&target.key.id), text::clean(&error.message)));
                answer.sessions.push(StopReport::not_stopped(target, &error));
                continue;
            }
        };
        if !stopped.survived.is_empty() {
            exit = exit.or_worse(Exit::Failed);
        }
        if as_json {
            answer.sessions.push(fleet.report_stopped(target, stopped));
        } else {
            tell(target, &stopped, fleet, out)?;
        }
    }
    if as_json {
        json::answer(out, &answer)?;
    }
    Ok(exit)
}

fn tell(target: &Surveyed, stopped: &Stopped, fleet: &Fleet, out: &mut Output) -> Result<(), Failure> {
    let id = text::one_line(&target.key.id);
    if stopped.was_stopped {
        // An idle session in a gateway has nothing that could be stopped; it may have become idle just now.
        let now = fleet.again(target).map_or(target.session.status, |now| now.session.status);
        let word = if now == Status::Idle { "idle" } else { "stopped" };
        writeln!(out, "{id} was {word} already")?;
        return still_open(stopped, out);
    }
    let outcome = fleet.after_stop(target).and_then(|now| now.session.outcome).map(Outcome::as_str);
    // A session that a server keeps stays open after its turn was ended.
    let done = if stopped.open_in.is_some() { "turn ended" } else { "stopped" };
    let words = match (stopped.survived.is_empty(), outcome) {
        (true, Some(outcome)) => format!("{done}, {outcome}"),
        (true, None) => done.to_owned(),
        (false, _) => "not stopped".to_owned(),
    };
    wrapped("", &format!("{id} {words} ({})", stopped.how), out)?;
    still_open(stopped, out)?;
    for (word, entries) in [("ended", &stopped.ended), ("survived", &stopped.survived)] {
        if !entries.is_empty() {
            let entries: Vec<String> = entries.iter().map(process).collect();
            wrapped(&format!("  {word:<9} "), &entries.join(", "), out)?;
        }
    }
    Ok(())
}

fn still_open(stopped: &Stopped, out: &mut Output) -> Result<(), Failure> {
    if let Some(place) = &stopped.open_in {
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
