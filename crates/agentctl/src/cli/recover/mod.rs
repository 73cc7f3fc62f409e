//! `agentctl recover`: the sessions whose turn was open when the machine went down.

mod over_hosts;

use std::io::Write;
use std::num::NonZeroUsize;

use agentctl_fleet::Purpose;
use agentctl_fleet::act::launch::check_words;
use agentctl_fleet::act::recover::{Dismissed, NotRecovered, Recovered, Recoverer};
use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::read::recover::{Lost, MESSAGE, RecoverQuery, Recoverable, Recovery};
use agentctl_model::{CoverageKind, ErrorKind, text};
use clap::builder::NonEmptyStringValueParser;
use clap_complete::engine::ArgValueCompleter;

use super::complete;
use super::coverage;
use super::host_args::{self, HostArgs};
use super::target::{Machines, NarrowingArgs};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::daemon_process::DaemonProcess;
use crate::output::Output;
use crate::render::request;
use crate::render::sessions::short_ids;
use crate::render::style::Tone;
use crate::render::table::{Cell, Column, Table};
use crate::render::time::Since;
use crate::render::{json, path, time};
use crate::surroundings::Surroundings;

/// Take up the sessions whose turn was open when the machine went down
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl recover                     what went down, and where\n  \
    agentctl recover --yes               resume all of it\n  \
    agentctl recover --yes 5f0c          resume one\n  \
    agentctl recover --dismiss 5f0c      put one away\n\n\
    Looking uses nothing up. A session is resumed once, as it was launched, and only \
    where its folder is free. One that was killed before the machine went down looks \
    the same and is among them.")]
pub(crate) struct Args {
    /// Only these sessions: full ids, unique beginnings, or exact names
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::lost))]
    ids: Vec<String>,
    /// Resume them
    #[arg(short, long)]
    yes: bool,
    /// What they are told instead of the message that is shown
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// How many may be starting at once
    #[arg(short, long, value_name = "N", default_value = "4")]
    jobs: NonZeroUsize,
    /// Put this session away; it is not offered again (repeatable)
    #[arg(long, value_name = "ID", conflicts_with_all = ["yes", "ids"], value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::lost))]
    dismiss: Vec<String>,
    /// How far back their last record may be: 30d, an RFC 3339 time, or `all` [default: 7d, for an ID `all`]
    #[arg(long, value_name = "TIME", value_parser = Since::parse)]
    since: Option<Since>,
    /// Only sessions of this agent (repeatable)
    #[arg(long, value_name = "NAME", value_parser = super::adapter_names())]
    adapter: Vec<String>,
    #[command(flatten)]
    hosts: HostArgs,
    /// One JSON object: sessions; with --yes also failed; with --dismiss: dismissed
    #[arg(long)]
    json: bool,
    /// Exit with 6 when some source could not be heard completely
    #[arg(long)]
    strict: bool,
}

impl Args {
    fn query(&self) -> RecoverQuery {
        let is_named = !(self.ids.is_empty() && self.dismiss.is_empty());
        let usual = if is_named { Since::Ever } else { Since::DEFAULT };
        RecoverQuery { since: self.since.unwrap_or(usual), adapters: self.adapter.clone() }
    }

    fn message(&self) -> &str {
        self.message.as_deref().unwrap_or(MESSAGE)
    }
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    check_words(args.message()).map_err(|why| Failure::new(ErrorKind::Usage, why))?;
    if args.yes {
        args.hosts.only_here(surroundings, "recover --yes")?;
        return resume(args, surroundings, out);
    }
    if !args.dismiss.is_empty() {
        args.hosts.only_here(surroundings, "recover --dismiss")?;
        return dismiss(args, surroundings, out);
    }
    offer(args, surroundings, out)
}

