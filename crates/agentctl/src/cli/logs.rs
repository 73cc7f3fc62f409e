//! `agentctl logs ID`: the conversation, and with `-f` as it goes on.

use std::time::{Duration, Instant};

use agentctl_fleet::{Purpose, Query};
use agentctl_model::{Status, Surveyed};

use super::peek::{Reader, print_last};
use super::target::Target;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::Asking;
use crate::link::hints::Hints;
use crate::output::Output;
use crate::surroundings::Surroundings;

/// How often new entries are looked for, and how often the fleet is asked whether the session still lives.
const LOOK: Duration = Duration::from_millis(150);
const ASK: Duration = Duration::from_secs(1);
/// The same for both while a daemon tells of what is added and of the end.
const NET: Duration = Duration::from_secs(5);

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
    /// Go on until the session has stopped
    #[arg(short, long)]
    follow: bool,
    /// One JSON object per entry and line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let asking = Asking::open(surroundings)?;
    let (found, _) = args.target.find(Purpose::Read, &asking, surroundings, out)?;
    let mut reader = Reader::new(args.json, surroundings, out);
    if args.follow {
        return follow(&asking, &found, args.count, &mut reader, out);
    }
    print_last(&asking.fleet, &found, args.count, &mut reader, out)?;
    Ok(Exit::Done)
}

fn follow(
    asking: &Asking,
    session: &Surveyed,
    backlog: usize,
    reader: &mut Reader<'_>,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let refuse = |error: agentctl_adapters::ReadError| Failure::new(Exit::Failed, error.to_string());
    let interrupt = Interrupt::listen();
    let fleet = &asking.fleet;
    let open = |session: &Surveyed, backlog: usize| {
        let news = fleet.follow(session, backlog).map_err(refuse)?;
        news.ok_or_else(|| Failure::new(Exit::Failed, "this session keeps no records that could be followed"))
    };
    let mut news = open(session, backlog)?;
    let mut place = session.place.clone();
    let mut ended = session.session.status == Status::Stopped;
    let mut hints = if ended { Hints::default() } else { Hints::of_messages(asking, session) };
    // What came to its end before there were hints, nobody tells of.
    let (mut asked, mut due) = (Instant::now(), hints.are_given());
    let (mut hinted, mut heard) = (false, false);
    loop {
        for entry in news.next().map_err(refuse)? {
            reader.print(&entry, out)?;
            heard = true;
        }
        // What is added where we do not read: it got its conversation just now.
        due |= hinted && !heard;
        // Whoever ended may have written a last word before; the look above came after the verdict.
        if ended {
            return Ok(Exit::Done);
        }
        if interrupt.came() {
            return Ok(Exit::Interrupted);
        }
        if due || asked.elapsed() >= if hints.are_given() { NET } else { ASK } {
            let survey = fleet.survey(&Query::one(&session.key));
            (asked, due) = (Instant::now(), false);
            ended = survey.prove_ended(&session.key).is_some();
            // An agent at its empty prompt has no conversation yet; with the first message there is one to follow.
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
    /// Something may have been added, if the daemon told of it with its word.
    Over(Option<String>),
}

/// Until it is time to look again.
fn pause(hints: &mut Hints, interrupt: &Interrupt, out: &mut Output) -> Result<Pause, Failure> {
    let began = Instant::now();
    while hints.are_given() && began.elapsed() < NET && !interrupt.came() {
        if out.reader_leaves_within(Duration::ZERO)? {
            return Ok(Pause::ReaderLeft);
        }
        if let Some(kind) = hints.next() {
            return Ok(Pause::Over(Some(kind)));
        }
    }
    // Also when the daemon went away just now.
    if !hints.are_given() && out.reader_leaves_within(LOOK)? {
        return Ok(Pause::ReaderLeft);
    }
    Ok(Pause::Over(None))
}
