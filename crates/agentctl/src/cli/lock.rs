//! `agentctl lock DIR`, `unlock DIR`: keeps launches out of a directory.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_daemon::joined;
use agentctl_fleet::keep::locks::user_of;
use agentctl_fleet::{LockError, Locks, ManualLock};
use agentctl_model::{DirectoryHolder, Error, ErrorKind, text};
use clap::builder::NonEmptyStringValueParser;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::host_args::HostArgs;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::hosts::{RosterHost, length};
use crate::output::Output;
use crate::render::{json as writer, time};
use crate::surroundings::Surroundings;

/// Lock a directory and what is below it: no launch there until it is unlocked
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl lock . --reason 'releasing by hand' --ttl 2h\n  \
    agentctl lock ~/work/site --by ann\n\n\
    Locking it again changes your own lock: --reason and --ttl that are not given\n\
    stay as they were; `unlock` takes them off. Live sessions are not touched: they\n\
    hold the git working tree they work in without any lock (`agentctl locks`).")]
pub(crate) struct Args {
    /// The directory
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: PathBuf,
    /// Who locks it [default: your user name, else your uid]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    by: Option<String>,
    /// Why, for those who are kept out
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    reason: Option<String>,
    /// Unlock it by itself after this time: 30m, 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = time::parse_duration)]
    ttl: Option<Duration>,
    /// Take it over from whoever has locked it
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    hosts: HostArgs,
    /// The lock as JSON
    #[arg(long)]
    json: bool,
}

/// Unlock a directory that was locked by hand, whoever locked it
#[derive(Debug, clap::Args)]
pub(crate) struct UnlockArgs {
    /// The directory
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: PathBuf,
    #[command(flatten)]
    hosts: HostArgs,
    /// The lock that was taken off, as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    if let Some(far) = args.hosts.one(surroundings)? {
        let holder = lock_there(args, &far, surroundings)?;
        return told_far("locked", &holder, &far, args.json, out);
    }
    let directory = surroundings.meant(&args.directory);
    let refused = |why: &str| Failure::new(ErrorKind::Usage, format!("{} {why}", directory.display()));
    match agentctl_files::is_folder_within(&directory) {
        Ok(true) => {}
        Ok(false) => return Err(refused("is not a folder")),
        Err(silent) => return Err(refused(&silent.to_string())),
    }
    let now = surroundings.now();
    let wanted = ManualLock {
        directory,
        by: Some(args.by.clone().unwrap_or_else(|| user_of(&surroundings.environ))),
        reason: args.reason.clone(),
        since: now,
        until: args.ttl.map(|ttl| end(now, ttl)).transpose()?,
    };
    let holder = surroundings.locks()?.lock(wanted, args.force).map_err(|error| match error {
        LockError::Held(_) => Failure::from(Error::from(error)).hint("--force takes it over"),
        LockError::Store(error) => error.into(),
    })?;
    if args.json {
        writer::answer(out, &holder)?;
        return Ok(Exit::Done);
    }
    let by = holder.by.as_deref().map(|by| format!(" for {}", text::one_line(by))).unwrap_or_default();
    let until =
        holder.until.map(|until| format!(" until {}", moment(until, surroundings))).unwrap_or_default();
    let reason =
        holder.reason.as_deref().map(|why| format!(" ({})", text::one_line(why))).unwrap_or_default();
    writeln!(out, "locked {}{by}{until}{reason}", surroundings.shown(Path::new(&holder.directory)))?;
    Ok(Exit::Done)
}

pub(crate) fn unlock(
    args: &UnlockArgs,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    if let Some(far) = args.hosts.one(surroundings)? {
        let directory = args.directory.to_string_lossy().into_owned();
        let target = format!("/v1/locks?{}", joined(&[("directory", directory)]));
        let holder = far.done(("DELETE", &target), &json!({}), Duration::ZERO)?;
        return told_far("unlocked", &holder, &far, args.json, out);
    }
    let directory = surroundings.meant(&args.directory);
    let locks = surroundings.locks()?;
    let now = surroundings.now();
    let Some(holder) = locks.unlock(&directory, now)? else {
        let failure =
            Failure::new(ErrorKind::NotFound, format!("{} is not locked by hand", directory.display()));
        return Err(failure.hint(locks.hint_for_unlocked(&directory, now)?));
    };
    if args.json {
        writer::answer(out, &holder)?;
    } else {
        let by = holder.by.as_deref().map(text::one_line);
        let by = by.map(|by| format!(" (it was {by}'s)")).unwrap_or_default();
        writeln!(out, "unlocked {}{by}", surroundings.shown(&directory))?;
    }
    Ok(Exit::Done)
}

/// Locks a directory of another machine, which is named from / on.
fn lock_there(
    args: &Args,
    far: &RosterHost,
    surroundings: &Surroundings,
) -> Result<DirectoryHolder, Failure> {
    let by = args.by.clone().unwrap_or_else(|| user_of(&surroundings.environ));
    let body = json!({
        "directory": args.directory.to_string_lossy(), "by": by, "reason": args.reason,
        "ttl": args.ttl.map(length), "force": args.force,
    });
    far.done(("POST", "/v1/locks"), &body, Duration::ZERO)
}

fn told_far(
    what: &str,
    holder: &DirectoryHolder,
    far: &RosterHost,
    as_json: bool,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let holder = DirectoryHolder { host: far.name.to_string(), ..holder.clone() };
    if as_json {
        writer::answer(out, &holder)?;
    } else {
        writeln!(out, "{what} {} on {}", text::one_line(&holder.directory), far.name)?;
    }
    Ok(Exit::Done)
}

fn end(now: Timestamp, ttl: Duration) -> Result<Timestamp, Failure> {
    if ttl.is_zero() {
        return Err(Failure::new(ErrorKind::Usage, "--ttl must be longer than nothing"));
    }
    let end = SignedDuration::try_from(ttl).ok().and_then(|ttl| now.checked_add(ttl).ok());
    end.ok_or_else(|| {
        Failure::new(
            ErrorKind::Usage,
            "--ttl is longer than time itself; leave it out for a lock without end",
        )
    })
}

/// When a lock ends: the time of day, with the date unless it is today.
fn moment(until: Timestamp, surroundings: &Surroundings) -> String {
    let (day, clock) = (time::day(until, &surroundings.zone), time::clock(until, &surroundings.zone));
    if day == time::day(surroundings.now(), &surroundings.zone) { clock } else { format!("{day} {clock}") }
}

impl Surroundings {
    /// The manual locks, stored in agentctl's own folder.
    pub(crate) fn locks(&self) -> Result<Locks, Failure> {
        self.store().map(Locks::of)
    }
}

/// How long until a lock ends, for tables.
pub(crate) fn left(holder: &DirectoryHolder, now: Timestamp) -> Option<String> {
    holder.until.map(|until| format!("in {}", time::ahead(until, now)))
}
