//! Reading everything a gateway lists. Nothing is concluded before the last page: a list that cannot be read to its
//! end is told as such.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::json;

use super::client::{Client, PATIENCE, READ};
use super::gateway::Gateway;
use super::rows::{Agents, Job, Jobs, Page, Row};
use super::session::Snapshot;
use super::trouble::Trouble;
use crate::Progress;

/// Mostly everything in one answer, which is then of one moment.
const PAGE: usize = 1000;
const JOBS_PAGE: usize = 200;
/// A gateway that always has more is not read for ever, nor is one whose pages are too full.
const MOST_PAGES: usize = 100;
const MOST_ROWS: usize = 50_000;
const LARGEST_LIST: usize = 64 << 20;
/// How often a list that moved while it was paged is read anew.
const TRIES: usize = 3;

/// What was heard, and what had to be left out.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) snapshot: Snapshot,
    /// The list itself is not whole.
    pub(super) left_out: Vec<String>,
    /// Something beside it is missing.
    pub(super) warnings: Vec<String>,
}

/// Of sessions that rest, a list of the live ones does not need the folders.
pub(super) fn read(
    gateway: &Gateway,
    live_only: bool,
    progress: &Progress,
) -> Result<(Client, Listing), Trouble> {
    // Who is late is given up after the patience of those who wait; a thread that was left behind ends soon after.
    let patience = progress.patience().map_or(PATIENCE, |patience| PATIENCE.min(patience * 2));
    let mut client = gateway.clone().patient_for(patience).connect(&[READ])?;
    wanted(progress)?;
    let mut listing = Listing::default();
    let Paged { rows, missing, cut_short } = rows(&mut client, progress, &mut listing.snapshot.at)?;
    if cut_short {
        let count = rows.len();
        listing
            .left_out
            .push(format!("the list has no end in sight, all after {count} session(s) was left out"));
    } else if missing > 0 {
        listing.left_out.push(format!("{missing} session(s) moved while the list was read"));
    }
    let at_work = rows.iter().any(|row| row.has_active_run == Some(true));
    let automated = rows.iter().any(Row::is_automation);
    let homeless = |row: &Row| row.workspace_dir.is_none() && row.spawned_cwd.is_none();
    let shown = |row: &Row| !live_only || row.has_active_run != Some(false);
    let homeless = rows.iter().any(|row| shown(row) && homeless(row));
    listing.snapshot.rows = rows;
    if automated {
        // After the rows: whoever ended meanwhile is then seen as ended.
        match jobs(&mut client, progress) {
            Ok(Some(jobs)) => listing.snapshot.jobs = Some(jobs),
            Ok(None) => listing.left_out.push("the cron jobs: the list has no end in sight".to_owned()),
            Err(trouble) => listing.left_out.push(format!("the cron jobs: {}", still_there(trouble)?)),
        }
    }
    if at_work && gateway.wants_approvals() {
        // A connection of its own: what becomes of it says nothing about the list, so it may cost neither the list nor the
        // time of those who wait for it. Without it nobody at work is said to be waiting, and everybody is told so.
        let time = progress.patience().map_or(PATIENCE, |patience| patience * 3 / 4);
        match gateway.approvals_within(time) {
            Ok(approvals) => listing.snapshot.approvals = Some(approvals),
            Err(trouble) => {
                listing.warnings.push(format!("who is at work may be waiting for an approval: {trouble}"));
            }
        }
        wanted(progress)?;
    }
    if homeless {
        let agents: Option<Agents> = optional(client.ask("agents.list", &json!({})), &mut listing.warnings)?;
        listing.snapshot.agents = agents.map(|list| list.agents).unwrap_or_default();
        wanted(progress)?;
    }
    Ok((client, listing))
}

/// All rows, each key once.
#[derive(Default)]
struct Paged {
    rows: Vec<Row>,
    /// How many are known to be missing.
    missing: usize,
    /// There were more than anybody reads.
    cut_short: bool,
}

