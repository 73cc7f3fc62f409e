//! `agentctl snapshot FILE`: what an answer about sessions rests on, as one file to give to others.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use agentctl_fleet::Purpose;
use agentctl_model::{ErrorKind, SessionKey, text};
use agentctl_snapshot::NotCarried;
use agentctl_snapshot::redact::Redactor;
use agentctl_snapshot::take::{Circumstances, Selection, Snapshot, take};
use clap::builder::NonEmptyStringValueParser;
use clap_complete::engine::ArgValueCompleter;
use schemars::JsonSchema;
use serde::Serialize;

use super::complete;
use super::host_args::{HostArgs, only_there};
use super::target::{Machines, NarrowingArgs};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::json;
use crate::render::time::Since;
use crate::surroundings::Surroundings;

/// Pack what the answers about sessions rest on into one file, for a bug report
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl snapshot wrong.snapshot 5f0c       one session\n  \
    agentctl snapshot all.snapshot -a           everything `list -a` shows\n  \
    agentctl --replay wrong.snapshot list -a    what this machine would have said\n\n\
    The file holds the agents' own records and what the kernel said of their \
    processes. Texts, names and paths in it are replaced by filler of the same \
    shape; record types, ids, times and counters stay. What was taken is shown \
    before anything is written.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    /// The file to write; it must not exist yet
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// These sessions; without any those that live
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::sessions))]
    ids: Vec<String>,
    /// Also stopped sessions of the last 7 days
    #[arg(short, long, conflicts_with = "ids")]
    all: bool,
    /// How far back stopped sessions are taken: 30d, 12h, an RFC 3339 time, or `all` (implies --all)
    #[arg(long, value_name = "TIME", value_parser = Since::parse, conflicts_with = "ids")]
    since: Option<Since>,
    /// Leave texts, names and paths as they are
    #[arg(long)]
    with_text: bool,
    /// Write it without asking
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    narrowed: NarrowingArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// What was taken, as one JSON object
    #[arg(long)]
    json: bool,
}

/// What `snapshot --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Taken {
    file: String,
    sessions: Vec<TakenSession>,
    /// How many records of agents there are, and how many bytes they have.
    records: usize,
    bytes: u64,
    /// How many processes there are.
    processes: usize,
    /// Whether texts, names and paths were replaced.
    redacted: bool,
    /// What the answers rested on and is not in the file.
    not_carried: Vec<NotCarried>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TakenSession {
    id: String,
    adapter: String,
    status: agentctl_model::Status,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    args.hosts.only_here(surroundings, "snapshot")?;
    let is_asked = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !args.yes && !is_asked {
        let failure = Failure::new(ErrorKind::Usage, "nobody can be asked whether the file may be written");
        return Err(failure.hint("--yes says so"));
    }
    let file = surroundings.meant(&args.file);
    if file.symlink_metadata().is_ok() {
        let failure =
            Failure::new(ErrorKind::Refused, format!("{} exists already", surroundings.shown(&file)));
        return Err(failure.hint("choose another name"));
    }
    let fleet = surroundings.fleet()?;
    let selection = selection(args, &fleet, surroundings, out)?;
    let redactor = (!args.with_text).then(new_redactor).transpose()?;
    let of = Circumstances {
        environ: &surroundings.environ,
        home: surroundings.home.clone(),
        now: surroundings.now(),
        redactor: redactor.as_ref(),
    };
    let snapshot = take(&fleet, &selection, &of)?;
    let taken = taken(&snapshot, &surroundings.shown(&file));
    if !args.json || !args.yes {
        show(&taken, out);
    }
    if !args.yes && !agrees(&taken.file)? {
        return Err(Failure::new(ErrorKind::Refused, "nothing was written"));
    }
    let bytes = snapshot.pack()?;
    agentctl_files::write_private(&file, &bytes).map_err(|error| {
        Failure::new(ErrorKind::Failed, format!("{}: {error}", surroundings.shown(&file)))
    })?;
    if args.json {
        json::answer(out, &taken)?;
    } else {
        let size = bytes.len().div_ceil(1024);
        writeln!(
            out,
            "{} ({size} KiB); `agentctl --replay {} list -a` reads it",
            taken.file,
            text::shell_word(&taken.file)
        )?;
    }
    Ok(Exit::Done)
}

fn selection(
    args: &Args,
    fleet: &agentctl_fleet::Fleet,
    surroundings: &Surroundings,
    out: &Output,
) -> Result<Selection, Failure> {
    if args.ids.is_empty() {
        return Ok(match args.since {
            Some(since) => Selection::All(since),
            None if args.all => Selection::All(Since::DEFAULT),
            None => Selection::Live,
        });
    }
    let machines = Machines::of(&args.hosts, Purpose::Read, surroundings)?;
    let mut keys: Vec<SessionKey> = Vec::new();
    for id in &args.ids {
        let located = args.narrowed.locate(id, Purpose::Read, &machines, fleet, surroundings, out)?;
        if let Some(far) = &located.far {
            return Err(only_there(&far.name, "snapshot"));
        }
        if !keys.contains(&located.found.key) {
            keys.push(located.found.key);
        }
    }
    Ok(Selection::These(keys))
}

fn new_redactor() -> Result<Redactor, Failure> {
    Ok(Redactor::new(agentctl_files::kernel::random()?))
}

fn taken(snapshot: &Snapshot, file: &str) -> Taken {
    let manifest = &snapshot.manifest;
    let sessions = snapshot.sessions.iter().map(|one| TakenSession {
        id: one.key.id.clone(),
        adapter: one.key.adapter.clone(),
        status: one.session.status,
    });
    Taken {
        file: file.to_owned(),
        sessions: sessions.collect(),
        records: manifest.files.len(),
        bytes: snapshot.bytes(),
        processes: manifest.kernel.processes.len(),
        redacted: manifest.redacted,
        not_carried: manifest.not_carried.clone(),
    }
}

/// Says what would be written, to the person who is asked.
fn show(taken: &Taken, out: &mut Output) {
    let mut lines: Vec<String> = Vec::new();
    for session in &taken.sessions {
        lines.push(format!("  {}  {}", text::one_line(&session.id), text::one_line(&session.adapter)));
    }
    let sessions = text::counted(taken.sessions.len(), "session", "sessions");
    let records = text::counted(taken.records, "record", "records");
    let processes = text::counted(taken.processes, "process", "processes");
    lines.push(format!("{sessions}, {records} of {} KiB, {processes}", taken.bytes.div_ceil(1024)));
    let texts = if taken.redacted {
        "texts, names and paths are replaced by filler"
    } else {
        "WITH every text, name and path in them"
    };
    lines.push(texts.to_owned());
    for missing in &taken.not_carried {
        lines.push(format!("not in it: {}: {}", text::one_line(&missing.what), missing.why));
    }
    out.beside(lines);
}

fn agrees(file: &str) -> io::Result<bool> {
    write!(io::stderr(), "write {file}? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Warns of what the snapshot does not hold.
pub(super) fn warn_of_what_is_missing(surroundings: &Surroundings, out: &mut Output) {
    let Some(replay) = &surroundings.replay else { return };
    for missing in &replay.manifest.not_carried {
        out.warn(&format!(
            "the snapshot does not hold {}: {}",
            text::one_line(&missing.what),
            text::one_line(&missing.why)
        ));
    }
    let cut = replay.manifest.files.iter().filter(|file| file.left_out > 0).count();
    if cut > 0 {
        let records = text::counted(cut, "record", "records");
        out.warn(&format!("the snapshot holds only both ends of {records}, so totals may differ"));
    }
}
