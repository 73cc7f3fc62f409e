//! `agentctl top`: the sessions live in a terminal, to look at and to steer.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use agentctl_model::ErrorKind;

use super::host_args::HostArgs;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::style::Colour;
use crate::surroundings::Surroundings;
use crate::top::{self, Scene};

/// Watch and steer sessions live in the terminal: who needs you comes first
#[derive(Debug, clap::Args)]
#[command(after_help = "Keys: y approve, n deny, a answer, s send, i interrupt, x stop (twice),\n\
    r resume, l launch, / find, Enter open, Esc back, e evidence, d changes,\n\
    g group, h host, t timeline, u usage, ? all keys, q quit.\n\n\
    Shown are live sessions and those that ended in the last day. An approval is\n\
    given only to a request that was on the screen to its last line.\n\n\
    Examples:\n  \
    agentctl top\n  \
    agentctl top --adapter codex --cwd ~/w/site\n  \
    agentctl top --host all")]
pub(crate) struct Args {
    /// Only sessions of this agent (repeatable)
    #[arg(long, value_name = "NAME", value_parser = super::adapter_names())]
    adapter: Vec<String>,
    /// Only sessions that work in this folder or below
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    cwd: Option<PathBuf>,
    #[command(flatten)]
    hosts: HostArgs,
}

pub(crate) fn run(
    args: Args,
    colour: Colour,
    surroundings: Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let is_terminal = io::stdin().is_terminal() && out.is_terminal();
    if !is_terminal || surroundings.environ.text("TERM") == Some("dumb") {
        return Err(Failure::new(
            ErrorKind::Usage,
            "top needs a terminal that can place text; `agentctl list` prints the same",
        ));
    }
    let colours = surroundings.wants_colour(colour, true);
    let folders = args.cwd.iter().flat_map(|given| surroundings.meant_folders(given)).collect();
    top::run(Scene { adapters: args.adapter, folders, hosts: args.hosts, colours, surroundings })
}