fn rows(client: &mut Client, progress: &Progress, at: &mut Option<Timestamp>) -> Result<Paged, Trouble> {
    let mut read = Paged::default();
    for _ in 0..TRIES {
        // Two lists at once would be twice the memory.
        drop(read);
        read = rows_once(client, progress, at)?;
        if read.missing == 0 || read.cut_short {
            break;
        }
    }
    Ok(read)
}

fn rows_once(client: &mut Client, progress: &Progress, at: &mut Option<Timestamp>) -> Result<Paged, Trouble> {
    let method = "sessions.list";
    let mut rows: Vec<Row> = Vec::new();
    let mut known: HashSet<String> = HashSet::new();
    let mut moved = false;
    let (mut offset, mut total) = (0, None);
    let heard_before = client.heard();
    for _ in 0..MOST_PAGES {
        let params = json!({"limit": PAGE, "offset": offset});
        let page: Page = client.ask(method, &params)?;
        wanted(progress)?;
        *at = page.ts.map(|ts| ts.0);
        // A row that went between two pages moved another one out of sight: at least one may be missing.
        let fewer = total.zip(page.total_count).is_some_and(|(before, now)| now < before);
        moved |= fewer;
        total = page.total_count.or(total);
        rows.extend(page.sessions.into_iter().filter(|row| known.insert(row.key.clone())));
        match page.next_offset.filter(|_| page.has_more) {
            // Between two pages a row can move from the one to the other: the count tells.
            None if page.has_more => return Err(endless(method)),
            None => {
                let total = page.total_count.unwrap_or(rows.len());
                let missing = total.saturating_sub(rows.len()).max(usize::from(moved));
                return Ok(Paged { rows, missing, cut_short: false });
            }
            Some(next) if next <= offset => return Err(endless(method)),
            Some(_) if rows.len() >= MOST_ROWS || client.heard() - heard_before > LARGEST_LIST => break,
            Some(next) => offset = next,
        }
    }
    Ok(Paged { rows, missing: 0, cut_short: true })
}

/// Every job, or `None` when there are more than anybody reads: half of them prove nothing about an automation.
fn jobs(client: &mut Client, progress: &Progress) -> Result<Option<Vec<Job>>, Trouble> {
    let mut jobs: Vec<Job> = Vec::new();
    let mut offset = 0;
    let heard_before = client.heard();
    for _ in 0..MOST_PAGES {
        let params = json!({"includeDisabled": true, "limit": JOBS_PAGE, "offset": offset});
        let page: Jobs = client.ask("cron.list", &params)?;
        wanted(progress)?;
        jobs.extend(page.page);
        match page.next_offset.filter(|_| page.has_more) {
            None if page.has_more => break,
            None => return Ok(Some(jobs)),
            Some(next) if next <= offset || client.heard() - heard_before > LARGEST_LIST => break,
            Some(next) => offset = next,
        }
    }
    Ok(None)
}

/// An answer came; whether anybody still waits for the next one. Who gave up on a slow gateway leaves nobody behind who
/// goes on asking it.
pub(super) fn wanted(progress: &Progress) -> Result<(), Trouble> {
    progress.tick();
    if progress.is_given_up() { Err(Trouble::Unwanted) } else { Ok(()) }
}

/// What the list can do without: a refusal is a warning, a lost connection is not.
fn optional<T>(answer: Result<T, Trouble>, warnings: &mut Vec<String>) -> Result<Option<T>, Trouble> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(trouble) => {
            warnings.push(still_there(trouble)?);
            Ok(None)
        }
    }
}

/// The words of a refusal; everything else means that the gateway is gone, and nothing it said before counts.
fn still_there(trouble: Trouble) -> Result<String, Trouble> {
    match trouble {
        Trouble::Refused { .. } | Trouble::NoScope { .. } => Ok(trouble.to_string()),
        other => Err(other),
    }
}

fn endless(method: &str) -> Trouble {
    Trouble::Odd { during: method.to_owned(), what: "the list has no end".to_owned() }
}
