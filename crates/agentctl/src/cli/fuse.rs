//! `agentctl fuse`: timers on directories, limits on sessions.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use agentctl_daemon::wire::Caller;
use agentctl_daemon::{FuseList, Fuses, deadline, encode};
use agentctl_files::is_folder_within;
use agentctl_fleet::Purpose;
use agentctl_model::{ErrorKind, Fuse, SessionKey};
use clap::builder::NonEmptyStringValueParser;
use clap_complete::engine::ArgValueCompleter;
use serde_json::json;

use super::target::NarrowingArgs;
use super::{complete, fuses};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::Link;
use crate::link::client::Ask;
use crate::link::daemon_process::DaemonProcess;
use crate::output::Output;
use crate::render::json as writer;
use crate::surroundings::Surroundings;

/// Set, extend or cancel fuses: timers on directories, limits on sessions
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A fuse survives the daemon; what expired while it was down fires once when it is back.\n\n\
    Examples:\n  \
    agentctl fuse set ~/w/site --ttl 2h --on-expire-script 'rm -rf tmp'\n  \
    agentctl fuse extend ~/w/site --ttl 1h\n  \
    agentctl fuse set --session 5f0c --max-tokens 2000000 --max-time 3h"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Set a fuse; it replaces one on the same directory or session
    Set(Box<Set>),
    /// Extend a fuse, counted from now
    Extend {
        #[command(flatten)]
        on: On,
        /// How long: 10m, 2h
        #[arg(long, value_name = "TIME")]
        ttl: String,
        /// The fuse as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a fuse without firing it
    Cancel {
        #[command(flatten)]
        on: On,
        /// The fuse as JSON
        #[arg(long)]
        json: bool,
    },
}

/// What a fuse is on.
#[derive(Debug, clap::Args)]
struct On {
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    narrowed: NarrowingArgs,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct What {
    /// The directory
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: Option<PathBuf>,
    /// A session: full id, unique beginning of one, or exact name
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::sessions))]
    session: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Set {
    #[command(flatten)]
    on: On,
    /// How long until a directory's fuse expires: 10m, 2h
    #[arg(long, value_name = "TIME", conflicts_with = "session")]
    ttl: Option<String>,
    /// How long the session may go on from now
    #[arg(long, value_name = "TIME", conflicts_with = "directory")]
    max_time: Option<String>,
    /// How many tokens the session may have used
    #[arg(long, value_name = "N", conflicts_with = "directory")]
    max_tokens: Option<u64>,
    /// How many US dollars the session may have cost
    #[arg(long, value_name = "DOLLARS", conflicts_with = "directory")]
    max_cost: Option<f64>,
    /// Run this command line of the shell when it expires
    #[arg(long, value_name = "CMD")]
    on_expire_script: Option<String>,
    /// Tell this address when it expires
    #[arg(long, value_name = "URL")]
    on_expire_webhook: Option<String>,
    /// A name that the event `fuse.expired` carries
    #[arg(long, value_name = "NAME")]
    on_expire_event: Option<String>,
    /// Words for whoever sees it
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// The fuse as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let process = DaemonProcess::new(surroundings)?;
    let (done, fuse, as_json) = match &args.command {
        Command::Set(set) => ("set", set.put(&process, surroundings, out)?, set.json),
        Command::Extend { on, ttl, json } => {
            let id = on.fuse(surroundings, out)?;
            let now = surroundings.now();
            let until =
                deadline(ttl, now).map_err(|why| Failure::new(ErrorKind::Usage, format!("--ttl: {why}")))?;
            let (target, body) =
                (format!("/v1/fuses/{}/extend", encode(&id)), json!({ "ttl": ttl }).to_string());
            let ask = Ask::write("POST", &target, &body);
            let extended = changed(&process, ask, |fuses| fuses.extend(&id, now, until))?;
            ("extended", extended.ok_or_else(|| over(&id))?, *json)
        }
        Command::Cancel { on, json } => {
            let id = on.fuse(surroundings, out)?;
            let target = format!("/v1/fuses/{}", encode(&id));
            let ask = Ask::write("DELETE", &target, "{}");
            let cancelled = changed(&process, ask, |fuses| fuses.remove(&id))?;
            ("cancelled", cancelled.ok_or_else(|| over(&id))?, *json)
        }
    };
    if as_json {
        writer::answer(out, &fuse)?;
    } else {
        writeln!(out, "{done}: {}", fuses::words(&fuse, surroundings))?;
    }
    Ok(Exit::Done)
}

