//! Lists that come in pages. Nothing is concluded before the last page, and no list is read endlessly.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::connection::Connection;
use super::error::GatewayError;
use super::rows::{Job, Jobs, Page, Row};
use crate::Progress;

/// Usually this returns everything in one response, which then describes one moment.
const PAGE: usize = 1000;
const JOBS_PAGE: usize = 200;
/// A gateway that always has more is not read endlessly, nor is one whose pages are too large.
const MOST_PAGES: usize = 100;
const MOST_ROWS: usize = 50_000;
const LARGEST_LIST: usize = 64 << 20;
/// How often a list that changed between its pages is read again.
const TRIES: usize = 3;

/// Rows of `sessions.list`, each key once.
#[derive(Default)]
pub(crate) struct Paged {
    pub(crate) rows: Vec<Row>,
    /// How many rows are known to be missing.
    pub(crate) missing: usize,
    /// There were more rows than are read.
    pub(crate) cut_short: bool,
    /// The time of the list by the gateway's own clock.
    pub(crate) at: Option<Timestamp>,
}

/// All matching rows: `filter` is an object of the gateway's own conditions.
pub(crate) fn rows(
    connection: &mut Connection,
    filter: &Value,
    progress: &Progress,
) -> Result<Paged, GatewayError> {
    let mut read = Paged::default();
    for _ in 0..TRIES {
        // Two lists at once would take twice the memory.
        drop(read);
        read = rows_once(connection, filter, progress)?;
        if read.missing == 0 || read.cut_short {
            break;
        }
    }
    Ok(read)
}

fn rows_once(
    connection: &mut Connection,
    filter: &Value,
    progress: &Progress,
) -> Result<Paged, GatewayError> {
    let method = "sessions.list";
    let mut read = Paged::default();
    let mut known: HashSet<String> = HashSet::new();
    let mut moved = false;
    let (mut offset, mut total) = (0, None);
    let received_before = connection.received();
    for _ in 0..MOST_PAGES {
        let mut params = filter.clone();
        params["limit"] = json!(PAGE);
        params["offset"] = json!(offset);
        let page: Page = connection.ask(method, &params)?;
        record_progress(progress)?;
        read.at = page.ts.map(|ts| ts.0);
        // A row that disappeared between two pages shifted another one out of sight: at least one may be missing.
        let fewer = total.zip(page.total_count).is_some_and(|(before, now)| now < before);
        moved |= fewer;
        total = page.total_count.or(total);
        read.rows.extend(page.sessions.into_iter().filter(|row| known.insert(row.key.clone())));
        match page.next_offset.filter(|_| page.has_more) {
            // Between two pages a row can move from one to the other: the count shows it.
            None if page.has_more => return Err(endless(method)),
            None => {
                let total = page.total_count.unwrap_or(read.rows.len());
                read.missing = total.saturating_sub(read.rows.len()).max(usize::from(moved));
                return Ok(read);
            }
            Some(next) if next <= offset => return Err(endless(method)),
            Some(_)
                if read.rows.len() >= MOST_ROWS || connection.received() - received_before > LARGEST_LIST =>
            {
                break;
            }
            Some(next) => offset = next,
        }
    }
    Ok(Paged { cut_short: true, ..read })
}

/// Every job, or `None` when there are more than are read: an incomplete list proves nothing about an automation.
pub(crate) fn jobs(
    connection: &mut Connection,
    progress: &Progress,
) -> Result<Option<Vec<Job>>, GatewayError> {
    let mut jobs: Vec<Job> = Vec::new();
    let mut offset = 0;
    let received_before = connection.received();
    for _ in 0..MOST_PAGES {
        let params = json!({"includeDisabled": true, "limit": JOBS_PAGE, "offset": offset});
        let page: Jobs = connection.ask("cron.list", &params)?;
        record_progress(progress)?;
        jobs.extend(page.page);
        match page.next_offset.filter(|_| page.has_more) {
            None if page.has_more => break,
            None => return Ok(Some(jobs)),
            Some(next) if next <= offset || connection.received() - received_before > LARGEST_LIST => break,
            Some(next) => offset = next,
        }
    }
    Ok(None)
}

/// Records that a response came, and fails if the caller has given up, so that nothing goes on asking a slow gateway
/// for nobody.
pub(crate) fn record_progress(progress: &Progress) -> Result<(), GatewayError> {
    progress.tick();
    if progress.is_given_up() { Err(GatewayError::Unwanted) } else { Ok(()) }
}

fn endless(method: &str) -> GatewayError {
    GatewayError::Odd { during: method.to_owned(), what: "the list has no end".to_owned() }
}
