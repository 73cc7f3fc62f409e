//! The requests that a question needs: the active sessions, the named ones, or all. The cost depends on the question
//! and not on what the gateway stores; what is left out is reported.

use std::collections::HashSet;

use serde_json::json;

use super::client::connection::{Connection, READ, REQUEST_TIMEOUT};
use super::client::error::GatewayError;
use super::client::gateway_client::GatewayClient;
use super::client::paging::{self, Paged, record_progress};
use super::client::rows::{Agents, Job, Row};
use super::session::Snapshot;
use crate::{Progress, Reach};

/// More names than this are looked up by reading everything.
const FEW: usize = 8;

/// The rows that were read, and what had to be left out.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) snapshot: Snapshot,
    /// The list itself is incomplete.
    pub(super) left_out: Vec<String>,
    /// Something beside the list is missing.
    pub(super) warnings: Vec<String>,
}

pub(super) fn read(
    gateway: &GatewayClient,
    reach: &Reach<'_>,
    progress: &Progress,
) -> Result<(Connection, Listing), GatewayError> {
    // A late gateway is given up on after the caller's timeout; a thread that was left behind ends soon after.
    let timeout = progress.timeout().map_or(REQUEST_TIMEOUT, |timeout| REQUEST_TIMEOUT.min(timeout * 2));
    let mut connection = gateway.clone().with_timeout(timeout).connect(&[READ])?;
    record_progress(progress)?;
    let mut listing = Listing::default();
    let live_only = matches!(reach, Reach::Live(_));
    match reach {
        Reach::Live(_) => active_sessions(&mut connection, &mut listing, progress)?,
        Reach::Ids(ids) => named_sessions(&mut connection, ids, &mut listing, progress)?,
        Reach::All { .. } => all_sessions(&mut connection, &mut listing, progress)?,
    }
    let rows = &listing.snapshot.rows;
    let any_active = rows.iter().any(|row| row.has_active_run == Some(true));
    let has_no_directory = |row: &Row| row.workspace_dir.is_none() && row.spawned_cwd.is_none();
    // A list of live sessions does not need the directories of idle ones.
    let shown = |row: &Row| !live_only || row.has_active_run != Some(false);
    let directories_missing = rows.iter().any(|row| shown(row) && has_no_directory(row));
    if any_active && gateway.wants_approvals() {
        // This uses its own connection: its fate says nothing about the list, so it may cost neither the list nor the
        // time of the callers who wait for it. Without it no working session is reported as waiting, and a warning
        // tells everybody.
        let time = progress.timeout().map_or(REQUEST_TIMEOUT, |timeout| timeout * 3 / 4);
        match gateway.approvals_within(time) {
            Ok(approvals) => listing.snapshot.approvals = Some(approvals),
            Err(error) => {
                listing.warnings.push(format!("who is at work may be waiting for an approval: {error}"));
            }
        }
        record_progress(progress)?;
    }
    if directories_missing {
        let agents: Option<Agents> =
            optional(connection.ask("agents.list", &json!({})), &mut listing.warnings)?;
        listing.snapshot.agents = agents.map(|list| list.agents).unwrap_or_default();
        record_progress(progress)?;
    }
    Ok((connection, listing))
}

fn all_sessions(
    connection: &mut Connection,
    listing: &mut Listing,
    progress: &Progress,
) -> Result<(), GatewayError> {
    let read = paging::rows(connection, &json!({}), progress)?;
    listing.take(read);
    listing.jobs_of_automations(connection, progress)
}

