//! The guard of the terminal that `top` starts beside itself. Users do not call it.

use agentctl_model::ErrorKind;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::top::terminal::guard;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<Exit, Failure> {
    let failed = |error| Failure::new(ErrorKind::Failed, format!("there is no terminal to guard: {error}"));
    guard::run().map_err(failed)?;
    Ok(Exit::Done)
}
