//! `agentctl man`: the manual, made from the same words as `--help`.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;

/// Print the man page, or write one page per command
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentctl man | man -l -\n  agentctl man --dir ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Write agentctl.1 and a page for each command into this folder
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit, Failure> {
    let command = super::Cli::command();
    match &args.dir {
        None => clap_mangen::Man::new(command).render(out)?,
        Some(dir) => std::fs::create_dir_all(dir)
            .and_then(|()| clap_mangen::generate_to(command, dir))
            .map_err(|error| {
                Failure::new(Exit::Failed, format!("cannot write man pages to {}: {error}", dir.display()))
            })?,
    }
    Ok(Exit::Done)
}
