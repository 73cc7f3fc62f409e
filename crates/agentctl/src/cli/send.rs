//! `agentctl send ID MESSAGE`: sends a message to a live session, where its agent offers a way in.

use std::io::Write;

use agentctl_fleet::Purpose;
use agentctl_fleet::act::steer::Receipt;
use agentctl_model::{Surveyed, text};

use super::message::Message;
use super::target::Target;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::daemon_process::DaemonProcess;
use crate::output::Output;
use crate::render::{json, style};
use crate::surroundings::Surroundings;

/// Say something to a live session, where its agent offers a way in
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl send 5f0c 'Also update the docs'\n  \
    agentctl send 5f0c - < notes.md\n\n\
    Success means that the agent accepted it. A session that nobody runs is taken up\n\
    with `agentctl resume`.")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    message: Message,
    /// As JSON: id, adapter, accepted, session
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let words = args.message.words(surroundings)?;
    let fleet = surroundings.fleet()?;
    let (target, _) = args.target.find(Purpose::Act, &fleet, surroundings, out)?;
    DaemonProcess::wanted(surroundings, out);
    fleet.send(&target, &words)?;
    tell(&target, "accepted the message", args.json, &fleet.receipt(&target), out)
}

/// Reports that the agent accepted it, and the state of the session now.
pub(super) fn tell(
    target: &Surveyed,
    what: &str,
    as_json: bool,
    receipt: &Receipt,
    out: &mut Output,
) -> Result<Exit, Failure> {
    if as_json {
        json::answer(out, receipt)?;
        return Ok(Exit::Done);
    }
    let id = text::one_line(&target.key.id);
    writeln!(out, "{} {what}", target.key.adapter)?;
    if let Some(now) = &receipt.session {
        let look = style::look(now.status, now.outcome);
        let status = out.paint.apply(look.tone, &format!("{} {}", look.glyph, look.word));
        writeln!(out, "  {id} is {status}")?;
    }
    Ok(Exit::Done)
}
