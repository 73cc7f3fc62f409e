//! `agentctl wait ID...`: returns when sessions have reached a state, with an exit code that reports how
//! their turn ended.

use std::io::Write;
use std::time::Duration;

use agentctl_adapters::agents::acp;
use agentctl_fleet::read::wait::Until;
use agentctl_fleet::{Fleet, Purpose};
use agentctl_model::{Session, text};
use schemars::JsonSchema;
use serde::Serialize;

use super::target::Targets;
use super::terminal_notices::TerminalNotices;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::Link;
use crate::link::daemon_process::DaemonProcess;
use crate::link::hosts::{Located, full};
use crate::link::waiting::{Ended, State, until_over};
use crate::link::waits::{Told, Waits};
use crate::output::Output;
use crate::render::sessions::{self, short_ids};
use crate::render::width::cut_end;
use crate::render::{json, request, style, time};
use crate::surroundings::Surroundings;

/// Wait until sessions are idle or stopped, or in another state
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl wait 5f0c && git push\n  \
    agentctl wait 5f0c 7c1e --any --timeout 30m\n  \
    agentctl wait 5f0c --until waiting --until idle\n\n\
    Exit codes: 0 when no turn is known to have ended badly, 1 when one failed, died\n\
    or was interrupted, 124 after the timeout, 130 after Ctrl-C.")]
pub(crate) struct Args {
    #[command(flatten)]
    targets: Targets,
    /// The state to wait for (repeatable) [default: idle or stopped]; a stopped session counts as idle
    #[arg(long, value_name = "STATE", value_enum)]
    until: Vec<State>,
    /// One of the sessions is enough
    #[arg(long)]
    any: bool,
    /// Give up after this time: 30s, 10m, 2h; `0s` only looks
    #[arg(long, value_name = "TIME", value_parser = time::parse_duration)]
    timeout: Option<Duration>,
    /// One JSON object at the end: timedOut, reached, pending, gone
    #[arg(long)]
    json: bool,
}

/// What `wait --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Waited<'a> {
    timed_out: bool,
    /// Sessions in the state that was waited for, as they came into it.
    reached: Vec<&'a Session>,
    /// Sessions that are not, as last seen.
    pending: Vec<&'a Session>,
    /// Ids of sessions whose records were deleted meanwhile.
    gone: Vec<&'a str>,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let link = Link::open(surroundings)?;
    let interrupt = Interrupt::listen();
    let found = args.targets.find(Purpose::Read, &link, surroundings, out)?;
    // A session that does not exist reaches no state, so waiting would not change the answer.
    if !found.bad.is_empty() {
        return Ok(found.exit());
    }
    if found.sessions.iter().any(|session| session.far.is_none()) {
        DaemonProcess::wanted(surroundings, out);
    }
    let mut wait = Waits::new(found.sessions, &State::until(&args.until), args.any);
    let ended = wait_out(&mut wait, &link.fleet, args.timeout, &interrupt, surroundings, out);
    if ended == Exit::Interrupted {
        return Ok(ended);
    }
    if args.json {
        json::answer(out, &Waited::new(&wait, ended))?;
    } else {
        print(&wait, ended, out)?;
    }
    Ok(ended)
}

/// Waits for the end of the turn of a session that was just started, and then prints the session.
pub(crate) fn for_turn(
    session: &Located,
    as_json: bool,
    fleet: &Fleet,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let ended = for_turns(vec![session.clone()], as_json, fleet, surroundings, out)?;
    if as_json {
        let now = session.again(fleet);
        json::answer(out, &now.as_ref().unwrap_or(&session.found).session)?;
    }
    Ok(ended)
}

/// Waits for the end of several turns and then prints the sessions; with `silent` the caller does that.
pub(crate) fn for_turns(
    sessions: Vec<Located>,
    silent: bool,
    fleet: &Fleet,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let interrupt = Interrupt::listen();
    let mut wait = Waits::new(sessions, &Until::DEFAULT, false);
    let ended = wait_out(&mut wait, fleet, None, &interrupt, surroundings, out);
    out.progress(None);
    if !silent && ended != Exit::Interrupted {
        print(&wait, ended, out)?;
    }
    Ok(ended)
}