fn offer(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let fleet = surroundings.fleet()?;
    let marks = Marks::of(surroundings.store()?);
    let query = args.query();
    let here = || fleet.recovery(&query, &marks, surroundings.now());
    let mut answer = match args.hosts.roster(surroundings)? {
        None => here()?,
        Some(roster) => {
            let asked = args.hosts.asked(&roster, fleet.host())?;
            over_hosts::recovery(&roster, &asked, here, &query, surroundings)?
        }
    };
    if !args.ids.is_empty() {
        let fits = |one: &Recoverable| args.ids.iter().any(|id| is_named(&one.session, id));
        answer.sessions.retain(fits);
    }
    args.message().clone_into(&mut answer.message);
    let exit = coverage::exit(&answer.sources, args.strict, surroundings);
    let exit = exit.or_worse(host_args::exit(&answer.hosts, args.strict));
    host_args::warn(&answer.hosts, out);
    if args.json {
        json::answer(out, &answer)?;
        return Ok(exit);
    }
    show(&answer, surroundings, out)?;
    coverage::warn_unread(&args.adapter, &fleet, out);
    coverage::warn(&answer.sources, surroundings, out);
    for warning in &answer.warnings {
        out.warn(&format!("{}; what was put away is shown", text::clean(warning)));
    }
    Ok(exit)
}

fn is_named(session: &agentctl_model::Session, typed: &str) -> bool {
    session.id.starts_with(typed) || session.name.as_deref() == Some(typed)
}

