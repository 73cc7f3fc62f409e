//! `agentctl daemon`: what outlives a command, started and ended by hand.

mod service;
mod sheet;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use agentctl_daemon::{DaemonStatus, Ended, Options, RunError};
use schemars::JsonSchema;
use serde::Serialize;

use crate::client::OWN_VERSION;
use crate::daemon_process::{DaemonProcess, Manner, Started};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::keeper::Keeper;
use crate::output::Output;
use crate::render::json;
use crate::surroundings::Surroundings;

/// Start, stop and inspect the daemon: API, events, fuses, webhooks, metrics
#[derive(Debug, clap::Args)]
#[command(after_help = "Reading commands work without it and give the same answers. Agents never depend\n\
    on it: it can be stopped or killed at any moment.\n\nExamples:\n  \
    agentctl daemon start\n  \
    agentctl daemon start --http 127.0.0.1:7777\n  \
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
    /// End it and start it again, in the same manner unless told otherwise
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
    /// Take the service away
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
pub(crate) struct Standing {
    running: bool,
    home: String,
    /// What it says of itself; null when it does not run.
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
        Command::Start(how) => match process.start(how.manner())? {
            Started::Now(status) => writeln!(out, "the daemon runs now (pid {})", status.pid)?,
            Started::Already(status) => {
                let words = format!("the daemon runs already (pid {})", status.pid);
                let asked = how.missing_in(&status);
                if !asked.is_empty() {
                    let failure = Failure::new(Exit::Refused, format!("{words}, but without {asked}"));
                    return Err(failure.hint(format!("`agentctl daemon restart {asked}` starts it anew so")));
                }
                writeln!(out, "{words}")?;
            }
        },
        Command::Stop => {
            let words = if process.stop()? { "the daemon has ended; agents go on" } else { "no daemon runs" };
            writeln!(out, "{words}")?;
        }
        Command::Restart(how) => {
            let before = process.status();
            let served = || before.as_ref().and_then(|status| status.http.as_ref()?.parse().ok());
            let http = how.http.or_else(served);
            let read_only = how.read_only || before.as_ref().is_some_and(|status| status.read_only);
            process.stop()?;
            let (Started::Now(status) | Started::Already(status)) =
                process.start(Manner { http, read_only })?;
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

    /// What was asked for and this daemon does not do, as flags. What was not asked for may be as it is.
    fn missing_in(&self, status: &DaemonStatus) -> String {
        let served: Option<SocketAddr> = status.http.as_ref().and_then(|http| http.parse().ok());
        // Port 0 is any port.
        let fits = |asked: SocketAddr| {
            served.is_some_and(|served| {
                served.ip() == asked.ip() && (asked.port() == 0 || served.port() == asked.port())
            })
        };
        let http = self.http.filter(|asked| !fits(*asked)).map(|asked| format!("--http {asked}"));
        let read_only = (self.read_only && !status.read_only).then(|| "--read-only".to_owned());
        http.into_iter().chain(read_only).collect::<Vec<_>>().join(" ")
    }
}

fn status(
    as_json: bool,
    process: &DaemonProcess<'_>,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let daemon = process.status();
    let exit = if daemon.is_some() { Exit::Done } else { Exit::NoDaemon };
    if as_json {
        let home = process.home().folder().to_string_lossy().into_owned();
        json::answer(out, &Standing { running: daemon.is_some(), home, daemon })?;
        return Ok(exit);
    }
    match daemon {
        Some(status) => sheet::print(&status, surroundings, out)?,
        None => writeln!(out, "no daemon runs; `agentctl daemon start` starts one")?,
    }
    Ok(exit)
}

/// Memory in pages of 4 KB: a daemon that rests between looks would keep the half of every huge page for nothing. Children
/// inherit it, so a runner takes it back for its agent. Where the system has no such switch nothing changes.
pub(crate) fn small_pages(wanted: bool) {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(wanted);
    #[cfg(not(target_os = "linux"))]
    let _ = wanted;
}

fn serve(
    manner: Manner,
    detached: bool,
    surroundings: Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    if detached {
        // Away from the terminal and the job of whoever started us. We lead no group yet, so this cannot fail.
        let _ = rustix::process::setsid();
    }
    small_pages(true);
    let home = DaemonProcess::new(&surroundings)?.home().clone();
    let host = surroundings.host();
    let notify_socket = surroundings.environ.get("NOTIFY_SOCKET").map(ToOwned::to_owned);
    let keeper = Arc::new(Keeper::new(surroundings));
    let options = Options {
        home: home.clone(),
        version: OWN_VERSION.to_owned(),
        host,
        http: manner.http,
        read_only: manner.read_only,
        aloud: !detached,
        notify_socket,
        settings: keeper.clone(),
        hands: keeper,
    };
    match agentctl_daemon::run(options) {
        Ok(Ended::Stopped) => Ok(Exit::Done),
        Ok(Ended::AlreadyRuns) => {
            writeln!(out, "a daemon of {} runs already", home.folder().display())?;
            Ok(Exit::Done)
        }
        Ok(Ended::HomeGone) => {
            Err(Failure::new(Exit::Failed, format!("{} is gone or was replaced", home.folder().display())))
        }
        Err(error @ RunError::NotLoopback(_)) => Err(Failure::new(Exit::Usage, error.to_string())),
        Err(error) => Err(Failure::new(Exit::NoDaemon, error.to_string())),
    }
}
