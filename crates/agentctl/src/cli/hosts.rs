//! `agentctl hosts`: the machines that can be asked, and what is wrong with one that cannot.

use std::io::Write;
use std::path::PathBuf;

use agentctl_fleet::{Query, Wanted};
use agentctl_hosts::{Ask, RoadFailure, Step};
use agentctl_model::{CoverageKind, HostList, HostReport, text};
use clap_complete::engine::ArgValueCompleter;
use schemars::JsonSchema;
use serde::Serialize;

use super::{complete, host_args, roster};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::Link;
use crate::link::hosts::Roster;
use crate::output::Output;
use crate::render::json;
use crate::render::style::Tone;
use crate::render::table::{Cell, Column, Table};
use crate::surroundings::Surroundings;

/// Show the machines that can be asked
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Machines stand in config.toml:\n\n  \
    [hosts.box]\n  \
    ssh = \"dev@box.lan\"          whatever ssh takes, aliases included\n  \
    program = \"~/bin/agentctl\"   if it is not on the PATH there\n  \
    timeout = \"5s\"\n\n\
    Nothing but agentctl is needed there: your own ssh, its keys and its config are\n\
    the road. For a fleet, the daemons meet at a NATS server:\n\n  \
    [nats]\n  \
    url = \"tls://nats.example:4222\"\n  \
    nkey = \"~/.agentctl/nats.key\"   or creds = \"FILE\"\n  \
    name = \"dev1\"                  of this machine there\n  \
    serve = \"read\"                 off, read or act: what the bus may do here\n\n\
    A machine that cannot be asked is a row with its reason."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// One JSON object: hosts
    #[arg(long)]
    json: bool,
    /// Exit with 6 when some machine could not be heard completely
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Try the way to one machine step by step, and say what fails
    Check {
        /// A host of config.toml or of the bus
        #[arg(add = ArgValueCompleter::new(complete::hosts))]
        name: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Make the roster of the bus, as its administrator
    Init,
    /// Take a machine out of the roster of the bus
    Forget {
        #[arg(add = ArgValueCompleter::new(complete::hosts))]
        name: String,
    },
    /// Make the key of a new user of the bus, and print its public half
    Key {
        /// Where the secret half goes; it must not be there yet
        file: PathBuf,
        /// Say what a machine of this name may subscribe to
        #[arg(long)]
        name: Option<String>,
    },
}

/// What `hosts check --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HostCheck {
    name: String,
    steps: Vec<CheckedStep>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CheckedStep {
    /// resolve, connect, authenticate, program, version, answer
    step: &'static str,
    /// Null when an earlier step failed, so that this one was not tried.
    ok: Option<bool>,
    message: Option<String>,
    hint: Option<String>,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let roster = Roster::of(surroundings)?;
    match &args.command {
        None => {}
        Some(Command::Check { name, json }) => return check(name, *json, &roster, out),
        Some(Command::Init) => return roster::init(surroundings, out),
        Some(Command::Forget { name }) => return roster::forget(name, surroundings, out),
        Some(Command::Key { file, name }) => {
            return roster::new_key(file, name.as_deref(), surroundings, out);
        }
    }
    let link = Link::open(surroundings)?;
    let hosts = roster.list_with(&roster.everybody(), &Query::new(Wanted::Live), &link).hosts;
    let exit = host_args::exit(&hosts, args.strict);
    if args.json {
        json::answer(out, &HostList { hosts })?;
        return Ok(exit);
    }
    for line in table(&hosts).lines(out.width(), out.paint) {
        writeln!(out, "{line}")?;
    }
    for (hint, names) in hints(&hosts) {
        out.hint(&format!("{}: {hint}", host_args::some(&names)));
    }
    if roster.hosts.is_empty() && roster.bus.is_none() {
        out.hint("no other machine is known; `agentctl hosts --help` says how to name one");
    }
    Ok(exit)
}

