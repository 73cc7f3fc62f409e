//! `agentctl __screen FOLDER`: the first process of a pane that the runner opened; it becomes the agent. Users do not call
//! it.

use std::path::PathBuf;

use agentctl_fleet::act::runner::terminal::become_agent;
use agentctl_fleet::keep::launches::LaunchFolder;
use agentctl_model::ErrorKind;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    folder: PathBuf,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings) -> Result<Exit, Failure> {
    let error = become_agent(&LaunchFolder::at(&args.folder), &surroundings.environ);
    Err(Failure::new(ErrorKind::Failed, format!("cannot start the agent: {error}")))
}