fn show(answer: &Recovery, surroundings: &Surroundings, out: &mut Output) -> Result<(), Failure> {
    if answer.sessions.is_empty() {
        let unheard = answer.hosts.iter().any(|host| host.coverage == CoverageKind::Failed);
        let words = if unheard {
            "nothing was heard to have gone down, and not every machine was heard"
        } else {
            "nothing to recover"
        };
        writeln!(out, "{words}")?;
        return Ok(());
    }
    let mut table = Table::new(vec![
        Column::whole("LAST"),
        Column::flexible("SESSION", 14),
        Column::flexible("FOLDER", 12),
        Column::whole("AGENT").expendable(1),
    ]);
    for one in &answer.sessions {
        let session = &one.session;
        let title = session.name.as_deref().or(session.prompt.as_deref()).unwrap_or("-");
        let last = session.updated_at.map(|at| time::ago(answer.as_of, at));
        let folder = session.cwd.as_deref().map(|cwd| path::shown(cwd, surroundings.home.as_deref()));
        table.row(vec![
            Cell::plain(last.unwrap_or_else(|| "?".to_owned())),
            Cell::plain(text::one_line(title)),
            Cell::plain(text::one_line(&folder.unwrap_or_else(|| "?".to_owned()))),
            Cell::new(text::one_line(&session.adapter), Tone::Dim),
        ]);
    }
    let ids = short_ids(answer.sessions.iter().map(|one| one.session.id.as_str()));
    let mut lines = table.lines(out.width(), out.paint).into_iter();
    if let Some(header) = lines.next() {
        writeln!(out, "{header}")?;
    }
    for ((line, one), id) in lines.zip(&answer.sessions).zip(ids) {
        writeln!(out, "{line}")?;
        for line in
            one.doing.as_deref().map(|words| request::lines(words, 2, out.width())).unwrap_or_default()
        {
            writeln!(out, "{line}")?;
        }
        if let Some(problem) = &one.problem {
            writeln!(out, "  ✕ {}", text::one_line(problem))?;
        } else {
            let command = text::one_line(&one.command.replacen(&one.session.id, id, 1));
            writeln!(out, "  → {}", out.paint.strong(&command))?;
        }
    }
    let count = text::counted(answer.sessions.len(), "session", "sessions");
    writeln!(out, "\n{count} went down with the machine; `agentctl recover --yes` says to each:")?;
    for line in request::lines(&answer.message, 2, out.width()) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn resume(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let settings = surroundings.settings()?;
    let launcher = surroundings.launcher(&settings)?;
    let recoverer = Recoverer::of(&launcher, surroundings.now())?;
    let found = recoverer.lost(&args.query())?;
    coverage::warn_unread(&args.adapter, &launcher.fleet, out);
    coverage::warn(&found.sources, surroundings, out);
    let incomplete = coverage::exit(&found.sources, args.strict, surroundings);
    // Without the marks it cannot be known what was put away.
    if let Some(warning) = found.warnings.first() {
        return Err(Failure::new(ErrorKind::Failed, warning).hint("nothing was resumed"));
    }
    let lost = chosen(&args.ids, found.lost, args, &launcher.fleet, surroundings, out)?;
    for lost in &lost {
        let binary = format!("adapters.{}.binary", lost.surveyed.key.adapter);
        if let Some(mistake) = settings.invalid(&[&binary]) {
            return Err(surroundings.because_of(mistake));
        }
    }
    if !lost.is_empty() {
        DaemonProcess::wanted(surroundings, out);
    }
    let what = text::counted(lost.len(), "session", "sessions");
    let interrupt = Interrupt::listen();
    out.progress(Some(&format!("resuming {what} ...")));
    let done = recoverer.resume(lost, args.message(), args.jobs, || surroundings.now(), || interrupt.came());
    out.progress(None);
    let worst = done.failed.iter().map(|one| one.kind.into()).fold(Exit::Done, Exit::or_worse);
    if args.json {
        json::answer(out, &done)?;
    } else {
        tell(&done, out)?;
    }
    Ok(incomplete.or_worse(worst))
}

fn tell(done: &Recovered, out: &mut Output) -> Result<(), Failure> {
    if done.sessions.is_empty() && done.failed.is_empty() {
        writeln!(out, "nothing to recover")?;
    }
    for session in &done.sessions {
        writeln!(out, "{}  {} goes on", text::one_line(&session.id), text::one_line(&session.adapter))?;
    }
    for NotRecovered { id, error, .. } in &done.failed {
        out.error(&format!("{} was not resumed: {}", text::one_line(id), text::clean(error)));
    }
    Ok(())
}

fn dismiss(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let settings = surroundings.settings()?;
    let launcher = surroundings.launcher(&settings)?;
    let recoverer = Recoverer::of(&launcher, surroundings.now())?;
    let found = recoverer.lost(&args.query())?;
    coverage::warn(&found.sources, surroundings, out);
    let lost = chosen(&args.dismiss, found.lost, args, &launcher.fleet, surroundings, out)?;
    let dismissed = lost.iter().map(|lost| recoverer.dismiss(lost, surroundings.now()));
    let answer = Dismissed { dismissed: dismissed.collect::<Result<_, _>>()? };
    if args.json {
        json::answer(out, &answer)?;
        return Ok(Exit::Done);
    }
    for one in &answer.dismissed {
        writeln!(out, "{} is put away", text::one_line(&one.id))?;
    }
    Ok(Exit::Done)
}

/// The sessions that these ids mean, or all of them without any. An id that means nothing, or a session that did not go
/// down, is told before anything is done.
fn chosen(
    ids: &[String],
    lost: Vec<Lost>,
    args: &Args,
    fleet: &agentctl_fleet::Fleet,
    surroundings: &Surroundings,
    out: &Output,
) -> Result<Vec<Lost>, Failure> {
    if ids.is_empty() {
        return Ok(lost);
    }
    let narrowed = NarrowingArgs::by(args.adapter.first().cloned(), None, None);
    let machines = Machines::of(&args.hosts, Purpose::Act, surroundings)?;
    let mut chosen: Vec<Lost> = Vec::new();
    for id in ids {
        let located = narrowed.locate(id, Purpose::Act, &machines, fleet, surroundings, out)?;
        if let Some(far) = &located.far {
            return Err(host_args::only_there(&far.name, "recover"));
        }
        let key = &located.found.key;
        let Some(one) = lost.iter().find(|lost| lost.surveyed.key == *key) else {
            let words = format!(
                "session {} has nothing to recover: it did not go down with the machine, or was taken up since",
                text::one_line(&key.id)
            );
            return Err(Failure::new(ErrorKind::Refused, words).hint("`agentctl recover` shows what has"));
        };
        if !chosen.iter().any(|known| known.surveyed.key == *key) {
            chosen.push(one.clone());
        }
    }
    Ok(chosen)
}
