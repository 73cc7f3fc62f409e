//! `agentctl events`: prints every change as it happens, one JSON object per line.

pub(crate) mod cursor;
mod merged;

use std::io::{self, Write};
use std::time::Duration;

use agentctl_daemon::joined;
use agentctl_model::{ErrorKind, EventKind, Session};
use serde::Deserialize;

use super::host_args::HostArgs;
use super::terminal_notices::TerminalNotices;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::client::{Event, Stream};
use crate::link::daemon_process::DaemonProcess;
use crate::output::Output;
use crate::surroundings::Surroundings;

/// How soon Ctrl-C or a reader that left is noticed.
const READ_TIMEOUT: Duration = Duration::from_millis(200);

/// A daemon that is just ending may still take a connection and never answer on it. So many times the stream is opened anew
/// before that is a failure, with this much time between.
const MOST_TRIES: usize = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// Print every change as it happens, as JSON lines; starts the daemon if none runs
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl events --type session.waiting --type session.stopped\n  \
    agentctl events --since CURSOR          continue where you were\n\n\
    After a line of type `reset` events were missed; the line of type `snapshot`\n\
    after it has the current state of everything. Over several hosts each line says\n\
    its host, and a `reset` is about that host alone.")]
pub(crate) struct Args {
    /// Continue after this cursor
    #[arg(long, value_name = "CURSOR")]
    since: Option<String>,
    /// Only events of this type (repeatable)
    #[arg(long = "type", value_name = "TYPE", value_parser = crate::settings::event_types())]
    types: Vec<String>,
    /// Only events of this agent (repeatable)
    #[arg(long, value_name = "NAME", value_parser = super::adapter_names())]
    adapter: Vec<String>,
    /// Begin with the current state of everything
    #[arg(long)]
    snapshot: bool,
    #[command(flatten)]
    hosts: HostArgs,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    if let Some(roster) = args.hosts.roster(surroundings)? {
        let asked = args.hosts.asked(&roster, &agentctl_fleet::own_name())?;
        if !asked.is_here() {
            return merged::run(args, &asked, surroundings, out);
        }
    }
    let process = DaemonProcess::new(surroundings)?;
    let interrupt = Interrupt::listen();
    let mut notices = TerminalNotices::of(surroundings, out);
    let mut cursor = args.since.clone();
    // After a restart of the daemon the stream is opened again. The daemon then sends what happened
    // meanwhile, or a `reset`.
    let mut tries = 0;
    loop {
        process.needed()?;
        let mut stream = match args.open(&process, cursor.as_deref()) {
            Ok(stream) => stream,
            Err(_) if interrupt.came() => return Ok(Exit::Interrupted),
            Err(_) if tries < MOST_TRIES => {
                tries += 1;
                std::thread::sleep(BETWEEN_TRIES);
                continue;
            }
            Err(error) => {
                let words = format!("the daemon does not answer: {error}");
                return Err(Failure::new(ErrorKind::NoDaemon, words));
            }
        };
        tries = 0;
        if let Some(exit) = pass_on(
            &mut stream,
            &interrupt,
            &mut |data, out| tell(&mut notices, None, data, surroundings, out),
            out,
        )? {
            return Ok(exit);
        }
        cursor = stream.cursor().map(str::to_owned).or(cursor);
    }
}

impl Args {
    fn target(&self) -> String {
        let mut pairs: Vec<(&str, String)> = self.types.iter().map(|kind| ("type", kind.clone())).collect();
        pairs.extend(self.adapter.iter().map(|name| ("adapter", name.clone())));
        if self.snapshot {
            pairs.push(("snapshot", "true".to_owned()));
        }
        format!("/v1/events?{}", joined(&pairs))
    }

    fn open(&self, process: &DaemonProcess<'_>, cursor: Option<&str>) -> io::Result<Stream> {
        let mut stream = process.client().listen(&self.target(), cursor)?;
        stream.wait_at_most(READ_TIMEOUT)?;
        Ok(stream)
    }
}

/// What a terminal is told of.
#[derive(Deserialize)]
struct Change {
    #[serde(rename = "type")]
    kind: String,
    session: Option<Box<Session>>,
}

/// Tells the terminal of a change of a session; `far` is the other machine that it is on.
fn tell(
    notices: &mut TerminalNotices,
    far: Option<&str>,
    data: &str,
    surroundings: &Surroundings,
    out: &mut Output,
) {
    let Ok(Change { kind, session: Some(session) }) = serde_json::from_str(data) else { return };
    let kind = EventKind::parse(&kind).filter(|kind| kind.is_of_session());
    if kind.is_some_and(|kind| kind != EventKind::SessionStarted) {
        let id = far.map_or_else(|| session.id.clone(), |far| format!("{far}/{}", session.id));
        notices.changed(&session, &id, surroundings, out);
    }
}

/// Prints until the stream ends (`None`) or the command is to end.
fn pass_on(
    stream: &mut Stream,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(&str, &mut Output),
    out: &mut Output,
) -> Result<Option<Exit>, Failure> {
    loop {
        match stream.next() {
            Ok(Some(Event { data, .. })) => {
                writeln!(out, "{data}")?;
                out.flush()?;
                tell(&data, out);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if out.reader_leaves_within(Duration::ZERO)? {
                    return Ok(Some(Exit::Done));
                }
            }
            Ok(None) | Err(_) => return Ok(None),
        }
        if interrupt.came() {
            return Ok(Some(Exit::Interrupted));
        }
    }
}
