//! `agentctl fuse`: timers on directories, limits on sessions, budgets of directories.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_daemon::wire::Caller;
use agentctl_daemon::{FuseList, Fuses, deadline, encode};
use agentctl_files::is_folder_within;
use agentctl_fleet::Purpose;
use agentctl_model::{ErrorKind, Fuse, Period, SessionKey};
use clap::builder::NonEmptyStringValueParser;
use clap_complete::engine::ArgValueCompleter;
use serde_json::{Value, json};

use super::host_args::{HostArgs, only_there};
use super::target::NarrowingArgs;
use super::{complete, fuses};
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
    agentctl fuse cancel f-1a2b3c4d"
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
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct What {
    /// The directory; to extend or cancel, also the id of a fuse
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
    /// How many tokens the session may have used; with --per, the budget
    #[arg(long, value_name = "N", conflicts_with = "ttl")]
    max_tokens: Option<u64>,
    /// How many US dollars the session may have cost; with --per, the budget
    #[arg(long, value_name = "DOLLARS", conflicts_with = "ttl")]
    max_cost: Option<f64>,
    /// A budget of the directory for each day, week or month
    #[arg(long, value_name = "PERIOD", value_parser = period, conflicts_with_all = ["session", "ttl", "max_time"])]
    per: Option<Period>,
    #[command(flatten)]
    hosts: HostArgs,
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
        if let Some(far) = self.hosts.one(surroundings)? {
            return self.put_far(&far);
        }
        let directory = self.on.directory(surroundings, self.per.is_some())?;
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
        let mut body = self.body(directory.as_deref());
        if let Some(key) = key {
            body["session"] = key.id.as_str().into();
            body["adapter"] = key.adapter.as_str().into();
            body["root"] = key.root.as_str().into();
            body["cwd"] = self.on.narrowed.cwd(surroundings).into();
        }
        let client = process.needed()?.clone();
        let client = match Caller::of(&surroundings.fleet()?).and_then(|caller| caller.header()) {
            Some(caller) => client.on_behalf_of(caller),
            None => client,
        };
        read(&client.done(Ask::write("POST", "/v1/fuses", &body.to_string()))?)
    }

    /// Sets it on another machine, whose folder is named as it is called there.
    fn put_far(&self, far: &RosterHost) -> Result<Fuse, Failure> {
        if self.on.what.session.is_some() {
            return Err(only_there(&far.name, "fuse set"));
        }
        let directory = self.on.typed(self.per.is_some())?.map(|path| path.to_string_lossy().into_owned());
        far.done(("POST", "/v1/fuses"), &self.body(directory.as_deref()), Duration::ZERO)
    }

    fn body(&self, directory: Option<&str>) -> Value {
        json!({
            "directory": directory,
            "ttl": self.ttl,
            "adapter": self.on.narrowed.adapter(),
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

fn period(word: &str) -> Result<Period, String> {
    Period::parse(word).ok_or_else(|| "expected day, week or month".to_owned())
}

impl On {
    /// The folder as it was typed. A budget may be of one agent.
    fn typed(&self, is_budget: bool) -> Result<Option<&Path>, Failure> {
        let usage = |words: &str, hint: &str| Err(Failure::new(ErrorKind::Usage, words).hint(hint));
        let (named, cwd) = (self.what.directory.as_deref(), self.narrowed.typed_cwd());
        let folder = match (named, cwd) {
            _ if self.what.session.is_some() => return Ok(None),
            (Some(_), Some(_)) => return usage("both DIR and --cwd name a folder", "one of them is enough"),
            (None, None) => return usage("a fuse is on a folder or a session", "name DIR, or --session ID"),
            (named, cwd) => named.or(cwd),
        };
        if self.narrowed.has_root() || (self.narrowed.adapter().is_some() && !is_budget) {
            let words = "--adapter and --root tell sessions apart, not directories";
            return usage(words, "--session ID names a session; --per makes it a budget");
        }
        Ok(folder)
    }

    fn directory(&self, surroundings: &Surroundings, is_budget: bool) -> Result<Option<String>, Failure> {
        let typed = self.typed(is_budget)?;
        Ok(typed.map(|folder| surroundings.meant(folder).to_string_lossy().into_owned()))
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
        let by_id = self.what.directory.as_ref().and_then(|typed| typed.to_str());
        if let Some(fuse) = by_id.and_then(|typed| set.iter().find(|fuse| fuse.id == typed)) {
            return Ok(fuse.id.clone());
        }
        if let Some(directory) = self.directory(surroundings, false)? {
            let is_there = |fuse: &&Fuse| fuse.directory.as_deref() == Some(&directory);
            let found: Vec<&Fuse> = set.iter().filter(is_there).collect();
            return match found.as_slice() {
                [] => Err(unset(&directory)),
                [one] => Ok(one.id.clone()),
                several => {
                    let lines =
                        several.iter().map(|fuse| format!("\n  {}", fuses::words(fuse, surroundings)));
                    let words = format!("several fuses are set on {directory}:{}", lines.collect::<String>());
                    Err(Failure::new(ErrorKind::Ambiguous, words).hint("name one of them by its id"))
                }
            };
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
