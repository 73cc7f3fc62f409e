//! The commands that have no `--host`, and why: whoever types it there is told so in a sentence.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The beginning of a command, and why all that begins so is about this machine alone.
const ONLY_HERE: [(&str, &str); 10] = [
    ("hosts", "it is about the machines themselves, which it names"),
    ("config", "each machine has its own config file; change it there"),
    ("notify", "each machine tells by its own config file; test it there"),
    ("daemon", "each machine starts and stops its own daemon; do it there"),
    ("web", "the page shows every machine that this one knows"),
    ("mcp", "its tools name the machine themselves, as HOST/ID"),
    ("schema", "it is the same on every machine"),
    ("completions", "it is about the shell here"),
    ("man", "it is the same on every machine"),
    ("help", "it is the same on every machine"),
];

/// Why this command, with the words of its subcommands, takes no `--host`.
fn reason(path: &str) -> Option<&'static str> {
    let begins =
        |name: &str| path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    ONLY_HERE.iter().find(|(name, _)| begins(name)).map(|(_, why)| *why)
}

/// The error for a `--host` where none is taken: a sentence in place of "unexpected argument".
pub(super) fn explained(command: &mut clap::Command, typed: &[OsString], error: clap::Error) -> clap::Error {
    let is_host = matches!(
        error.get(ContextKind::InvalidArg),
        Some(ContextValue::String(argument)) if argument == "--host"
    );
    if error.kind() != ErrorKind::UnknownArgument || !is_host {
        return error;
    }
    let path = path_of(command, typed);
    match reason(&path) {
        Some(why) => command.error(ErrorKind::UnknownArgument, format!("`{path}` takes no --host: {why}")),
        None => error,
    }
}

/// The words of the command line that name commands.
fn path_of(command: &clap::Command, typed: &[OsString]) -> String {
    let mut at = command;
    let mut path = Vec::new();
    for word in typed.iter().skip(1).filter_map(|word| word.to_str()) {
        if let Some(below) = at.find_subcommand(word) {
            path.push(below.get_name());
            at = below;
        }
    }
    path.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that take `--host` in order to refuse other machines with what to do instead.
    const REFUSING: [&str; 2] = ["doctor", "prune"];

    /// Every command that can be typed, with whether it takes `--host`.
    fn commands() -> Vec<(String, bool)> {
        fn walk(command: &clap::Command, path: &str, all: &mut Vec<(String, bool)>) {
            for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
                let path = format!("{path} {}", below.get_name()).trim_start().to_owned();
                let takes = below.get_arguments().any(|argument| argument.get_long() == Some("host"));
                if !below.is_subcommand_required_set() {
                    all.push((path.clone(), takes));
                }
                walk(below, &path, all);
            }
        }
        let mut all = Vec::new();
        let mut command = super::super::command();
        command.build();
        walk(&command, "", &mut all);
        all.retain(|(path, _)| !path.contains(" help"));
        all
    }

    /// A new command has to decide: it takes `--host`, or it stands in the table with its reason.
    #[test]
    fn every_command_takes_hosts_or_says_why_not() {
        let all = commands();
        assert!(all.len() > 40, "{all:?}");
        for (path, takes) in &all {
            assert_ne!(*takes, reason(path).is_some(), "{path}: --host {takes}");
        }
        for (name, _) in ONLY_HERE {
            assert!(all.iter().any(|(path, _)| path.starts_with(name)), "{name} is no command");
        }
        for name in REFUSING {
            assert!(all.contains(&(name.to_owned(), true)), "{name}");
        }
    }

    #[test]
    fn a_host_where_none_is_taken_is_refused_in_a_sentence() {
        let said = |line: &str| {
            let typed: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            super::super::understood(super::super::command(), &typed).unwrap_err().to_string()
        };
        for line in ["agentctl daemon start --host box", "agentctl config show --host box"] {
            let words = said(line);
            assert!(words.contains("takes no --host: each machine"), "{words}");
        }
        assert!(said("agentctl list --hosts box").contains("unexpected argument"));
    }
}
