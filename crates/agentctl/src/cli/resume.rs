//! `agentctl resume ID MESSAGE`: a further turn of a session that no process runs.

use std::time::Duration;

use agentctl_fleet::Purpose;
use agentctl_fleet::act::launch::{ResumeRequest, misfit};
use agentctl_model::{ErrorKind, Permission};

use super::launch::{permission_parser, turn};
use super::message::Message;
use super::target::Target;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::daemon_process::DaemonProcess;
use crate::output::Output;
use crate::render::time;
use crate::surroundings::Surroundings;

/// Say something further to a session that is not running
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl resume 5f0c 'Now add a test'\n  \
    agentctl resume 5f0c - < notes.md\n  \
    agentctl resume 5f0c --fork 'Try it another way'\n\n\
    A session that is live in another process is refused: `agentctl send` speaks to\n\
    it where the agent offers a way in.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    message: Message,
    /// Go on in a copy with an id of its own, where the agent can
    #[arg(long)]
    fork: bool,
    /// Another model from here on
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// What the agent may do without asking
    #[arg(long, value_name = "MODE", value_parser = permission_parser())]
    permission_mode: Option<Permission>,
    /// Run this command once the agent has ended
    #[arg(long, value_name = "CMD")]
    on_complete: Option<String>,
    /// Stop it after this time: 30m, 2h; with --hold, interrupt a turn
    #[arg(long, value_name = "TIME", value_parser = time::parse_duration)]
    timeout: Option<Duration>,
    /// Keep the session after this turn: send, approve, answer and interrupt reach it
    #[arg(long)]
    hold: bool,
    /// End a held session that nobody talked to for this long: 30m, 2h
    #[arg(long, value_name = "TIME", requires = "hold", value_parser = time::parse_duration)]
    idle_timeout: Option<Duration>,
    /// Start the agent's own screen in a detached tmux session; `attach` opens it
    #[arg(long, conflicts_with = "hold")]
    terminal: bool,
    /// Wait until the turn is over
    #[arg(long)]
    wait: bool,
    /// The session object as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let settings = surroundings.settings()?;
    let launcher = surroundings.launcher(&settings)?;
    let fleet = &launcher.fleet;
    let words = args.message.words(surroundings)?;
    let (found, _) = args.target.find(Purpose::Act, fleet, surroundings, out)?;
    let request = ResumeRequest {
        fork: args.fork,
        model: args.model.clone(),
        permission: args.permission_mode,
        on_complete: args.on_complete.clone(),
        timeout: args.timeout,
        hold: args.hold,
        idle_timeout: args.idle_timeout,
        terminal: args.terminal,
        via: args.target.adapter().map(str::to_owned),
    };
    if let Some(mistake) = settings.invalid(&[&format!("adapters.{}.binary", found.key.adapter)]) {
        return Err(surroundings.because_of(mistake));
    }
    let misfit = request.model.as_deref().and_then(|model| misfit(&found.key.adapter, "model", model));
    if let Some(why) = misfit {
        return Err(Failure::new(ErrorKind::Usage, why));
    }
    let order = fleet.resume_order(&found, &request, &launcher.caller.programs)?;
    launcher.make_ready(surroundings.now())?;
    DaemonProcess::wanted(surroundings, out);
    let what = format!("resuming {} ...", found.key.adapter);
    let place = turn::on_screen(&order);
    let session = turn::carry_out(order, &words, &what, &launcher, surroundings, out)?;
    turn::tell(&session, place.as_deref(), (args.wait, args.json), fleet, surroundings, out)
}
