//! `agentctl completions SHELL`: shell code that calls agentctl at TAB, so that session ids are completed
//! from current data.

use std::io::Write;
use std::path::PathBuf;

use agentctl_model::ErrorKind;
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
    echo 'source <(agentctl completions zsh)' >> ~/.zshrc   # behind compinit\n  \
    agentctl completions fish > ~/.config/fish/completions/agentctl.fish")]
pub(crate) struct Args {
    #[arg(value_name = "SHELL", value_parser = PossibleValuesParser::new(Shells::builtins().names()))]
    shell: String,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&args.shell) else {
        return Err(Failure::new(ErrorKind::Usage, format!("no completions for the shell `{}`", args.shell)));
    };
    // If agentctl was called by a path, the shell calls the same program again; if it was called by name, the
    // PATH decides again.
    let called = PathBuf::from(std::env::args_os().next().unwrap_or_else(|| "agentctl".into()));
    let program = match &surroundings.cwd {
        Some(cwd) if called.components().count() > 1 => cwd.join(called),
        _ => called,
    };
    let mut code = Vec::new();
    shell.write_registration("COMPLETE", "agentctl", "agentctl", &program.to_string_lossy(), &mut code)?;
    let code = String::from_utf8_lossy(&code);
    out.write_all(if args.shell == "zsh" { in_zsh(&code) } else { code.into_owned() }.as_bytes())?;
    Ok(Exit::Done)
}

/// A zsh without its completion system would only report that one of its commands is not found. The first
/// line stays first, because zsh recognizes the file by it in a folder of functions. From such a folder it is
/// loaded at the first TAB, as the body of `_agentctl`, and then has to answer that TAB itself.
fn in_zsh(code: &str) -> String {
    let (first, rest) = code.split_once('\n').unwrap_or((code, ""));
    let hint = "agentctl: put `autoload -Uz compinit && compinit` before this line, then it completes";
    let loaded = "if [[ $funcstack[1] == _agentctl ]]; then\n    _clap_dynamic_completer_agentctl \"$@\"\nfi";
    format!(
        "{first}\nif (( ! $+functions[compdef] )); then\n    print -ru2 -- '{hint}'\nelse\n{rest}\n{loaded}\nfi\n"
    )
}
