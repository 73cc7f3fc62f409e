//! `agentctl daemon`: starts, stops and inspects the background process.

mod service;
mod sheet;

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use agentctl_daemon::{DaemonStatus, Ended, Options, RunError};
use agentctl_fleet::KernelLock;
use agentctl_model::{Error, ErrorKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::daemon_context::DaemonContext;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::client::OWN_VERSION;
use crate::link::daemon_process::{DaemonProcess, Manner, Presence, Started};
use crate::output::Output;
use crate::render::json;
use crate::surroundings::Surroundings;

/// Start, stop and inspect the daemon: API, events, fuses, webhooks, metrics
#[derive(Debug, clap::Args)]
#[command(after_help = "Reading commands work without it and give the same answers. Agents never depend\n\
    on it: it can be stopped or killed at any moment.\n\nExamples:\n  \
    agentctl daemon start\n  \
    agentctl daemon start --http 127.0.0.1:7777\n  \
    (or http = \"127.0.0.1:7777\" in config.toml, for every start of it)\n  \
    curl --unix-socket ~/.agentctl/agentctl.sock http://agentctl/v1/sessions")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Args)]
struct How {
    /// Also serve this loopback address, with the token of http.token
    #[arg(long, value_name = "ADDR:PORT")]
    http: Option<SocketAddr>,
    /// Refuse every request that changes something
    #[arg(long)]
    read_only: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Start it in the background unless it runs
    Start(How),
    /// End it; agents go on
    Stop,
    /// Show how it is: uptime, sources, fuses, outbox, memory
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// End it and start it again, with the same options unless others are given
    Restart(How),
    /// Run it in the foreground until Ctrl-C
    Run {
        #[command(flatten)]
        how: How,
        /// Started by another agentctl
        #[arg(long, hide = true)]
        detached: bool,
    },
    /// Make it a service of this user: a systemd unit, or a launchd agent
    Install {
        /// Only print the file
        #[arg(long)]
        print: bool,
    },
    /// Remove the service
    Uninstall,
    /// Show the end of its log
    Logs {
        /// How many lines
        #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 50)]
        count: usize,
    },
}

/// What `daemon status --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Standing")]
pub(crate) struct DaemonState {
    /// Somebody holds its lock.
    running: bool,
    /// Whether it answers; null when none runs.
    answers: Option<bool>,
    /// Who holds its lock, where that can be seen.
    pid: Option<u32>,
    home: String,
    /// What it says of itself; null when it does not run or does not answer.
    daemon: Option<DaemonStatus>,
}

pub(crate) fn run(args: &Args, surroundings: Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    if let Command::Run { how, detached } = &args.command {
        let manner = how.manner();
        let detached = *detached;
        return serve(manner, detached, surroundings, out);
    }
    match args.command {
        Command::Install { print } => return service::install(print, &surroundings, out),
        Command::Uninstall => return service::uninstall(&surroundings, out),
        _ => {}
    }
    let process = DaemonProcess::new(&surroundings)?;
    match &args.command {
        Command::Start(how) => start(how.manner(), &process, out)?,
        Command::Stop => {
            let words =
                if process.stop_any()? { "the daemon has ended; agents go on" } else { "no daemon runs" };
            writeln!(out, "{words}")?;
        }
        Command::Restart(how) => {
            let status = process.restart(how.manner())?;
            writeln!(out, "the daemon runs anew (pid {})", status.pid)?;
        }
        Command::Status { json } => return status(*json, &process, &surroundings, out),
        Command::Logs { count } => {
            for line in process.last_lines(*count) {
                writeln!(out, "{line}")?;
            }
        }
        Command::Run { .. } | Command::Install { .. } | Command::Uninstall => unreachable!("handled above"),
    }
    Ok(Exit::Done)
}

impl How {
    fn manner(&self) -> Manner {
        Manner { http: self.http, read_only: self.read_only }
    }
}

