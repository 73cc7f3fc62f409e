//! The events of several machines in one stream. Each machine has its own cursor and its own gaps; one that is lost is
//! said so and asked again, and the others go on.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use agentctl_model::{ErrorKind, text};
use serde_json::Value;

use super::cursor::Cursors;
use super::{Args, READ_TIMEOUT};
use crate::cli::terminal_notices::TerminalNotices;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::client::Stream;
use crate::link::daemon_process::DaemonProcess;
use crate::link::hosts::{Asked, Pauses, RosterHost, SILENCE};
use crate::output::Output;
use crate::surroundings::Surroundings;

/// A cursor of no life of any daemon: whoever gives it is told the state of everything, after a `reset`.
const MISSED: &str = "-";

/// What a machine sends.
enum News {
    /// An event as JSON, and the cursor behind it.
    Event {
        host: String,
        data: String,
        cursor: Option<String>,
    },
    Cursor {
        host: String,
        cursor: String,
    },
    Lost {
        host: String,
        why: String,
    },
    Back {
        host: String,
    },
}

pub(super) fn run(
    args: &Args,
    asked: &Asked,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let given = args.since.as_deref().map(|text| {
        Cursors::parse(text).ok_or_else(|| {
            Failure::new(ErrorKind::Usage, "--since is no cursor of several machines")
                .hint("give back a `cursor` that `agentctl events --host` printed")
        })
    });
    let mut cursors = given.transpose()?.unwrap_or_default();
    let interrupt = Interrupt::listen();
    let (sender, news) = channel();
    for host in asked.each() {
        let (sender, target) = (sender.clone(), args.target());
        let cursor = cursors.get(host.name.as_str()).map(str::to_owned);
        std::thread::spawn(move || listen(&host, &target, cursor, &sender));
    }
    drop(sender);
    let own_name = agentctl_fleet::own_name();
    let process = asked.local.then(|| DaemonProcess::new(surroundings)).transpose()?;
    let mut local: Option<Stream> = None;
    let mut notices = TerminalNotices::of(surroundings, out);
    let mut tell = |far: Option<&str>, data: &str, out: &mut Output| {
        super::tell(&mut notices, far, data, surroundings, out);
    };
    loop {
        if let Some(process) = &process {
            if local.is_none() {
                process.needed()?;
                let stream = args.open(process, cursors.get(&own_name)).map_err(|error| {
                    Failure::new(ErrorKind::NoDaemon, format!("the daemon does not answer: {error}"))
                })?;
                local = Some(stream);
            }
            local = local
                .take()
                .map(|stream| next_here(stream, &own_name, &mut cursors, &mut tell, out))
                .transpose()?
                .flatten();
        }
        let wait = if process.is_some() { Duration::ZERO } else { READ_TIMEOUT };
        pass_on(&news, wait, &mut cursors, &mut tell, out)?;
        if out.reader_leaves_within(Duration::ZERO)? {
            return Ok(Exit::Done);
        }
        if interrupt.came() {
            return Ok(Exit::Interrupted);
        }
    }
}

/// Tells the terminal of an event of the machine that is named, or of this one.
type Tell<'t> = &'t mut dyn FnMut(Option<&str>, &str, &mut Output);

/// Prints the next event of this machine, if one comes; `None` when the stream has ended.
fn next_here(
    mut stream: Stream,
    own_name: &str,
    cursors: &mut Cursors,
    tell: Tell<'_>,
    out: &mut Output,
) -> Result<Option<Stream>, Failure> {
    let next = stream.next();
    if let Some(cursor) = stream.cursor() {
        cursors.set(own_name, cursor);
    }
    match next {
        Ok(Some(event)) => {
            print(own_name, &event.data, cursors, out)?;
            tell(None, &event.data, out);
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Ok(None) | Err(_) => return Ok(None),
    }
    Ok(Some(stream))
}

/// Prints what other machines sent.
fn pass_on(
    news: &Receiver<News>,
    wait: Duration,
    cursors: &mut Cursors,
    tell: Tell<'_>,
    out: &mut Output,
) -> Result<(), Failure> {
    for one in news.recv_timeout(wait).into_iter().chain(news.try_iter()) {
        match one {
            News::Event { host, data, cursor } => {
                if let Some(cursor) = cursor {
                    cursors.set(&host, &cursor);
                }
                print(&host, &data, cursors, out)?;
                tell(Some(&host), &data, out);
            }
            News::Cursor { host, cursor } => cursors.set(&host, &cursor),
            News::Lost { host, why } => {
                out.warn(&format!("{host} is not heard: {}; it is asked again", text::one_line(&why)));
            }
            News::Back { host } => out.warn(&format!("{host} is heard again")),
        }
    }
    Ok(())
}

/// An event of a machine, under the name by which it was asked and with the cursor of the whole stream.
fn print(host: &str, data: &str, cursors: &Cursors, out: &mut Output) -> Result<(), Failure> {
    // What is no object is no event.
    let Ok(Value::Object(mut event)) = serde_json::from_str(data) else { return Ok(()) };
    event.insert("cursor".to_owned(), Value::String(cursors.text()));
    event.insert("host".to_owned(), Value::String(host.to_owned()));
    let name = |session: &mut Value| {
        if let Value::Object(session) = session {
            session.insert("host".to_owned(), Value::String(host.to_owned()));
        }
    };
    for key in ["session", "source"] {
        event.get_mut(key).map(name);
    }
    for key in ["sessions", "sources"] {
        if let Some(Value::Array(all)) = event.get_mut(key) {
            all.iter_mut().for_each(name);
        }
    }
    crate::render::json::line(out, &Value::Object(event))?;
    Ok(out.flush()?)
}

/// Sends the events of one machine until nobody reads them.
fn listen(host: &Arc<RosterHost>, target: &str, mut cursor: Option<String>, to: &Sender<News>) {
    let name = host.name.to_string();
    let mut pauses = Pauses::default();
    loop {
        let why = match host.listen(target, cursor.as_deref()) {
            Err(failure) => failure.message,
            Ok(mut events) => {
                if !pauses.is_first() && to.send(News::Back { host: name.clone() }).is_err() {
                    return;
                }
                pauses.reset();
                loop {
                    let next = events.next(Some(READ_TIMEOUT));
                    let at = events.cursor().map(str::to_owned);
                    let moved = at != cursor;
                    cursor = at.or(cursor);
                    let sent = match next {
                        Ok(Some(event)) => to.send(News::Event {
                            host: name.clone(),
                            data: event.data,
                            cursor: cursor.clone(),
                        }),
                        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                            if events.last_heard().elapsed() > SILENCE {
                                break format!("nothing came for {} s", SILENCE.as_secs());
                            }
                            match cursor.clone().filter(|_| moved) {
                                Some(cursor) => to.send(News::Cursor { host: name.clone(), cursor }),
                                None => Ok(()),
                            }
                        }
                        Ok(None) => break "the stream ended".to_owned(),
                        Err(error) => break error.to_string(),
                    };
                    if sent.is_err() {
                        return;
                    }
                }
            }
        };
        // What happened meanwhile is told, or that something was missed.
        cursor.get_or_insert_with(|| MISSED.to_owned());
        if pauses.is_first() && to.send(News::Lost { host: name.clone(), why }).is_err() {
            return;
        }
        std::thread::sleep(pauses.next());
    }
}
