//! `agentctl logs ID`: prints the conversation, and with `-f` follows it.

mod far_follow;

use std::time::{Duration, Instant};

use agentctl_fleet::{Purpose, Query};
use agentctl_model::{Entry, ErrorKind, Status, Surveyed, text};

use super::peek::{Reader, print_last};
use super::target::Target;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::Link;
use crate::link::hints::Hints;
use crate::output::Output;
use crate::surroundings::Surroundings;

/// How often new entries are read, and how often a survey checks whether the session still lives.
const POLL_INTERVAL: Duration = Duration::from_millis(150);
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Both intervals while a daemon announces new entries and the end.
const FALLBACK_INTERVAL: Duration = Duration::from_secs(5);

/// Show the conversation of a session, and with -f follow it until the session ends
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentctl logs 5f0c\n  agentctl logs -f 5f0c\n  agentctl logs -f 5f0c --json | jq -r 'select(.kind == \"error\")'"
)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// How many entries to begin with
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 50)]
    count: usize,
    /// Around this hit of `agentctl search` instead of the last ones
    #[arg(long, value_name = "HIT", conflicts_with = "follow")]
    at: Option<String>,
    /// Go on until the session has stopped
    #[arg(short, long)]
    follow: bool,
    /// One JSON object per entry and line
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Whether it goes on.
    pub(crate) fn follows(&self) -> bool {
        self.follow
    }
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let link = Link::open(surroundings)?;
    let found = args.target.find(Purpose::Read, &link, surroundings, out)?;
    let mut reader = Reader::new(args.json, surroundings, out);
    if let Some(hit) = &args.at {
        let around = if let Some(far) = &found.far {
            Some(far.entries_around(&found.found, hit, args.count)?)
        } else {
            let both = (args.count / 2, args.count.saturating_sub(args.count / 2 + 1));
            let read = link.fleet.read_around(&found.found, hit, both);
            read.map_err(|error| Failure::new(ErrorKind::Failed, error.to_string()))?
        };
        return print_around(around, hit, &mut reader, out);
    }
    match &found.far {
        Some(far) if args.follow => {
            return far_follow::follow(far, &found.found, args.count, &mut reader, out);
        }
        None if args.follow => return follow(&link, &found.found, args.count, &mut reader, out),
        _ => {}
    }
    print_last(&link.fleet, &found, args.count, &mut reader, out)?;
    Ok(Exit::Done)
}

/// Prints the entries around a hit, which stands in the middle of them.
fn print_around(
    around: Option<(Vec<Entry>, usize)>,
    hit: &str,
    reader: &mut Reader<'_>,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let Some((entries, at)) = around else {
        let words = format!("nothing stands at `{}` in this session", text::one_line(hit));
        return Err(Failure::new(ErrorKind::NotFound, words).hint("its records were rewritten; search again"));
    };
    for (index, entry) in entries.iter().enumerate() {
        if index == at {
            reader.point(out)?;
        }
        reader.print(entry, out)?;
    }
    Ok(Exit::Done)
}

fn follow(
    link: &Link,
    session: &Surveyed,
    backlog: usize,
    reader: &mut Reader<'_>,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let refuse = |error: agentctl_adapters::ReadError| Failure::new(ErrorKind::Failed, error.to_string());
    let interrupt = Interrupt::listen();
    let fleet = &link.fleet;
    let open = |session: &Surveyed, backlog: usize| {
        let news = fleet.follow(session, backlog).map_err(refuse)?;
        news.ok_or_else(|| {
            Failure::new(ErrorKind::Failed, "this session keeps no records that could be followed")
        })
    };
    let mut news = open(session, backlog)?;
    let mut place = session.place.clone();
    let mut ended = session.session.status == Status::Stopped;
    let mut hints = if ended { Hints::default() } else { Hints::of_messages(link, session) };
    // Changes from before the hints began are not announced.
    let (mut asked, mut due) = (Instant::now(), hints.are_given());
    let (mut hinted, mut heard) = (false, false);
    loop {
        for entry in news.next().map_err(refuse)? {
            reader.print(&entry, out)?;
            heard = true;
        }
        // An entry was announced that we did not read: the session has just got its conversation.
        due |= hinted && !heard;
        // A process may write a last entry before it exits. The read above came after the verdict, so nothing
        // is missing.
        if ended {
            return Ok(Exit::Done);
        }
        if interrupt.came() {
            return Ok(Exit::Interrupted);
        }
        if due || asked.elapsed() >= if hints.are_given() { FALLBACK_INTERVAL } else { CHECK_INTERVAL } {
            let survey = fleet.survey(&Query::one(&session.key));
            (asked, due) = (Instant::now(), false);
            ended = survey.prove_ended(&session.key).is_some();
            // An agent at its empty prompt has no conversation yet; the first message creates one to follow.
            let moved = survey.sessions.iter().find(|seen| seen.key == session.key && seen.place != place);
            if let Some(moved) = moved {
                news = open(moved, usize::MAX)?;
                place.clone_from(&moved.place);
            }
            if ended || moved.is_some() {
                continue;
            }
        }
        match pause(&mut hints, &interrupt, out)? {
            Pause::ReaderLeft => return Ok(Exit::Done),
            Pause::Over(hint) => {
                due = hint.as_deref() == Some("end");
                hinted = hint.is_some();
            }
        }
    }
}

enum Pause {
    ReaderLeft,
    /// The pause is over. If the daemon announced something, this is the kind of its event.
    Over(Option<String>),
}

/// Waits until it is time to read again.
fn pause(hints: &mut Hints, interrupt: &Interrupt, out: &mut Output) -> Result<Pause, Failure> {
    let began = Instant::now();
    while hints.are_given() && began.elapsed() < FALLBACK_INTERVAL && !interrupt.came() {
        if out.reader_leaves_within(Duration::ZERO)? {
            return Ok(Pause::ReaderLeft);
        }
        if let Some(kind) = hints.next() {
            return Ok(Pause::Over(Some(kind)));
        }
    }
    // This also applies when the daemon has just gone away.
    if !hints.are_given() && out.reader_leaves_within(POLL_INTERVAL)? {
        return Ok(Pause::ReaderLeft);
    }
    Ok(Pause::Over(None))
}
