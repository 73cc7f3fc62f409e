//! `agentctl web`: opens the page in a browser, already signed in.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agentctl_daemon::{WebClosed, WebInvitation};
use agentctl_model::ErrorKind;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::client::{Ask, Client};
use crate::link::daemon_process::{DaemonProcess, Presence};
use crate::output::Output;
use crate::render::json;
use crate::surroundings::Surroundings;

/// Open the page in a browser: every session, live, with every verb
#[derive(Debug, clap::Args)]
#[command(after_help = "The daemon serves the page on this machine alone, and is started if none runs.\n\
    The address signs in one tab, once and within a minute; each further tab is\n\
    opened by another `agentctl web`.\n\nExamples:\n  \
    agentctl web\n  \
    agentctl web --print     (over SSH: forward the port, then open the address)\n  \
    agentctl web --off")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// Print the address, and open nothing
    #[arg(long, conflicts_with = "off")]
    print: bool,
    /// The tab may look and not act
    #[arg(long, conflicts_with = "off")]
    read_only: bool,
    /// Close the page's port and sign out every tab
    #[arg(long)]
    off: bool,
    /// The address as JSON, and open nothing
    #[arg(long, conflicts_with = "off")]
    json: bool,
}

/// How long a browser may take to sign in before the address is printed as well.
const SIGN_IN: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let process = DaemonProcess::new(surroundings)?;
    if args.off {
        return off(&process, out);
    }
    let client = process.needed()?;
    let browser = if args.print || args.json { None } else { browser(surroundings) };
    let body = json!({ "readOnly": args.read_only, "file": browser.is_some() });
    let invitation: WebInvitation = asked(client, "/v1/web", &body.to_string())?;
    if args.json {
        json::answer(out, &invitation)?;
        return Ok(Exit::Done);
    }
    let opened = match (browser, &invitation.file) {
        (Some(browser), Some(file)) => open(&browser, Path::new(file), surroundings),
        _ => false,
    };
    if opened {
        writeln!(out, "the page is open in your browser")?;
        return Ok(Exit::Done);
    }
    if !args.print {
        out.hint("no browser signed in; open this address within a minute, it is good once");
    }
    writeln!(out, "{}", invitation.address)?;
    Ok(Exit::Done)
}

fn off(process: &DaemonProcess<'_>, out: &mut Output) -> Result<Exit, Failure> {
    match process.presence()? {
        Presence::Answers(_) => {
            let WebClosed { was_open } = asked(process.client(), "/v1/web/off", "{}")?;
            let words = if was_open {
                "the page is closed, and every tab signed out"
            } else {
                "the page was not open"
            };
            writeln!(out, "{words}")?;
        }
        Presence::Silent { pid } => {
            let (words, hint) = DaemonProcess::silent(pid);
            return Err(Failure::new(ErrorKind::NoDaemon, words).hint(hint));
        }
        // The port is closed with the daemon; the next one must not open it again.
        Presence::Nobody => {
            process
                .home()
                .forget_page()
                .map_err(|error| Failure::new(ErrorKind::Failed, error.to_string()))?;
            writeln!(out, "no daemon runs, so the page is closed; every tab is signed out")?;
        }
    }
    Ok(Exit::Done)
}

fn asked<T: DeserializeOwned>(client: &Client, target: &str, body: &str) -> Result<T, Failure> {
    let answer = client.done(Ask::write("POST", target, body))?;
    serde_json::from_slice(&answer)
        .map_err(|error| Failure::new(ErrorKind::Failed, format!("the daemon's answer: {error}")))
}

/// The program that opens a file in the user's browser; `None` where no browser can be shown.
fn browser(surroundings: &Surroundings) -> Option<String> {
    let set = |name: &str| surroundings.environ.get(name).is_some_and(|value| !value.is_empty());
    if let Some(named) = surroundings.environ.get("BROWSER").and_then(|value| value.to_str()) {
        // Several may be named; a template with %s is not ours to fill.
        let first = named.split(':').next().unwrap_or_default();
        if !first.is_empty() && !first.contains('%') {
            return Some(first.to_owned());
        }
    }
    if cfg!(target_os = "macos") {
        return Some("open".to_owned());
    }
    (set("DISPLAY") || set("WAYLAND_DISPLAY")).then(|| "xdg-open".to_owned())
}

/// Opens the file, and returns whether somebody has signed in: then the daemon has removed it.
#[expect(clippy::disallowed_methods, reason = "the browser is the user's own program")]
fn open(browser: &str, file: &Path, surroundings: &Surroundings) -> bool {
    let Some(program) = surroundings.on_path(Path::new(browser)) else { return false };
    let mut command = Command::new(program);
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if command.current_dir(surroundings.home.as_deref().unwrap_or(Path::new("/"))).spawn().is_err() {
        return false;
    }
    let until = Instant::now() + SIGN_IN;
    while Instant::now() < until {
        if std::fs::symlink_metadata(file).is_err() {
            return true;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    false
}
