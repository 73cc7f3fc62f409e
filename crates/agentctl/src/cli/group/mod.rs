//! `agentctl group`: sessions that were launched together.

mod diff;
mod list;
mod over_hosts;
mod show;

use std::io::Write;
use std::time::Duration;

use agentctl_fleet::act::asker::Asker;
use agentctl_fleet::{Fleet, Group, StopOptions};
use agentctl_model::{ErrorKind, SourceReport, text};
use clap::builder::NonEmptyStringValueParser;
use clap_complete::engine::ArgValueCompleter;

use super::complete;
use super::host_args::HostArgs;
use super::stop::stop_all;
use super::target::Found;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::hosts::{Asked, Located};
use crate::output::Output;
use crate::render::time;
use crate::surroundings::Surroundings;

/// See, compare and stop sessions that were launched together
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl group list\n  \
    agentctl group show g-4f2a1c\n  \
    agentctl group diff g-4f2a1c --stat\n  \
    agentctl group stop g-4f2a1c\n\n\
    A group is made by `agentctl launch` with several agents, or named with --group.\n\
    It is known as long as the launch records of its sessions are kept.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(list::Args),
    Show(show::Args),
    Diff(diff::Args),
    Stop(StopArgs),
}

/// The group a command is about.
#[derive(Debug, clap::Args)]
struct Name {
    /// The name of the group, as in g-4f2a1c, or a beginning that only one has
    #[arg(value_name = "GROUP", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::groups))]
    group: String,
    #[command(flatten)]
    hosts: HostArgs,
}

/// End every session of a group that lives, and take back what is only starting
#[derive(Debug, clap::Args)]
struct StopArgs {
    #[command(flatten)]
    name: Name,
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
    match &args.command {
        Command::List(args) => list::run(args, surroundings, out),
        Command::Show(args) => show::run(args, surroundings, out),
        Command::Diff(args) => diff::run(args, surroundings, out),
        Command::Stop(args) => stop(args, surroundings, out),
    }
}

impl Name {
    /// The other machines that are meant, if any are; this one stands beside them as `local`.
    fn asked(&self, acts: bool, surroundings: &Surroundings) -> Result<Option<Asked>, Failure> {
        elsewhere(&self.hosts, acts, surroundings)
    }

    /// The group, and the coverage of its agents.
    fn find(&self, fleet: &Fleet, usage: bool) -> Result<(Group, Vec<SourceReport>), Failure> {
        let meant = meant(&self.group, fleet)?;
        let found = fleet.groups(Some(&meant), usage);
        let group = found.groups.into_iter().next().ok_or_else(|| {
            let message = format!("no group has the name `{}`", text::one_line(&self.group));
            Failure::new(ErrorKind::NotFound, message)
                .hint("`agentctl group list` shows those that are known")
        })?;
        Ok((group, found.sources))
    }
}

/// The machines of a command, if they are others than this one alone.
fn elsewhere(hosts: &HostArgs, acts: bool, surroundings: &Surroundings) -> Result<Option<Asked>, Failure> {
    let Some(roster) = hosts.roster(surroundings)? else { return Ok(None) };
    let own_name = agentctl_fleet::own_name();
    let asked = if acts { hosts.meant(&roster, &own_name)? } else { hosts.asked(&roster, &own_name)? };
    Ok(Some(asked).filter(|asked| !asked.is_here()))
}

/// The name of the group that was typed in full or by its beginning.
pub(crate) fn meant(typed: &str, fleet: &Fleet) -> Result<String, Failure> {
    let named = fleet.group_named(typed).map_err(|begun| {
        let message = format!(
            "`{}` fits {} groups: {}",
            text::one_line(typed),
            begun.len(),
            text::one_line(&begun.join(", "))
        );
        Failure::new(ErrorKind::Ambiguous, message).hint("give more of the name")
    })?;
    Ok(named.unwrap_or_else(|| typed.to_owned()))
}

fn stop(args: &StopArgs, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let settings = surroundings.settings()?;
    let fleet = surroundings.fleet_under(&settings);
    if let Some(asked) = args.name.asked(true, surroundings)? {
        if asked.local && args.name.find(&fleet, false).is_ok() {
            let failure =
                Failure::new(ErrorKind::Usage, "sessions of this machine are stopped without --host");
            return Err(
                failure.hint("name the other machines with --host, and stop those here by themselves")
            );
        }
        let options = (args.grace, args.force);
        return over_hosts::stop(&asked, &args.name.group, options, args.json, out);
    }
    let caller = surroundings.caller(&settings)?;
    let (group, sources) = args.name.find(&fleet, false)?;
    let name = group.name.clone();
    let (starting, live) = group.cancel_starting();
    super::coverage::warn(&sources, surroundings, out);
    if !args.json {
        if starting > 0 {
            let launches = text::counted(starting, "launch", "launches");
            writeln!(out, "{launches} taken back before there was a session")?;
        } else if live.is_empty() {
            writeln!(out, "no session of group {} is live", text::one_line(&name))?;
        }
    }
    let options = StopOptions { grace: args.grace, force: args.force, asker: Asker::this_process(false) };
    let here = |found| Located { found, sources: Vec::new(), far: None, as_of: None };
    let live = Found { sessions: live.into_iter().map(here).collect(), bad: Vec::new() };
    stop_all(&live, options, args.json, &fleet, &caller, out)
}