fn table(hosts: &[HostReport]) -> Table {
    let mut table = Table::new(vec![
        Column::whole("HOST"),
        Column::whole("VIA").expendable(2),
        Column::whole("LIVE"),
        Column::whole("WAITING"),
        Column::whole("TOOK").expendable(1),
        Column::whole("VERSION").expendable(1),
        Column::flexible("HEARD", 20),
    ]);
    let number = |number: Option<usize>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    for host in hosts {
        let heard = match &host.error {
            None => Cell::new("yes".to_owned(), Tone::Dim),
            Some(error) if host.coverage == CoverageKind::Failed => {
                Cell::new(format!("no: {}", text::one_line(error)), Tone::Attention)
            }
            Some(error) => Cell::new(format!("in part: {}", text::one_line(error)), Tone::Attention),
        };
        table.row(vec![
            name(host),
            Cell::new(host.via.as_str().to_owned(), Tone::Dim),
            Cell::plain(number(host.live)),
            Cell::plain(number(host.waiting)),
            Cell::new(format!("{} ms", host.took_ms), Tone::Dim),
            Cell::new(host.version.as_deref().map_or_else(|| "-".to_owned(), text::one_line), Tone::Dim),
            heard,
        ]);
    }
    table
}

/// What to do, once for all machines of which it is the same.
fn hints(hosts: &[HostReport]) -> Vec<(&str, Vec<&str>)> {
    let mut hints: Vec<(&str, Vec<&str>)> = Vec::new();
    for host in hosts {
        let Some(hint) = host.hint.as_deref() else { continue };
        match hints.iter_mut().find(|(known, _)| *known == hint) {
            Some((_, names)) => names.push(&host.name),
            None => hints.push((hint, vec![&host.name])),
        }
    }
    hints
}

/// The machine, and what else leads there.
fn name(host: &HostReport) -> Cell {
    let name = Cell::new(host.name.clone(), Tone::Strong);
    if host.also_as.is_empty() {
        name
    } else {
        name.and(format!(" = {}", host.also_as.join(", ")), Tone::Dim)
    }
}

fn check(name: &str, as_json: bool, roster: &Roster, out: &mut Output) -> Result<Exit, Failure> {
    let Some(host) = roster.get(name) else {
        return Err(host_args::unknown(name, roster));
    };
    let tried = host.road.connect().and_then(|mut connection| {
        let answer = connection.ask(Ask::get("/healthz"), host.road.timeout())?;
        match answer.status {
            200 => Ok(connection.greeting().version.clone()),
            status => Err(RoadFailure::new(Step::Answer, format!("it answered {status}"))),
        }
    });
    let steps: Vec<CheckedStep> = Step::ALL.into_iter().map(|step| checked(step, &tried)).collect();
    let exit = if tried.is_ok() { Exit::Done } else { Exit::Incomplete };
    if as_json {
        json::answer(out, &HostCheck { name: host.name.to_string(), steps })?;
        return Ok(exit);
    }
    for step in &steps {
        let (mark, tone) = match step.ok {
            Some(true) => ("ok", Tone::Dim),
            Some(false) => ("failed", Tone::Attention),
            None => ("not tried", Tone::Dim),
        };
        let words = step.message.as_ref().map(|message| format!("  {message}")).unwrap_or_default();
        writeln!(out, "{:<13} {}{words}", step.step, out.paint.apply(tone, mark))?;
        if let Some(hint) = &step.hint {
            out.hint(hint);
        }
    }
    Ok(exit)
}

fn checked(step: Step, tried: &Result<String, RoadFailure>) -> CheckedStep {
    let line = |ok, message, hint| CheckedStep { step: step.as_str(), ok, message, hint };
    match tried {
        // The other machine says it, and may say anything.
        Ok(version) if step == Step::Version => {
            line(Some(true), Some(format!("agentctl {}", text::one_line(version))), None)
        }
        Ok(_) => line(Some(true), None, None),
        Err(failure) if step < failure.step => line(Some(true), None, None),
        Err(failure) if step == failure.step => {
            line(Some(false), Some(failure.message.clone()), failure.hint.clone())
        }
        Err(_) => line(None, None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_other_machine_calls_its_version_does_nothing_to_the_terminal() {
        let step = checked(Step::Version, &Ok("9\u{1b}[2J\n9".to_owned()));
        assert_eq!(step.message.as_deref(), Some("agentctl 9[2J 9"));
    }

    #[test]
    fn the_steps_before_a_failure_went_well_and_those_behind_it_were_not_tried() {
        let failed = Err(RoadFailure::new(Step::Program, "not found").hint("install it"));
        let steps = Step::ALL.map(|step| checked(step, &failed));
        assert_eq!(
            steps.each_ref().map(|step| step.ok),
            [Some(true), Some(true), Some(true), Some(false), None, None]
        );
        assert_eq!(steps[3].hint.as_deref(), Some("install it"));
    }
}
