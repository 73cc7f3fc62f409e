//! `agentctl fuse`: timers on directories, limits on sessions, budgets of directories.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_daemon::wire::Caller;
use agentctl_daemon::{FuseList, Fuses, deadline, encode};
use agentctl_files::is_folder_within;
use agentctl_fleet::Purpose;
use agentctl_model::{ErrorKind, Fuse, Period, SessionKey, text};
use clap::builder::NonEmptyStringValueParser;
use clap_complete::engine::ArgValueCompleter;
use serde_json::{Value, json};

use super::complete;
use super::fuses::{self, HostFuse};
use super::host_args::HostArgs;
use super::target::{Machines, NarrowingArgs};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::Link;
use crate::link::client::Ask;
use crate::link::daemon_process::DaemonProcess;
use crate::link::hosts::RosterHost;
use crate::output::Output;
use crate::render::json as writer;
use crate::surroundings::Surroundings;

/// Set, extend or cancel fuses: timers, limits on sessions, budgets
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A fuse survives the daemon; what expired while it was down fires once when it is back.\n\n\
    A budget is what all sessions of a folder and its worktrees may spend in a\n\
    period. At four fifths it warns. When it is spent, the sessions there are\n\
    interrupted, then stopped, and launch, resume and send there are refused until\n\
    the period ends or a higher figure is set.\n\n\
    Examples:\n  \
    agentctl fuse set ~/w/site --ttl 2h --on-expire-script 'rm -rf tmp'\n  \
    agentctl fuse extend ~/w/site --ttl 1h\n  \
    agentctl fuse set --session 5f0c --max-tokens 2000000 --max-time 3h\n  \
    agentctl fuse set --cwd ~/w/site --max-cost 20 --per day\n  \
    agentctl fuse set /home/dev/api --ttl 2h --host box\n  \
    agentctl fuse cancel f-1a2b3c4d\n\n\
    On another machine its daemon burns the fuse, so one must run there."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Set a fuse; it replaces one that is about the same
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
    #[command(flatten)]
    hosts: HostArgs,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct What {
    /// The directory; to extend or cancel, also the id of a fuse
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: Option<PathBuf>,
    /// A session: full id, unique beginning of one, or exact name; HOST/ID
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
    /// How many tokens the session may have used; with --per, the budget
    #[arg(long, value_name = "N", conflicts_with = "ttl")]
    max_tokens: Option<u64>,
    /// How many US dollars the session may have cost; with --per, the budget
    #[arg(long, value_name = "DOLLARS", conflicts_with = "ttl")]
    max_cost: Option<f64>,
    /// A budget of the directory for each day, week or month
    #[arg(long, value_name = "PERIOD", value_parser = period, conflicts_with_all = ["session", "ttl", "max_time"])]
    per: Option<Period>,
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
    let (on, done, as_json) = match &args.command {
        Command::Set(set) => (&set.on, "set", set.json),
        Command::Extend { on, json, .. } => (on, "extended", *json),
        Command::Cancel { on, json } => (on, "cancelled", *json),
    };
    let wish = match &args.command {
        Command::Set(set) if set.per.is_some() => Wish::Budget,
        Command::Set(_) => Wish::New,
        _ => Wish::Known,
    };
    let meant = on.meant(wish, surroundings, out)?;
    let fuse = match &meant.far {
        Some(far) => there(&args.command, far, &meant, surroundings)?,
        None => here(&args.command, &meant, surroundings)?,
    };
    let far = meant.far.as_ref().map(|far| far.name.as_str());
    match (as_json, far) {
        (true, None) => writer::answer(out, &fuse)?,
        (true, Some(host)) => writer::answer(out, &HostFuse { host: host.to_owned(), fuse })?,
        (false, _) => writeln!(out, "{done}: {}", fuses::words(&fuse, far, surroundings))?,
    }
    Ok(Exit::Done)
}

