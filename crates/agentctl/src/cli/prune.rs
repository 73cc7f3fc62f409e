//! `agentctl prune`: removes expired launch records, and what killed launches left behind.

use std::io::Write;
use std::path::Path;

use agentctl_fleet::{EndedServer, Pruned};
use agentctl_model::text;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::host_args::HostArgs;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::sessions::short_ids;
use crate::render::style::Tone;
use crate::render::table::{Cell, Column, Table};
use crate::render::{json, time};
use crate::surroundings::Surroundings;

/// Remove launch records that have expired, and what killed launches left behind
#[derive(Debug, clap::Args)]
#[command(after_help = "A record is kept for a time after its agent has ended: 7d, or what `launches` of \
    [retention] in config.toml says. Each launch removes a few old ones by itself. Sessions, their transcripts and \
    working trees are not touched; only what a launch made that was killed before it had a session is undone, \
    unless somebody has worked there. A private server whose runner is gone is ended once nobody has talked to its \
    session for its --idle-timeout.")]
pub(crate) struct Args {
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    hosts: HostArgs,
    /// One JSON object: dryRun, records, servers
    #[arg(long)]
    json: bool,
}

/// What `prune --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    dry_run: bool,
    /// Removed, or in a dry run to be removed.
    records: Vec<Entry>,
    /// Private servers without a runner whose idle timeout was over: ended, or in a dry run to be ended.
    servers: Vec<Server>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Server {
    pid: u32,
    adapter: String,
    launch: String,
    session_id: Option<String>,
    /// Why it is still there; `null` if it ended.
    error: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Entry {
    path: String,
    /// `null` for a record that was never written to its end, as are all of the following.
    id: Option<String>,
    adapter: Option<String>,
    session_id: Option<String>,
    launched_at: Option<Timestamp>,
    /// In words.
    why: &'static str,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    args.hosts.only_here(surroundings, "prune")?;
    let settings = surroundings.settings()?;
    // A mistake in the settings must not remove records that were to be kept longer.
    if let Some(mistake) = settings.invalid(&["retention.launches"]) {
        return Err(surroundings.because_of(mistake));
    }
    let (now, kept) = (surroundings.now(), settings.launches_kept.value);
    let fleet = surroundings.fleet_under(&settings);
    // The servers go first, so that their records begin to expire.
    let servers = fleet.end_unattended(now, &surroundings.caller(&settings)?, args.dry_run);
    let pruned = fleet.prune(now, kept, args.dry_run);
    // A record that could not be removed still exists.
    let stayed = if args.dry_run { 0 } else { pruned.iter().filter(|pruned| pruned.path.exists()).count() };
    let left = servers.iter().filter(|server| server.error.is_some()).count();
    let exit = if stayed + left == 0 { Exit::Done } else { Exit::Failed };
    if args.json {
        let records = pruned.iter().map(entry).collect();
        let servers = servers.iter().map(server).collect();
        json::answer(out, &Answer { dry_run: args.dry_run, records, servers })?;
    } else {
        tell_servers(&servers, args.dry_run, out)?;
        if servers.is_empty() || !pruned.is_empty() {
            tell(&pruned, args.dry_run, surroundings, out)?;
        }
    }
    if stayed > 0 {
        out.error(&format!("{stayed} of them could not be removed"));
    }
    Ok(exit)
}

fn server(ended: &EndedServer) -> Server {
    let record = &ended.server.record;
    Server {
        pid: ended.server.process.pid,
        adapter: record.order.adapter.clone(),
        launch: record.id.clone(),
        session_id: record.session_id.clone(),
        error: ended.error.clone(),
    }
}

fn tell_servers(servers: &[EndedServer], dry_run: bool, out: &mut Output) -> Result<(), Failure> {
    for ended in servers {
        match &ended.error {
            Some(_) => out.error(&text::one_line(&ended.describe())),
            None if dry_run => writeln!(out, "would be ended: {}", text::one_line(&waiting(ended)))?,
            None => writeln!(out, "{}", text::one_line(&ended.describe()))?,
        }
    }
    Ok(())
}

fn waiting(ended: &EndedServer) -> String {
    let record = &ended.server.record;
    format!("{} server {} of launch {}", record.order.adapter, ended.server.process.pid, record.id)
}

fn entry(pruned: &Pruned) -> Entry {
    let record = pruned.record.as_ref();
    Entry {
        path: pruned.path.to_string_lossy().into_owned(),
        id: record.map(|record| record.id.clone()),
        adapter: record.map(|record| record.order.adapter.clone()),
        session_id: record.and_then(|record| record.session_id.clone()),
        launched_at: record.map(|record| record.launched_at),
        why: pruned.why.words(),
    }
}

fn tell(
    pruned: &[Pruned],
    dry_run: bool,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<(), Failure> {
    if pruned.is_empty() {
        writeln!(out, "nothing to prune")?;
        return Ok(());
    }
    let mut table = Table::new(vec![
        Column::whole("LAUNCH"),
        Column::whole("AGENT"),
        Column::whole("SESSION").expendable(1),
        Column::whole("AGE"),
        Column::whole("WHY"),
    ]);
    let session = |one: &Pruned| one.record.as_ref().and_then(|record| record.session_id.clone());
    let sessions: Vec<String> = pruned.iter().map(|one| session(one).unwrap_or_default()).collect();
    for (one, session) in pruned.iter().zip(short_ids(sessions.iter().map(String::as_str))) {
        let record = one.record.as_ref();
        let name = one.path.file_name().map_or(one.path.as_path(), Path::new);
        let age = record.map(|record| time::ago(surroundings.now(), record.launched_at));
        table.row(vec![
            Cell::plain(text::one_line(&name.to_string_lossy())),
            Cell::plain(record.map(|record| text::one_line(&record.order.adapter)).unwrap_or_default()),
            Cell::plain(text::one_line(session)),
            Cell::plain(age.unwrap_or_default()),
            Cell::new(one.why.words(), Tone::Dim),
        ]);
    }
    for line in table.lines(out.width(), out.paint) {
        writeln!(out, "{line}")?;
    }
    let records = text::counted(pruned.len(), "launch record", "launch records");
    let done = if dry_run { "would be removed" } else { "removed" };
    writeln!(out, "{}", out.paint.dim(&format!("{records} {done}")))?;
    Ok(())
}
