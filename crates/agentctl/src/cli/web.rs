//! `agentctl web`: opens the page in a browser, already signed in.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agentctl_daemon::{WebClosed, WebInvitation};
use agentctl_fleet::Purpose;
use agentctl_model::{ErrorKind, Surveyed, text};
use clap::builder::NonEmptyStringValueParser;
use clap_complete::engine::ArgValueCompleter;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::complete;
use super::host_args::HostArgs;
use super::target::{Machines, NarrowingArgs};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::Link;
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
    agentctl web 5f0c        (at this session)\n  \
    agentctl web --print     (over SSH: forward the port, then open the address)\n  \
    agentctl web --off")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// Open it at this session: full id, unique beginning of one, or exact name; on another host HOST/ID
    #[arg(value_name = "ID", conflicts_with = "off", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::sessions))]
    id: Option<String>,
    #[command(flatten)]
    narrowed: NarrowingArgs,
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

/// The session that a tab opens on, as the page names it.
#[derive(Debug, Serialize)]
pub(crate) struct Place {
    /// `None`: this machine.
    pub(crate) host: Option<String>,
    pub(crate) id: String,
    /// Where the id stands twice.
    pub(crate) cwd: Option<String>,
}

impl Args {
    fn place(&self, surroundings: &Surroundings, out: &Output) -> Result<Option<Place>, Failure> {
        let Some(id) = &self.id else {
            if self.narrowed.is_empty() {
                return Ok(None);
            }
            let words = "--adapter, --root and --cwd tell sessions apart, and none was named";
            return Err(Failure::new(ErrorKind::Usage, words).hint("`agentctl web ID` opens the page at one"));
        };
        let link = Link::open(surroundings)?;
        let machines = Machines::of(&HostArgs::named(None), Purpose::Read, surroundings)?;
        let located = self.narrowed.locate(id, Purpose::Read, &machines, &link, surroundings, out)?;
        let Surveyed { key, session, .. } = located.found;
        let is_one_of_two = key.variant.is_some() || self.narrowed.typed_cwd().is_some();
        let host = located.far.map(|far| far.name.to_string());
        Ok(Some(Place { host, id: key.id, cwd: session.cwd.filter(|_| is_one_of_two) }))
    }
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let process = DaemonProcess::new(surroundings)?;
    if args.off {
        return off(&process, out);
    }
    let place = args.place(surroundings, out)?;
    let client = process.needed()?;
    let browser = if args.print || args.json { None } else { browser(surroundings) };
    let invitation = invited(client, place.as_ref(), args.read_only, browser.is_some())?;
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

fn invited(
    client: &Client,
    place: Option<&Place>,
    read_only: bool,
    file: bool,
) -> Result<WebInvitation, Failure> {
    let body = json!({ "readOnly": read_only, "file": file, "session": place });
    asked(client, "/v1/web", &body.to_string())
}

/// Opens the page at a session in the user's browser, for a screen that has no room for an address.
pub(crate) fn show(place: &Place, surroundings: &Surroundings) -> Result<(), Failure> {
    let unseen = || {
        let name =
            place.host.as_ref().map_or_else(|| place.id.clone(), |host| format!("{host}/{}", place.id));
        let hint = format!("`agentctl web --print {}` prints the address", text::shell_word(&name));
        Failure::new(ErrorKind::Refused, "no browser was opened from here").hint(hint)
    };
    let browser = browser(surroundings).ok_or_else(unseen)?;
    let process = DaemonProcess::new(surroundings)?;
    let invitation = invited(process.needed()?, Some(place), false, true)?;
    let file = invitation.file.ok_or_else(unseen)?;
    if open(&browser, Path::new(&file), surroundings) { Ok(()) } else { Err(unseen()) }
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
    let home = surroundings.home.as_deref().unwrap_or(Path::new("/"));
    let Ok(mut started) = command.current_dir(home).spawn() else { return false };
    // It may stay as long as the browser, and no longer than that as a process without an end.
    std::thread::spawn(move || started.wait());
    let until = Instant::now() + SIGN_IN;
    while Instant::now() < until {
        if std::fs::symlink_metadata(file).is_err() {
            return true;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    false
}