fn here(command: &Command, meant: &Meant, surroundings: &Surroundings) -> Result<Fuse, Failure> {
    let process = DaemonProcess::new(surroundings)?;
    match command {
        Command::Set(set) => set.put(meant, &process, surroundings),
        Command::Extend { ttl, .. } => {
            let id = meant.fuse(&FuseList::read(&surroundings.store()?)?, surroundings)?;
            let now = surroundings.now();
            let until =
                deadline(ttl, now).map_err(|why| Failure::new(ErrorKind::Usage, format!("--ttl: {why}")))?;
            let (target, body) =
                (format!("/v1/fuses/{}/extend", encode(&id)), json!({ "ttl": ttl }).to_string());
            let ask = Ask::write("POST", &target, &body);
            let extended = changed(&process, ask, |fuses| fuses.extend(&id, now, until))?;
            extended.ok_or_else(|| over(&id))
        }
        Command::Cancel { .. } => {
            let id = meant.fuse(&FuseList::read(&surroundings.store()?)?, surroundings)?;
            let target = format!("/v1/fuses/{}", encode(&id));
            let ask = Ask::write("DELETE", &target, "{}");
            let cancelled = changed(&process, ask, |fuses| fuses.remove(&id))?;
            cancelled.ok_or_else(|| over(&id))
        }
    }
}

/// The same on another machine, by its own daemon.
fn there(
    command: &Command,
    far: &RosterHost,
    meant: &Meant,
    surroundings: &Surroundings,
) -> Result<Fuse, Failure> {
    let known = || {
        let list = far.read::<FuseList>(agentctl_hosts::Ask::get("/v1/fuses"));
        list.map_err(|why| far.refused(why)).and_then(|list| meant.fuse(&list, surroundings))
    };
    match command {
        Command::Set(set) => far.done(("POST", "/v1/fuses"), &set.body(meant), Duration::ZERO),
        Command::Extend { ttl, .. } => {
            let target = format!("/v1/fuses/{}/extend", encode(&known()?));
            far.done(("POST", &target), &json!({ "ttl": ttl }), Duration::ZERO)
        }
        Command::Cancel { .. } => {
            let target = format!("/v1/fuses/{}", encode(&known()?));
            far.done(("DELETE", &target), &json!({}), Duration::ZERO)
        }
    }
}

impl Set {
    fn put(
        &self,
        meant: &Meant,
        process: &DaemonProcess<'_>,
        surroundings: &Surroundings,
    ) -> Result<Fuse, Failure> {
        let directory = meant.directory.as_deref();
        let seen = directory.map(|path| (path, is_folder_within(Path::new(path))));
        if let Some((path, seen)) = seen.filter(|(_, seen)| *seen != Ok(true)) {
            let why = match seen {
                Err(silent) => silent.to_string(),
                Ok(_) if Path::new(path).exists() => "is not a folder".to_owned(),
                Ok(_) => "does not exist".to_owned(),
            };
            return Err(Failure::new(ErrorKind::Usage, format!("{path} {why}"))
                .hint("a fuse is set on a folder that is there"));
        }
        let client = process.needed()?.clone();
        let client = match Caller::of(&surroundings.fleet()?).and_then(|caller| caller.header()) {
            Some(caller) => client.on_behalf_of(caller),
            None => client,
        };
        read(&client.done(Ask::write("POST", "/v1/fuses", &self.body(meant).to_string()))?)
    }

    fn body(&self, meant: &Meant) -> Value {
        let key = meant.session.as_ref();
        json!({
            "directory": meant.directory,
            "ttl": self.ttl,
            "session": key.map(|key| &key.id),
            "adapter": key.map(|key| &key.adapter).or(meant.adapter.as_ref()),
            "root": key.map(|key| &key.root),
            "cwd": key.and(meant.cwd.as_ref()),
            "maxTime": self.max_time,
            "maxTokens": self.max_tokens,
            "maxCost": self.max_cost,
            "per": self.per,
            "label": self.label,
            "onExpire": {
                "script": self.on_expire_script,
                "webhook": self.on_expire_webhook,
                "event": self.on_expire_event,
            },
        })
    }
}

/// What a fuse is on, and on which machine.
struct Meant {
    /// `None`: on this machine.
    far: Option<Arc<RosterHost>>,
    directory: Option<String>,
    /// As it was typed.
    typed: String,
    session: Option<SessionKey>,
    /// What tells it from another session of the same id.
    cwd: Option<String>,
    /// The agent of a budget.
    adapter: Option<String>,
}

/// What is wished for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// A fuse that is set.
    Known,
    New,
    /// A new one that counts what is spent.
    Budget,
}

fn period(word: &str) -> Result<Period, String> {
    Period::parse(word).ok_or_else(|| "expected day, week or month".to_owned())
}