/// Surveys until the wait is over, the user interrupts it, or the time is up. Shows the sessions it waits
/// for.
fn wait_out(
    wait: &mut Waits,
    fleet: &Fleet,
    timeout: Option<Duration>,
    interrupt: &Interrupt,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Exit {
    let mut shown = String::new();
    let mut notices = TerminalNotices::of(surroundings, out);
    let ended = until_over(wait, fleet, timeout, surroundings, |wait, waited| {
        for words in wait.take_news() {
            out.progress(None);
            out.warn(&words);
        }
        see(wait, &mut notices, surroundings, out);
        let line = progress(&wait.open(), waited, surroundings.now());
        if line != shown {
            out.progress(Some(&line));
            shown = line;
        }
        interrupt.came()
    });
    out.progress(None);
    see(wait, &mut notices, surroundings, out);
    match ended {
        Ended::Over if wait.went_well() => Exit::Done,
        Ended::Over => Exit::Failed,
        Ended::TimedOut => Exit::Timeout,
        Ended::CalledOff => Exit::Interrupted,
    }
}

/// Tells the terminal of the sessions that are waited for.
fn see(wait: &Waits, notices: &mut TerminalNotices, surroundings: &Surroundings, out: &mut Output) {
    let all = [wait.open(), wait.reached()].concat();
    let called = all.iter().map(|told| (told.session, full(told.far, &told.session.id)));
    notices.see(called, surroundings, out);
}

/// One line about the sessions that have not reached the state yet.
fn progress(open: &[Told<'_>], waited: Duration, now: jiff::Timestamp) -> String {
    let ids = short_ids(open.iter().map(|told| told.session.id.as_str()));
    let each = open.iter().zip(ids).map(|(told, id)| {
        let look = style::look(told.session.status, told.session.outcome);
        // How long it has been so is not told of another machine, whose clock may differ.
        let so = style::time_in_status(told.session, now).filter(|_| told.far.is_none());
        let so = so.map(|so| format!(" {}", time::short(so)));
        format!(
            "{} {} {}{}",
            text::one_line(&full(told.far, id)),
            look.glyph,
            look.word,
            so.unwrap_or_default()
        )
    });
    format!("waiting {}: {}", time::short(waited), each.collect::<Vec<_>>().join(", "))
}

impl<'a> Waited<'a> {
    fn new(wait: &'a Waits, ended: Exit) -> Self {
        let sessions = |told: Vec<Told<'a>>| told.into_iter().map(|one| one.session).collect();
        Self {
            timed_out: ended == Exit::Timeout,
            reached: sessions(wait.reached()),
            pending: sessions(wait.open()),
            gone: wait.gone().into_iter().map(|(_, key)| key.id.as_str()).collect(),
        }
    }
}

fn print(wait: &Waits, ended: Exit, out: &mut Output) -> Result<(), Failure> {
    for told in wait.reached() {
        line(&told, out)?;
    }
    for (far, key) in wait.gone() {
        // A session that only ACP knows is one while it is held.
        let why =
            if acp::is_name(&key.adapter) { "nobody holds it any more" } else { "its records were deleted" };
        writeln!(out, "{} is gone: {why}", text::one_line(&full(far, &key.id)))?;
    }
    if ended == Exit::Timeout {
        for told in wait.open() {
            line(&told, out)?;
        }
        out.warn("the time is up");
    }
    Ok(())
}

fn line(told: &Told<'_>, out: &mut Output) -> Result<(), Failure> {
    let session = told.session;
    let look = style::look(session.status, session.outcome);
    let status = out.paint.apply(look.tone, &format!("{} {}", look.glyph, look.word));
    let id = text::one_line(&full(told.far, &session.id));
    let used = id.len() + look.word.len() + 5;
    // A request is shown in full below.
    let requests: Vec<&str> =
        session.pending.iter().filter_map(|pending| pending.summary.as_deref()).collect();
    let detail = sessions::detail(session).filter(|_| requests.is_empty());
    let detail = detail.map(|detail| cut_end(&detail, out.width().saturating_sub(used)));
    let detail = out.paint.dim(&detail.map(|detail| format!("  {detail}")).unwrap_or_default());
    writeln!(out, "{id} {status}{detail}")?;
    let width = out.width();
    for line in requests.iter().flat_map(|request| request::lines(request, 2, width)) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
