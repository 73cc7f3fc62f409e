//! `agentctl acp`: an ACP agent on the standard streams, so that an editor opens any session.

use agentctl_model::ErrorKind;

use super::host_args::HostArgs;
use crate::acp::Server;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

/// Serve ACP on standard input and output, for an editor that opens sessions
#[derive(Debug, clap::Args)]
#[command(after_help = "An editor that speaks the Agent Client Protocol starts this as an external\n\
    agent: it lists every session, opens one with its history, prompts and approves.\n\
    docs/programs.md says more.")]
pub(crate) struct Args {
    /// The agent of new sessions [default: that of the config, else the first that is installed]
    #[arg(long, value_name = "NAME", value_parser = super::adapter_names())]
    adapter: Option<String>,
    #[command(flatten)]
    hosts: HostArgs,
}

pub(crate) fn run(args: Args, surroundings: Surroundings) -> Result<Exit, Failure> {
    let served = Server::new(surroundings, args.adapter, args.hosts).serve();
    served.map_err(|error| Failure::new(ErrorKind::Failed, format!("cannot read the input: {error}")))?;
    Ok(Exit::Done)
}
