//! `agentctl resume ID MESSAGE`: a further turn of a session that no process runs.

use agentctl_fleet::Purpose;
use agentctl_fleet::act::launch::{ResumeRequest, misfit};
use agentctl_model::{ErrorKind, Permission, text};

use super::launch::stay::StayArgs;
use super::launch::{permission_parser, turn};
use super::message::Message;
use super::plan;
use super::target::Target;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::daemon_process::DaemonProcess;
use crate::link::hosts::Located;
use crate::output::Output;
use crate::surroundings::Surroundings;

/// Say something further to a session that is not running
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl resume 5f0c 'Now add a test'\n  \
    agentctl resume 5f0c - < notes.md\n  \
    agentctl resume 5f0c --hold 'Go on, and ask me'\n  \
    agentctl resume 5f0c --fork 'Try it another way'\n  \
    agentctl resume 5f0c --at reset 'Go on'\n\n\
    A session that is live in another process is refused: `agentctl send` speaks to\n\
    it where the agent offers a way in.")]
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
    #[command(flatten)]
    stay: StayArgs,
    /// Not now: when the provider's limit ends, or at a time (18:30, +20m, RFC 3339)
    #[arg(long, value_name = "reset|TIME", conflicts_with_all = ["fork", "wait"])]
    at: Option<String>,
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
    let target = args.target.find(Purpose::Act, fleet, surroundings, out)?;
    let found = &target.found;
    let request = ResumeRequest {
        fork: args.fork,
        model: args.model.clone(),
        permission: args.permission_mode,
        on_complete: args.on_complete.clone(),
        stay: (&args.stay).into(),
        via: args.target.adapter().map(str::to_owned),
        unshared: false,
    };
    if let Some(at) = &args.at {
        return plan::run(
            at,
            &words,
            &request,
            &target,
            (args.target.adapter(), args.json),
            surroundings,
            out,
        );
    }
    if let Some(far) = &target.far {
        out.progress(Some(&format!("resuming {} on {} ...", text::one_line(&found.key.adapter), far.name)));
        let session = far.resume(found, &words, &request);
        out.progress(None);
        return turn::tell_far(&session?, far, (args.wait, args.json), surroundings, out);
    }
    if let Some(mistake) = settings.invalid(&[&format!("adapters.{}.binary", found.key.adapter)]) {
        return Err(surroundings.because_of(mistake));
    }
    let misfit = request.model.as_deref().and_then(|model| misfit(&found.key.adapter, "model", model));
    if let Some(why) = misfit {
        return Err(Failure::new(ErrorKind::Usage, why));
    }
    let order = fleet.resume_order(found, &request, &launcher.caller.programs)?;
    launcher.make_ready(surroundings.now())?;
    DaemonProcess::wanted(surroundings, out);
    let what = format!("resuming {} ...", found.key.adapter);
    let place = turn::on_screen(&order);
    let session = turn::carry_out(order, &words, &what, &launcher, surroundings, out)?;
    let session = Located { found: session, sources: Vec::new(), far: None, as_of: None };
    turn::tell(&session, place.as_deref(), (args.wait, args.json), fleet, surroundings, out)
}
