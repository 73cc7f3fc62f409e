//! `agentctl __run FOLDER`: a runner, started by `launch` and `resume`. Users do not call it.

use std::os::fd::AsFd;
use std::path::PathBuf;

use agentctl_fleet::act::runner::{EndNotifier, OwnAddress, Runner};
use agentctl_fleet::keep::launches::LaunchFolder;
use agentctl_fleet::keep::outbox::OutboxFolder;
use agentctl_fleet::{Caller, KernelLock};
use agentctl_model::{ErrorKind, EventKind};

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::settings::{Origin, Settings};
use crate::surroundings::Surroundings;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    folder: PathBuf,
    /// How many files the agent may have open: one that a daemon started has the daemon's own limit
    #[arg(long, value_name = "N")]
    open_files: Option<u64>,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings) -> Result<Exit, Failure> {
    // The runner gets a session of its own, so that nothing that happens to the terminal or the starting
    // process reaches it.
    let _ = rustix::process::setsid();
    args.open_files.into_iter().for_each(agentctl_process::open_files::lower);
    let failed = |error: std::io::Error| {
        Failure::new(ErrorKind::Failed, format!("{}: {error}", args.folder.display()))
    };
    let held = std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    let settings = surroundings.settings()?;
    let fleet = surroundings.fleet_under(&settings);
    let caller = surroundings.caller(&settings)?;
    let folder = LaunchFolder::at(&args.folder);
    let runner = Runner::new(&fleet, &caller, folder, KernelLock::inherited(held.into())).map_err(failed)?;
    runner.with_end_notifier(end_notifier(&settings, &caller)).run().map_err(failed)?;
    Ok(Exit::Done)
}

/// Where the end of the session is announced, under the settings of the process that launched it.
fn end_notifier(settings: &Settings, caller: &Caller) -> Option<EndNotifier> {
    let webhook = &settings.webhook;
    // A delivery that was sent unsigned or to the wrong address cannot be undone.
    if settings.invalid(&["webhook"]).is_some() || !webhook.events.value.contains(&EventKind::SessionStopped)
    {
        return None;
    }
    let url = webhook.url.value.clone()?;
    // The daemon that delivers it reads the same file, but may run in another environment.
    let from_file = [&webhook.url.origin, &webhook.secret.origin].iter().all(|origin| is_shared(origin));
    let own = (!from_file).then(|| OwnAddress { url, secret: webhook.secret.value.clone() });
    Some(EndNotifier { outbox: OutboxFolder::of(&caller.home), own })
}

/// Whether every process that uses this folder of agentctl reads the same value.
fn is_shared(origin: &Origin) -> bool {
    matches!(origin, Origin::File | Origin::Default)
}
