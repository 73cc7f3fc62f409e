//! `agentctl doctor`: the health of each source, and live processes that belong to no session.

mod acp;
mod daemon;
pub(super) mod program;
mod reap;
mod report;
mod screen;

pub(crate) use report::Report;

use super::host_args::HostArgs;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::json;
use crate::surroundings::Surroundings;

/// Check each agent: its program, version, storage, sessions, and processes that belong to none
#[derive(Debug, clap::Args)]
#[command(after_help = "Exits with 1 when something is broken: a source that cannot be heard completely,\n\
    a config file with a mistake, or a daemon that does not answer.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// End what outlived its session; asks first
    #[arg(long)]
    reap: bool,
    /// Do not ask
    #[arg(long, requires = "reap")]
    yes: bool,
    /// Start each agent over ACP that is installed, and ask what it offers
    #[arg(long)]
    acp: bool,
    #[command(flatten)]
    hosts: HostArgs,
    /// The findings as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    // It looks at programs and files by the environment of whoever asks, which no request carries.
    args.hosts.only_here(surroundings, "doctor")?;
    let mut report = report::examine(surroundings, args.acp);
    if args.reap {
        let reaped = reap::reap(args.yes, surroundings, out)?;
        report = report::examine(surroundings, args.acp);
        report.healthy &= reaped.survived.is_empty();
        report.reaped = reaped.ended;
    }
    if args.json {
        json::answer(out, &report)?;
    } else {
        screen::print(&report, surroundings, out)?;
    }
    Ok(if report.healthy { Exit::Done } else { Exit::Failed })
}
