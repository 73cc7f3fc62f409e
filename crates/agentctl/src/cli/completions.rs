//! `agentctl completions SHELL`: what makes a shell ask us at TAB time, so that session ids complete live.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap_complete::env::Shells;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::surroundings::Surroundings;

/// Print the shell code for completions (commands, agents, session ids)
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    echo 'source <(agentctl completions bash)' >> ~/.bashrc\n  \
    echo 'source <(agentctl completions zsh)' >> ~/.zshrc\n  \
    agentctl completions fish > ~/.config/fish/completions/agentctl.fish")]
pub(crate) struct Args {
    #[arg(value_name = "SHELL", value_parser = PossibleValuesParser::new(Shells::builtins().names()))]
    shell: String,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&args.shell) else {
        return Err(Failure::new(Exit::Usage, format!("no completions for the shell `{}`", args.shell)));
    };
    // Called by a path, the shell must call the same program again; called by name, the PATH may decide anew.
    let called = PathBuf::from(std::env::args_os().next().unwrap_or_else(|| "agentctl".into()));
    let program = match &surroundings.cwd {
        Some(cwd) if called.components().count() > 1 => cwd.join(called),
        _ => called,
    };
    shell.write_registration("COMPLETE", "agentctl", "agentctl", &program.to_string_lossy(), out)?;
    Ok(Exit::Done)
}