fn start(manner: Manner, process: &DaemonProcess<'_>, out: &mut Output) -> Result<(), Failure> {
    let wanted = process.under_config(manner)?;
    let status = match process.start(manner)? {
        Started::Now(status) => {
            writeln!(out, "the daemon runs now (pid {})", status.pid)?;
            return Ok(());
        }
        Started::Already(status) => status,
    };
    let words = format!("the daemon runs already (pid {})", status.pid);
    let missing = wanted.missing_in(&status);
    if missing.is_empty() {
        writeln!(out, "{words}")?;
        return Ok(());
    }
    // Settings of the config file need no flag.
    let flags = manner.missing_in(&status);
    let restart = format!("`agentctl daemon restart {flags}").trim_end().to_owned();
    let failure = Failure::new(ErrorKind::Refused, format!("{words}, but without {missing}"));
    Err(failure.hint(format!("{restart}` starts it anew so")))
}

fn status(
    as_json: bool,
    process: &DaemonProcess<'_>,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let presence = process.presence()?;
    let exit = if matches!(presence, Presence::Answers(_)) { Exit::Done } else { Exit::NoDaemon };
    if as_json {
        let home = process.home().folder().to_string_lossy().into_owned();
        let (running, answers, pid, daemon) = match presence {
            Presence::Answers(status) => (true, Some(true), Some(status.pid), Some(*status)),
            Presence::Silent { pid } => (true, Some(false), pid, None),
            Presence::Nobody => (false, None, None, None),
        };
        json::answer(out, &DaemonState { running, answers, pid, home, daemon })?;
        return Ok(exit);
    }
    match presence {
        Presence::Answers(status) => sheet::print(&status, surroundings, out)?,
        Presence::Silent { pid } => {
            let (words, next) = DaemonProcess::silent(pid);
            writeln!(out, "{words};\nit is stopped, has too much to do, or is just starting\n{next}")?;
        }
        Presence::Nobody => writeln!(out, "no daemon runs; `agentctl daemon start` starts one")?,
    }
    Ok(exit)
}

fn serve(
    manner: Manner,
    detached: bool,
    surroundings: Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    if detached {
        // Detaches from the terminal and the job of the starting process. This process leads no group yet, so
        // it cannot fail.
        let _ = rustix::process::setsid();
    }
    // The command that started this process in the background may have left its lock as the standard input.
    let start_lock = detached.then(|| std::io::stdin().as_fd().try_clone_to_owned());
    let start_lock = start_lock.and_then(Result::ok).map(|stdin| KernelLock::inherited(stdin.into()));
    agentctl_process::pages::use_small();
    let home = DaemonProcess::new(&surroundings)?.home().clone();
    let host = surroundings.host();
    let notify_socket = surroundings.environ.get("NOTIFY_SOCKET").map(ToOwned::to_owned);
    let configured = match surroundings.settings() {
        Ok(settings) => settings.http.value,
        // Fuses expire and events are announced all the same; a request for sessions reports what is wrong.
        Err(error) => {
            if let Failure::Said(Error { message, .. }) = error.into() {
                out.warn(&format!("{message}; so it is not known whether http is to be served"));
            }
            None
        }
    };
    let daemon_context = Arc::new(DaemonContext::new(surroundings));
    let options = Options {
        home: home.clone(),
        start_lock,
        version: OWN_VERSION.to_owned(),
        host,
        http: manner.http.or(configured),
        http_from_config: manner.http.is_none() && configured.is_some(),
        read_only: manner.read_only,
        aloud: !detached,
        notify_socket,
        settings: daemon_context.clone(),
        stopper: daemon_context,
    };
    match agentctl_daemon::run(options) {
        Ok(Ended::Stopped) => Ok(Exit::Done),
        Ok(Ended::AlreadyRuns) => {
            writeln!(out, "a daemon of {} runs already", home.folder().display())?;
            Ok(Exit::Done)
        }
        Ok(Ended::HomeGone) => Err(Failure::new(
            ErrorKind::Failed,
            format!("{} is gone or was replaced", home.folder().display()),
        )),
        Err(error @ RunError::Http { .. }) if manner.http.is_none() => {
            let words = format!("{error} (http of config.toml)");
            Err(Failure::new(ErrorKind::NoDaemon, words)
                .hint("end the program that uses that port, or name another port there"))
        }
        Err(error @ RunError::NotLoopback(_)) => Err(Failure::new(ErrorKind::Usage, error.to_string())),
        Err(error) => Err(Failure::new(ErrorKind::NoDaemon, error.to_string())),
    }
}