impl On {
    /// The folder as it was typed. A budget may be of one agent.
    fn folder(&self, wish: Wish) -> Result<Option<&Path>, Failure> {
        let usage = |words: &str, hint: &str| Err(Failure::new(ErrorKind::Usage, words).hint(hint));
        let (named, cwd) = (self.what.directory.as_deref(), self.narrowed.typed_cwd());
        let folder = match (named, cwd) {
            _ if self.what.session.is_some() => return Ok(None),
            (Some(_), Some(_)) => return usage("both DIR and --cwd name a folder", "one of them is enough"),
            (None, None) => return usage("a fuse is on a folder or a session", "name DIR, or --session ID"),
            (named, cwd) => named.or(cwd),
        };
        if self.narrowed.has_root() || (self.narrowed.adapter().is_some() && wish != Wish::Budget) {
            let words = "--adapter and --root tell sessions apart, not directories";
            return usage(words, "--session ID names a session; --per makes it a budget");
        }
        Ok(folder)
    }

    fn meant(&self, wish: Wish, surroundings: &Surroundings, out: &mut Output) -> Result<Meant, Failure> {
        if let Some(folder) = self.folder(wish)? {
            let far = self.hosts.one(surroundings)?;
            // Folders of other machines are named from / on.
            let directory = if far.is_some() { folder.to_owned() } else { surroundings.meant(folder) };
            let directory = Some(directory.to_string_lossy().into_owned());
            let (typed, adapter) = (folder.to_string_lossy().into_owned(), self.narrowed.adapter());
            let adapter = adapter.map(ToString::to_string);
            return Ok(Meant { far, directory, typed, session: None, cwd: None, adapter });
        }
        let typed = self.what.session.clone().unwrap_or_default();
        let mut meant = Meant { far: None, directory: None, typed, session: None, cwd: None, adapter: None };
        // A complete id needs no survey, which might not be able to read that session now.
        let is_plain = wish == Wish::Known && !self.hosts.are_given() && self.narrowed.is_empty();
        if is_plain && meant.is_of_a_fuse(surroundings)? {
            return Ok(meant);
        }
        let link = Link::open(surroundings)?;
        let machines = Machines::of(&self.hosts, Purpose::Act, surroundings)?;
        let found = self.narrowed.locate(&meant.typed, Purpose::Act, &machines, &link, surroundings, out)?;
        meant.cwd = match &found.far {
            None => self.narrowed.cwd(surroundings),
            Some(_) => found.found.key.variant.as_ref().and(found.found.session.cwd.clone()),
        };
        (meant.far, meant.session) = (found.far, Some(found.found.key));
        Ok(meant)
    }
}

impl Meant {
    /// Whether the text is the whole id of one session on which a fuse is set.
    fn is_of_a_fuse(&self, surroundings: &Surroundings) -> Result<bool, Failure> {
        let set = FuseList::read(&surroundings.store()?)?.fuses;
        Ok(set.iter().filter(|fuse| fuse.session_id.as_ref() == Some(&self.typed)).count() == 1)
    }

    /// The id of the fuse that is set on this directory or session, or that was typed itself.
    fn fuse(&self, list: &FuseList, surroundings: &Surroundings) -> Result<String, Failure> {
        if self.directory.is_some() && list.fuses.iter().any(|fuse| fuse.id == self.typed) {
            return Ok(self.typed.clone());
        }
        let is_meant = |fuse: &&Fuse| match (&self.directory, &self.session) {
            (Some(directory), _) => fuse.directory.as_ref() == Some(directory),
            (None, Some(key)) => fuse.session().as_ref() == Some(key),
            (None, None) => fuse.session_id.as_ref() == Some(&self.typed),
        };
        let session = || format!("session {}", text::one_line(&self.typed));
        let what = self.directory.clone().unwrap_or_else(session);
        let far = self.far.as_ref().map(|far| far.name.as_str());
        match list.fuses.iter().filter(is_meant).collect::<Vec<_>>().as_slice() {
            [one] => Ok(one.id.clone()),
            [] => {
                let host = far.map(|far| format!(" --host {far}")).unwrap_or_default();
                Err(Failure::new(ErrorKind::NotFound, format!("no fuse is set on {what}"))
                    .hint(format!("`agentctl fuses{host}` shows those that are")))
            }
            several => {
                let lines =
                    several.iter().map(|fuse| format!("\n  {}", fuses::words(fuse, far, surroundings)));
                let words = format!("several fuses are set on {what}:{}", lines.collect::<String>());
                Err(Failure::new(ErrorKind::Ambiguous, words).hint("name one of them by its id"))
            }
        }
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
