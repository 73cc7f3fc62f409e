//! `agentctl mcp`: an MCP server on the standard streams, so that agents can supervise agents.

use std::io::Write;

use agentctl_model::ErrorKind;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::mcp::{Client, Desk, Right, Rights, Server, lines};
use crate::output::Output;
use crate::surroundings::Surroundings;

/// Serve MCP on standard input and output, for an agent that supervises agents
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl mcp --print-config claude-code\n  \
    agentctl mcp --print-config codex --allow launch,send,stop\n\n\
    Without --allow the tools only read. What other sessions wrote stands in a fence\n\
    and is called untrusted. Every deed is an event that says who asked\n\
    (`agentctl events --type action.done`). docs/programs.md says more.")]
pub(crate) struct Args {
    /// What it may do beside reading
    #[arg(long, value_name = "RIGHTS", value_enum, value_delimiter = ',')]
    allow: Vec<Right>,
    /// Let a session answer, interrupt and stop itself
    #[arg(long)]
    allow_self: bool,
    /// Print the lines that add it to this agent; nothing is written
    #[arg(long, value_name = "AGENT", value_enum)]
    print_config: Option<Client>,
}

pub(crate) fn run(args: Args, surroundings: Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let rights = Rights { allowed: args.allow, allow_self: args.allow_self };
    if let Some(client) = args.print_config {
        let program = surroundings.own_program()?;
        let added = lines(client, &program, &rights);
        writeln!(out, "{}", added.text)?;
        out.hint(&format!("this belongs into {}", added.place));
        return Ok(Exit::Done);
    }
    let served = Server::new(Desk::new(surroundings, rights)).serve();
    served.map_err(|error| Failure::new(ErrorKind::Failed, format!("cannot read the input: {error}")))?;
    Ok(Exit::Done)
}
