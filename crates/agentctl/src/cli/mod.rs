//! The command line: one file per command, all with the same structure (`Args` and `run`).

mod acp;
mod adapter_name;
mod adapters;
mod answer;
mod attach;
mod changes;
mod complete;
mod completions;
mod config;
mod coverage;
mod daemon;
mod doctor;
pub(crate) mod events;
mod explain;
mod fuse;
mod fuses;
pub(crate) mod group;
pub(crate) mod host_args;
mod hosts;
mod inbox;
mod interrupt;
pub(crate) mod launch;
mod list;
mod lock;
mod locks;
mod logs;
mod man;
mod mcp;
mod message;
mod notify;
mod only_here;
mod peek;
mod plan;
mod prune;
mod recover;
mod resume;
mod roster;
pub(crate) mod rows;
mod runner;
mod schema;
mod screen;
mod search;
mod send;
mod serve_stdio;
mod snapshot;
mod status;
mod stop;
pub(crate) mod target;
mod terminal_guard;
pub(crate) mod terminal_notices;
pub(crate) mod timeline;
mod top;
mod trust;
pub(crate) mod usage;
mod wait;
mod watch;
pub(crate) mod web;
mod welcome;
mod worktree;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use agentctl_model::ErrorKind;
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::style::Colour;
use crate::settings::Invalidates;
use crate::surroundings::Surroundings;

/// The version, the commit of an optimised build and the target, as `build.rs` put them together.
const VERSION: &str = env!("AGENTCTL_VERSION");

static AFTER_HELP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "Examples:\n  \
         agentctl                     what runs now\n  \
         agentctl top                 the same live, to steer with single keys\n  \
         agentctl -a                  also what stopped in the last 7 days\n  \
         agentctl status 5f0c         everything about one session\n  \
         agentctl explain 5f0c        why it has this status\n  \
         agentctl logs -f 5f0c        its conversation, as it goes on\n  \
         agentctl launch codex -p …   start an agent and get its id\n  \
         agentctl stop 5f0c           end it, the clean way first\n\n\
         Without a command the flags of `list` may be given: -a, -w, --json.\n\
         An ID is a full id, a beginning that fits only one session, or a session's\n\
         exact name; of a session on another machine HOST/ID (`agentctl hosts`).\n\n\
         Colours: --color (always, never, auto) stands above NO_COLOR, that above\n\
         CLICOLOR_FORCE, and that above CLICOLOR=0 and TERM=dumb.\n\n{}",
        Exit::table()
    )
});

/// See and steer the coding-agent sessions of this machine, whoever started them.
#[derive(Debug, Parser)]
#[command(name = "agentctl", version = VERSION, after_help = AFTER_HELP.as_str(), max_term_width = 80)]
pub(crate) struct Cli {
    /// When to use colours
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_possible_values = true
    )]
    color: Colour,
    /// Answer from this snapshot instead of this machine (list, status, explain, peek, logs)
    #[arg(long, global = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    replay: Option<PathBuf>,
    /// Without a command its flags mean `list`.
    #[command(flatten)]
    list: list::Args,
    #[command(subcommand)]
    command: Option<Command>,
}