/// The active sessions: `activeOnly` makes the gateway itself select the rows whose `hasActiveRun` is true. A job
/// runs from a little before its row says so to a little after; those rows are looked up by the job.
fn active_sessions(
    connection: &mut Connection,
    listing: &mut Listing,
    progress: &Progress,
) -> Result<(), GatewayError> {
    let read = match paging::rows(connection, &json!({"activeOnly": true}), progress) {
        // A gateway that does not know this parameter has to list everything.
        Err(GatewayError::Refused { refusal, .. }) if refusal.code == "INVALID_REQUEST" => {
            return all_sessions(connection, listing, progress);
        }
        other => other?,
    };
    listing.take(read);
    match paging::jobs(connection, progress) {
        Ok(Some(jobs)) => listing.snapshot.jobs = Some(jobs),
        // It is then unknown which automations are active, and a session that is not known to be idle belongs in the
        // list.
        Ok(None) | Err(GatewayError::Refused { .. } | GatewayError::NoScope { .. }) => {
            listing.snapshot = Snapshot::default();
            return all_sessions(connection, listing, progress);
        }
        Err(error) => return Err(error),
    }
    let unseen = listing.running_jobs_without_row();
    if unseen.len() > FEW {
        let read = paging::rows(connection, &json!({}), progress)?;
        listing.take(read);
        return Ok(());
    }
    for job in unseen {
        let read = paging::rows(connection, &json!({"search": job}), progress)?;
        listing.take(Paged {
            rows: read.rows.into_iter().filter(|row| row.job_id() == Some(&job)).collect(),
            ..read
        });
    }
    Ok(())
}

/// The sessions whose keys begin with these prefixes. A search returns every key that contains the text, and others,
/// which do no harm. Only the whole list can prove that a session is gone.
fn named_sessions(
    connection: &mut Connection,
    ids: &[String],
    listing: &mut Listing,
    progress: &Progress,
) -> Result<(), GatewayError> {
    let can_be_searched = |id: &String| !id.is_empty() && id.trim() == id;
    if ids.len() > FEW || !ids.iter().all(can_be_searched) {
        return all_sessions(connection, listing, progress);
    }
    for id in ids {
        let read = paging::rows(connection, &json!({"search": id}), progress)?;
        let found = read.rows.iter().any(|row| row.key.starts_with(id.as_str()));
        if !found && id.starts_with("agent:") {
            listing.snapshot = Snapshot::default();
            return all_sessions(connection, listing, progress);
        }
        listing.take(read);
    }
    listing.jobs_of_automations(connection, progress)
}

impl Listing {
    /// Adds the rows that were read; rows that are already known stay.
    fn take(&mut self, read: Paged) {
        let Paged { rows, missing, cut_short, at } = read;
        if cut_short {
            let count = rows.len();
            let words = format!("the list has no end in sight, all after {count} session(s) was left out");
            self.left_out.push(words);
        } else if missing > 0 {
            self.left_out.push(format!("{missing} session(s) moved while the list was read"));
        }
        self.snapshot.at = at.or(self.snapshot.at);
        let known: HashSet<String> = self.snapshot.rows.iter().map(|row| row.key.clone()).collect();
        self.snapshot.rows.extend(rows.into_iter().filter(|row| !known.contains(&row.key)));
    }

    /// Reads the jobs after the rows, so that an automation that ended meanwhile is seen as ended.
    fn jobs_of_automations(
        &mut self,
        connection: &mut Connection,
        progress: &Progress,
    ) -> Result<(), GatewayError> {
        if !self.snapshot.rows.iter().any(Row::is_automation) {
            return Ok(());
        }
        match paging::jobs(connection, progress) {
            Ok(Some(jobs)) => self.snapshot.jobs = Some(jobs),
            Ok(None) => self.left_out.push("the cron jobs: the list has no end in sight".to_owned()),
            Err(error) => self.left_out.push(format!("the cron jobs: {}", refusal_text(error)?)),
        }
        Ok(())
    }

    fn running_jobs_without_row(&self) -> Vec<String> {
        let jobs = self.snapshot.jobs.iter().flatten().filter(|job| job.is_running());
        let is_seen = |job: &Job| self.snapshot.rows.iter().any(|row| row.job_id() == Some(&job.id));
        jobs.filter(|job| !is_seen(job)).map(|job| job.id.clone()).collect()
    }
}

/// For parts that the list can do without: a refusal is a warning, a lost connection is not.
fn optional<T>(
    answer: Result<T, GatewayError>,
    warnings: &mut Vec<String>,
) -> Result<Option<T>, GatewayError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => {
            warnings.push(refusal_text(error)?);
            Ok(None)
        }
    }
}

/// The text of a refusal; every other error means that the gateway is gone, and nothing it sent before counts.
fn refusal_text(error: GatewayError) -> Result<String, GatewayError> {
    match error {
        GatewayError::Refused { .. } | GatewayError::NoScope { .. } => Ok(error.to_string()),
        other => Err(other),
    }
}
