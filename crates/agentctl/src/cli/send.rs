//! `agentctl send ID MESSAGE`: sends a message to a live session, where its agent offers a way in.

use std::io::Write;
use std::time::Duration;

use agentctl_fleet::Purpose;
use agentctl_fleet::act::asker::Asker;
use agentctl_fleet::act::steer::{Accepted, SteerOptions};
use agentctl_model::{Session, text};
use serde::Serialize;

use super::message::Message;
use super::target::Target;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::daemon_process::DaemonProcess;
use crate::link::hosts::Located;
use crate::output::Output;
use crate::render::{json, style, time};
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
    #[command(flatten)]
    steering: Steering,
    /// Mean it as a command of the agent, such as /compact
    #[arg(long)]
    command: bool,
    /// As JSON: id, adapter, accepted (now or queued), session
    #[arg(long)]
    json: bool,
}

/// What every command that steers takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Steering {
    /// How long the agent may take to accept it [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = time::parse_duration)]
    timeout: Option<Duration>,
    /// Steer the session even from one of its own processes
    #[arg(long)]
    allow_self: bool,
}

impl Steering {
    pub(super) fn options(&self) -> SteerOptions {
        let usual = SteerOptions::default();
        SteerOptions {
            asker: Asker::this_process(self.allow_self),
            timeout: self.timeout.unwrap_or(usual.timeout),
            as_command: usual.as_command,
        }
    }
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let words = args.message.words(surroundings)?;
    let fleet = surroundings.fleet()?;
    let target = args.target.find(Purpose::Act, &fleet, surroundings, out)?;
    let options = SteerOptions { as_command: args.command, ..args.steering.options() };
    if target.far.is_none() {
        DaemonProcess::wanted(surroundings, out);
    }
    let receipt = target.send(&fleet, &words, options)?;
    let what = match receipt.accepted {
        Accepted::Now => "accepted the message",
        Accepted::Queued => "has the message in its queue",
    };
    tell(&target, what, args.json, &receipt, receipt.session.as_ref(), out)
}

/// Reports that the agent accepted it, and the state of the session now.
pub(super) fn tell(
    target: &Located,
    what: &str,
    as_json: bool,
    receipt: &impl Serialize,
    now: Option<&Session>,
    out: &mut Output,
) -> Result<Exit, Failure> {
    if as_json {
        json::answer(out, receipt)?;
        return Ok(Exit::Done);
    }
    let id = text::one_line(&target.id());
    writeln!(out, "{} {what}", text::one_line(&target.found.key.adapter))?;
    if let Some(now) = now {
        let look = style::look(now.status, now.outcome);
        let status = out.paint.apply(look.tone, &format!("{} {}", look.glyph, look.word));
        writeln!(out, "  {id} is {status}")?;
    }
    Ok(Exit::Done)
}