impl Cli {
    pub(crate) fn colour(&self) -> Colour {
        self.color
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(visible_aliases = ["ls", "ps"])]
    List(list::Args),
    Top(top::Args),
    Status(status::Args),
    Explain(explain::Args),
    Changes(changes::Args),
    Peek(peek::Args),
    Logs(logs::Args),
    Launch(Box<launch::Args>),
    Resume(resume::Args),
    Send(send::Args),
    Stop(stop::Args),
    Attach(attach::Args),
    Wait(wait::Args),
    Inbox(inbox::Args),
    Search(search::Args),
    Usage(usage::Args),
    Timeline(timeline::Args),
    Approve(answer::ApproveArgs),
    Deny(answer::DenyArgs),
    Answer(answer::AnswerArgs),
    Interrupt(interrupt::Args),
    Lock(lock::Args),
    Unlock(lock::UnlockArgs),
    Locks(locks::Args),
    Worktree(worktree::Args),
    Group(group::Args),
    Hosts(hosts::Args),
    Adapters(adapters::Args),
    Mcp(mcp::Args),
    Acp(acp::Args),
    Doctor(doctor::Args),
    Recover(recover::Args),
    Snapshot(snapshot::Args),
    Prune(prune::Args),
    Config(config::Args),
    Daemon(daemon::Args),
    Events(events::Args),
    Web(web::Args),
    Notify(notify::Args),
    Fuse(fuse::Args),
    Fuses(fuses::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
    #[command(name = agentctl_fleet::act::launch::RUNNER, hide = true)]
    Runner(runner::Args),
    #[command(name = agentctl_fleet::act::runner::terminal::SCREEN, hide = true)]
    Screen(screen::Args),
    #[command(name = crate::top::terminal::guard::GUARD, hide = true)]
    TerminalGuard(terminal_guard::Args),
    #[command(name = "__serve-stdio", hide = true)]
    ServeStdio(serve_stdio::Args),
}

impl Command {
    /// Whether a snapshot can answer it.
    fn can_be_replayed(&self) -> bool {
        match self {
            Self::List(_) | Self::Status(_) | Self::Explain(_) | Self::Peek(_) => true,
            Self::Logs(args) => !args.follows(),
            _ => false,
        }
    }

