//! `agentctl notify test`: sends one notice by each way of `[notify]`, and says what happened.

use std::io::Write;
use std::time::Duration;

use agentctl_daemon::presets::{self, Kept, Preset, Untold};
use agentctl_daemon::{NotifySettings, run_and_wait, show_and_wait};
use agentctl_model::notice::Notice;
use agentctl_model::{ErrorKind, text};
use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;

use crate::daemon_context::notify_settings;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::json;
use crate::render::notice::Terminal;
use crate::surroundings::Surroundings;

/// How long a command of the user may take here.
const LONGEST: Duration = Duration::from_secs(30);

/// Test how you are told when a session needs you
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Test(TestArgs),
}

/// Send one notice by each way that config.toml names, and say what happened
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl notify test               every way that config.toml sets\n  \
    agentctl notify test telegram      this one\n\n\
    Works without the daemon, also in quiet hours. The exit code is 1 if one failed.\n\
    docs/notices.md says how each way is set.")]
struct TestArgs {
    /// desktop, terminal, command, ntfy, slack or telegram [default: all that are set]
    #[arg(value_name = "PRESET", value_parser = WAYS, hide_possible_values = true)]
    preset: Option<String>,
    /// One JSON object: presets
    #[arg(long)]
    json: bool,
}

const WAYS: [&str; 6] = ["desktop", "terminal", "command", "ntfy", "slack", "telegram"];

/// What `notify test --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NotifyTest {
    presets: Vec<Tested>,
}

/// What happened by one way.
#[derive(Debug, Serialize, JsonSchema)]
struct Tested {
    preset: &'static str,
    /// Whether it was accepted.
    sent: bool,
    /// Why not.
    error: Option<String>,
    /// What to do about it.
    hint: Option<String>,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let Command::Test(args) = &args.command;
    let settings = surroundings.settings()?;
    if let Some(mistake) = settings.invalid(&["notify"]) {
        return Err(surroundings.because_of(mistake));
    }
    let terminal = settings.notify.terminal.value;
    let settings = notify_settings(settings.notify, surroundings);
    let is_set = |way: &str| match way {
        "desktop" => settings.desktop,
        "terminal" => terminal,
        "command" => settings.command.is_some(),
        _ => Preset::ALL.iter().any(|preset| preset.as_str() == way && settings.has(*preset)),
    };
    let ways: Vec<&'static str> = match &args.preset {
        None => WAYS.into_iter().filter(|way| is_set(way)).collect(),
        // These two need no settings.
        Some(one) => WAYS.into_iter().filter(|way| way == one).collect(),
    };
    if let Some(way) = ways.iter().find(|way| !is_set(way) && !matches!(**way, "desktop" | "terminal")) {
        let words = format!("config.toml sets no {way} in [notify]");
        return Err(Failure::new(ErrorKind::Usage, words).hint("docs/notices.md says how it is set"));
    }
    if ways.is_empty() {
        return Err(Failure::new(ErrorKind::Usage, "config.toml sets no way in [notify]")
            .hint("`desktop = true` is the shortest; docs/notices.md names all"));
    }
    let mut answer = NotifyTest { presets: Vec::new() };
    for way in ways {
        let told = tell(way, &settings, surroundings, out);
        let (error, hint) = told.err().map(|untold| (untold.message, untold.hint)).unzip();
        answer.presets.push(Tested { preset: way, sent: error.is_none(), error, hint: hint.flatten() });
    }
    let exit = if answer.presets.iter().all(|tested| tested.sent) { Exit::Done } else { Exit::Failed };
    if args.json {
        json::answer(out, &answer)?;
        return Ok(exit);
    }
    for tested in &answer.presets {
        match &tested.error {
            None => writeln!(out, "{}: sent", tested.preset)?,
            Some(error) => {
                out.error(&format!("{}: {}", tested.preset, text::one_line(error)));
                if let Some(hint) = &tested.hint {
                    out.hint(hint);
                }
            }
        }
    }
    Ok(exit)
}

fn tell(
    way: &str,
    settings: &NotifySettings,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<(), Untold> {
    let notice = Notice::test();
    match way {
        "desktop" => show_and_wait(&notice).map_err(|error| {
            Untold::new(error, "notify-send (Debian: libnotify-bin) and a running desktop are needed; over ssh use `terminal`")
        }),
        "terminal" => {
            if !out.has_own_terminal() {
                return Err(Untold::new("this is no terminal", "run it in the terminal that is to be told"));
            }
            out.ring(&Terminal::of(|name| surroundings.environ.text(name)).shows(&notice));
            Ok(())
        }
        "command" => {
            let variables = vec![
                ("AGENTCTL_STATUS", "test".to_owned()),
                ("AGENTCTL_EVENT", "test".to_owned()),
                ("AGENTCTL_NOTICE", notice.title()),
                ("AGENTCTL_ANSWER", notice.command.clone()),
            ];
            let line = settings.command.as_deref().unwrap_or_default();
            run_and_wait(line, variables, LONGEST)
                .map_err(|error| Untold::new(error, "it is run by `sh -c`, with the variables of docs/notices.md"))
        }
        _ => {
            let Some(preset) = Preset::ALL.into_iter().find(|preset| preset.as_str() == way) else {
                return Err(Untold { message: format!("there is no {way}"), hint: None });
            };
            let body = settings.tells_text(preset).then(|| notice.body());
            let kept = Kept { at: surroundings.now(), title: notice.title(), body, urgent: false };
            presets::send(preset, settings, &kept)
        }
    }
}