impl Set {
    fn put(
        &self,
        process: &DaemonProcess<'_>,
        surroundings: &Surroundings,
        out: &Output,
    ) -> Result<Fuse, Failure> {
        let directory = self.on.directory(surroundings)?;
        let seen = directory.as_deref().map(|path| (path, is_folder_within(Path::new(path))));
        if let Some((path, seen)) = seen.filter(|(_, seen)| *seen != Ok(true)) {
            let why = match seen {
                Err(silent) => silent.to_string(),
                Ok(_) if Path::new(path).exists() => "is not a folder".to_owned(),
                Ok(_) => "does not exist".to_owned(),
            };
            return Err(Failure::new(ErrorKind::Usage, format!("{path} {why}"))
                .hint("a fuse is set on a folder that is there"));
        }
        let found = self.on.session(surroundings, out)?;
        let key = found.as_ref();
        let body = json!({
            "directory": directory,
            "ttl": self.ttl,
            "session": key.map(|key| &key.id),
            "adapter": key.map(|key| &key.adapter),
            "root": key.map(|key| &key.root),
            "cwd": key.and_then(|_| self.on.narrowed.cwd(surroundings)),
            "maxTime": self.max_time,
            "maxTokens": self.max_tokens,
            "maxCost": self.max_cost,
            "label": self.label,
            "onExpire": {
                "script": self.on_expire_script,
                "webhook": self.on_expire_webhook,
                "event": self.on_expire_event,
            },
        });
        let client = process.needed()?.clone();
        let client = match Caller::of(&surroundings.fleet()?).and_then(|caller| caller.header()) {
            Some(caller) => client.on_behalf_of(caller),
            None => client,
        };
        read(&client.done(Ask::write("POST", "/v1/fuses", &body.to_string()))?)
    }
}

impl On {
    fn directory(&self, surroundings: &Surroundings) -> Result<Option<String>, Failure> {
        let Some(directory) = &self.what.directory else { return Ok(None) };
        if !self.narrowed.is_empty() {
            let words = "--adapter, --root and --cwd tell sessions apart, not directories";
            return Err(Failure::new(ErrorKind::Usage, words).hint("--session ID names a session"));
        }
        Ok(Some(surroundings.meant(directory).to_string_lossy().into_owned()))
    }

    /// The session of this fuse, found as in every command.
    fn session(&self, surroundings: &Surroundings, out: &Output) -> Result<Option<SessionKey>, Failure> {
        let Some(id) = &self.what.session else { return Ok(None) };
        let link = Link::open(surroundings)?;
        Ok(Some(self.narrowed.find(id, Purpose::Act, &link, surroundings, out)?.0.key))
    }

    /// The id of the fuse that is set on this directory or session.
    fn fuse(&self, surroundings: &Surroundings, out: &Output) -> Result<String, Failure> {
        let set = FuseList::read(&surroundings.store()?)?.fuses;
        let unset = |what: &str| {
            Failure::new(ErrorKind::NotFound, format!("no fuse is set on {what}"))
                .hint("`agentctl fuses` shows those that are")
        };
        if let Some(directory) = self.directory(surroundings)? {
            let found = set.into_iter().find(|fuse| fuse.directory.as_deref() == Some(&directory));
            return found.map(|fuse| fuse.id).ok_or_else(|| unset(&directory));
        }
        let typed = self.what.session.as_deref().unwrap_or_default();
        // A complete id needs no survey, which might not be able to read that session now.
        let mut named = set.iter().filter(|fuse| fuse.session_id.as_deref() == Some(typed));
        if let (Some(fuse), None, true) = (named.next(), named.next(), self.narrowed.is_empty()) {
            return Ok(fuse.id.clone());
        }
        let key = self.session(surroundings, out)?;
        let found = set.into_iter().find(|fuse| key.is_some() && fuse.session() == key);
        found.map(|fuse| fuse.id).ok_or_else(|| unset(&format!("session {typed}")))
    }
}

/// Changes a fuse through the daemon. If none runs, this process changes it under the daemon's lock. No
/// daemon is started for this, because it might fire the very fuse that is to be cancelled.
fn changed(
    process: &DaemonProcess<'_>,
    ask: Ask<'_>,
    change: impl FnOnce(&Fuses) -> io::Result<Option<Fuse>>,
) -> Result<Option<Fuse>, Failure> {
    if !process.client().is_heard() {
        let failed = |error: &dyn std::fmt::Display| Failure::new(ErrorKind::Failed, error.to_string());
        if let Some(_held) = process.home().hold().map_err(|error| failed(&error))? {
            let fuses = Fuses::open(process.home())?;
            return change(&fuses).map_err(|error| failed(&format!("fuses.json cannot be written: {error}")));
        }
    }
    read(&process.needed()?.done(ask)?).map(Some)
}

fn over(id: &str) -> Failure {
    Failure::new(
        ErrorKind::NotFound,
        format!("fuse {id} is not set any more, or has no time that could be longer"),
    )
}

fn read(answer: &[u8]) -> Result<Fuse, Failure> {
    serde_json::from_slice(answer).map_err(|error| {
        Failure::new(ErrorKind::Failed, format!("the daemon's answer is not understood: {error}"))
    })
}