    /// Whether the command depends on the settings and does not report their mistakes itself.
    fn follows_settings(&self) -> bool {
        match self {
            Self::Config(args) => args.follows_settings(),
            Self::Doctor(_)
            | Self::Schema(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Runner(_)
            | Self::Screen(_)
            | Self::TerminalGuard(_)
            | Self::ServeStdio(_) => false,
            _ => true,
        }
    }
}

/// How many mistakes of the config file every command reports; `config check` reports all.
const SHOWN_MISTAKES: usize = 3;

/// Warns of mistakes in the config file, with their positions. What can be done without the affected settings
/// is still done.
fn warn_of_mistakes(surroundings: &Surroundings, out: &mut Output) {
    // If the settings cannot be read at all, the command reports that itself.
    let Ok(settings) = surroundings.settings() else { return };
    for mistake in settings.mistakes.iter().take(SHOWN_MISTAKES) {
        let unused = if mistake.invalidates == Invalidates::Nothing { "" } else { "; it is not used" };
        out.warn(&format!("{}{unused}", surroundings.describe(mistake)));
    }
    if let more @ 1.. = settings.mistakes.len().saturating_sub(SHOWN_MISTAKES) {
        out.warn(&format!("{more} more in the same file; `agentctl config check` names them"));
    }
}

/// The command line. The flags of `list` are hidden here and documented in `list --help`, because they are
/// not what the program without a command is about.
pub(crate) fn command() -> clap::Command {
    let flags = list_flags();
    flags.into_iter().fold(Cli::command(), |command, flag| command.mut_arg(flag, |arg| arg.hide(true)))
}

fn list_flags() -> Vec<clap::Id> {
    let list = <list::Args as clap::Args>::augment_args(clap::Command::new("list"));
    list.get_arguments().map(|arg| arg.get_id().clone()).collect()
}

/// The version, if nothing else is asked for. To say it, the program need neither look around nor build its commands.
pub(crate) fn version_alone() -> Option<String> {
    let mut words = std::env::args_os().skip(1);
    let is_version = words.next().is_some_and(|word| word == "--version" || word == "-V");
    (is_version && words.next().is_none()).then(|| format!("agentctl {VERSION}\n"))
}

/// Parses the command line of this process.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let typed: Vec<OsString> = std::env::args_os().collect();
    understood(command().color(colour_of_help(&typed)), &typed)
}

fn understood(mut command: clap::Command, typed: &[OsString]) -> Result<Cli, clap::Error> {
    let matches = match command.try_get_matches_from_mut(typed) {
        Ok(matches) => matches,
        Err(error) => return Err(only_here::explained(&mut command, typed, error)),
    };
    let is_typed = |flag: &&clap::Id| matches.value_source(flag.as_str()) == Some(ValueSource::CommandLine);
    if let (Some(name), Some(flag)) = (matches.subcommand_name(), list_flags().iter().find(is_typed)) {
        let words =
            format!("--{} belongs behind `{name}`, if that knows it", flag.as_str().replace('_', "-"));
        return Err(command.error(clap::error::ErrorKind::ArgumentConflict, words));
    }
    Cli::from_arg_matches(&matches)
}

/// Help and usage errors are printed before the command line has been parsed.
fn colour_of_help(typed: &[OsString]) -> clap::ColorChoice {
    let words = typed.iter().map(|word| word.to_string_lossy());
    let words: Vec<_> = words.take_while(|word| word != "--").collect();
    let behind = words.windows(2).find(|pair| pair[0] == "--color").map(|pair| pair[1].to_string());
    let joined = words.iter().find_map(|word| word.strip_prefix("--color=").map(str::to_owned));
    match behind.or(joined).as_deref() {
        Some("always") => clap::ColorChoice::Always,
        Some("never") => clap::ColorChoice::Never,
        _ => clap::ColorChoice::Auto,
    }
}

pub(crate) fn run(cli: Cli, surroundings: Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    // These commands examine what is wrong, or read nothing.
    let is_exempt = matches!(
        cli.command,
        Some(
            Command::Doctor(_)
                | Command::Config(_)
                | Command::Schema(_)
                | Command::Completions(_)
                | Command::Man(_)
        )
    );
    if !is_exempt {
        surroundings.check_home()?;
    }
    let surroundings = match &cli.replay {
        None => surroundings,
        Some(_) if cli.command.as_ref().is_some_and(|command| !command.can_be_replayed()) => {
            let words = "a snapshot answers list, status, explain, peek and logs, and nothing else";
            return Err(Failure::new(ErrorKind::Usage, words).hint("leave --replay out to ask this machine"));
        }
        Some(file) => {
            let surroundings = surroundings.replaying(file)?;
            snapshot::warn_of_what_is_missing(&surroundings, out);
            surroundings
        }
    };
    if let Some(Command::Daemon(args)) = &cli.command {
        warn_of_mistakes(&surroundings, out);
        return daemon::run(args, surroundings, out);
    }
    if let Some(Command::ServeStdio(args)) = &cli.command {
        return serve_stdio::run(args, surroundings);
    }
    if let Some(Command::Top(args)) = cli.command {
        warn_of_mistakes(&surroundings, out);
        return top::run(args, cli.color, surroundings, out);
    }
    if let Some(Command::Mcp(args)) = cli.command {
        warn_of_mistakes(&surroundings, out);
        return mcp::run(args, surroundings, out);
    }
    if let Some(Command::Acp(args)) = cli.command {
        warn_of_mistakes(&surroundings, out);
        return acp::run(args, surroundings);
    }
    let surroundings = &surroundings;
    if cli.command.as_ref().is_none_or(Command::follows_settings) {
        warn_of_mistakes(surroundings, out);
    }
    match cli.command {
        None => list::run(&cli.list, surroundings, out),
        Some(Command::List(args)) => list::run(&args, surroundings, out),
        Some(Command::Status(args)) => status::run(&args, surroundings, out),
        Some(Command::Changes(args)) => changes::run(&args, surroundings, out),
        Some(Command::Explain(args)) => explain::run(&args, surroundings, out),
        Some(Command::Peek(args)) => peek::run(&args, surroundings, out),
        Some(Command::Logs(args)) => logs::run(&args, surroundings, out),
        Some(Command::Launch(args)) => launch::run(&args, surroundings, out),
        Some(Command::Resume(args)) => resume::run(&args, surroundings, out),
        Some(Command::Send(args)) => send::run(&args, surroundings, out),
        Some(Command::Approve(args)) => answer::approve(&args, surroundings, out),
        Some(Command::Deny(args)) => answer::deny(&args, surroundings, out),
        Some(Command::Answer(args)) => answer::answer(&args, surroundings, out),
        Some(Command::Interrupt(args)) => interrupt::run(&args, surroundings, out),
        Some(Command::Stop(args)) => stop::run(&args, surroundings, out),
        Some(Command::Wait(args)) => wait::run(&args, surroundings, out),
        Some(Command::Inbox(args)) => inbox::run(&args, surroundings, out),
        Some(Command::Search(args)) => search::run(&args, surroundings, out),
        Some(Command::Usage(args)) => usage::run(&args, surroundings, out),
        Some(Command::Timeline(args)) => timeline::run(args, surroundings, out),
        Some(Command::Notify(args)) => notify::run(&args, surroundings, out),
        Some(Command::Attach(args)) => attach::run(&args, surroundings, out),
        Some(Command::Lock(args)) => lock::run(&args, surroundings, out),
        Some(Command::Unlock(args)) => lock::unlock(&args, surroundings, out),
        Some(Command::Locks(args)) => locks::run(&args, surroundings, out),
        Some(Command::Worktree(args)) => worktree::run(&args, surroundings, out),
        Some(Command::Group(args)) => group::run(&args, surroundings, out),
        Some(Command::Hosts(args)) => hosts::run(&args, surroundings, out),
        Some(Command::Recover(args)) => recover::run(&args, surroundings, out),
        Some(Command::Snapshot(args)) => snapshot::run(&args, surroundings, out),
        Some(Command::Prune(args)) => prune::run(&args, surroundings, out),
        Some(Command::Adapters(args)) => adapters::run(&args, surroundings, out),
        Some(Command::Doctor(args)) => doctor::run(&args, surroundings, out),
        Some(Command::Config(args)) => config::run(&args, surroundings, out),
        Some(
            Command::Daemon(_) | Command::Top(_) | Command::Mcp(_) | Command::Acp(_) | Command::ServeStdio(_),
        ) => {
            unreachable!("handled above")
        }
        Some(Command::Events(args)) => events::run(&args, surroundings, out),
        Some(Command::Web(args)) => web::run(&args, surroundings, out),
        Some(Command::Fuse(args)) => fuse::run(&args, surroundings, out),
        Some(Command::Fuses(args)) => fuses::run(&args, surroundings, out),
        Some(Command::Schema(args)) => schema::run(&args, out),
        Some(Command::Completions(args)) => completions::run(&args, surroundings, out),
        Some(Command::Man(args)) => man::run(&args, surroundings, out),
        Some(Command::Runner(args)) => runner::run(&args, surroundings),
        Some(Command::Screen(args)) => screen::run(&args, surroundings),
        Some(Command::TerminalGuard(args)) => terminal_guard::run(&args),
    }
}

/// The values of every `--adapter`.
fn adapter_names() -> adapter_name::AdapterNames {
    adapter_name::AdapterNames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn the_flags_of_list_need_no_command_and_stand_behind_any_other() {
        let words = |typed: &[&str]| {
            let typed: Vec<OsString> =
                std::iter::once("agentctl").chain(typed.iter().copied()).map(OsString::from).collect();
            understood(command(), &typed)
        };
        for typed in
            [&["-a"][..], &["-w"], &["--json"], &["-q", "--status", "failed"], &["--color", "never", "-a"]]
        {
            assert!(words(typed).unwrap().command.is_none(), "{typed:?}");
        }
        assert!(words(&["--color=always", "stop", "x"]).unwrap().command.is_some());
        let refused = words(&["--json", "stop", "x"]).unwrap_err().to_string();
        assert!(refused.contains("--json belongs behind `stop`"), "{refused}");
    }

    /// A paragraph on one line is wrapped to the terminal's width; one with line breaks would be broken
    /// twice.
    #[test]
    fn what_stands_below_the_options_fits_80_columns() {
        fn check(command: &clap::Command) {
            let below = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let broken = below.split("\n\n").filter(|paragraph| paragraph.contains('\n'));
            for line in broken.flat_map(str::lines) {
                assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&command());
    }
}
