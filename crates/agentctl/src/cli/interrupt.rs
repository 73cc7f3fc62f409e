//! `agentctl interrupt ID`: ends the open turn of a session and keeps the session.

use agentctl_fleet::Purpose;
use agentctl_model::text::counted;

use super::send;
use super::target::Target;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::surroundings::Surroundings;

/// End the open turn of a session and keep the session, where its agent offers that
#[derive(Debug, clap::Args)]
#[command(after_help = "Success means that the agent ended the turn, or that none was open. What is in\n\
    the agent's own queue stays there, and is counted. `agentctl stop` ends the\n\
    session.")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    steering: send::Steering,
    /// As JSON: id, adapter, interrupted, stillQueued, session
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let fleet = surroundings.fleet()?;
    let target = args.target.find(Purpose::Act, &fleet, surroundings, out)?;
    let receipt = target.interrupt(&fleet, args.steering.options())?;
    let what = match (receipt.interrupted, receipt.still_queued) {
        (false, _) => "had no open turn".to_owned(),
        (true, 0) => "interrupted its turn".to_owned(),
        (true, queued) => {
            format!(
                "interrupted its turn; {} in its queue",
                counted(queued, "message stays", "messages stay")
            )
        }
    };
    send::tell(&target, &what, args.json, &receipt, receipt.session.as_ref(), out)
}
