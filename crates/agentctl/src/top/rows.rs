//! The rows of the list: who they are, and in which order they stand. Pure.

use std::cmp::Reverse;
use std::sync::Arc;

use agentctl_model::{Outcome, Session, Status};
use jiff::Timestamp;

/// A session, wherever it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) host: String,
    pub(crate) adapter: String,
    pub(crate) root: String,
    pub(crate) id: String,
    /// Tells two sessions of one id apart.
    pub(crate) variant: Option<String>,
}

/// A session as it was last told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) session: Arc<Session>,
    /// The clock of its machine minus ours: ages are told by the clock of each.
    pub(crate) ahead: jiff::SignedDuration,
    /// Its machine or source is not heard since then: what is shown is that old.
    pub(crate) old: Option<Timestamp>,
}

impl Row {
    /// What the clock of its machine shows now.
    pub(crate) fn now(&self, now: Timestamp) -> Timestamp {
        now.checked_add(self.ahead).unwrap_or(now)
    }

    /// Since when it waits for a person.
    fn waits_since(&self) -> Option<Timestamp> {
        let pending = self.session.pending.iter().filter_map(|pending| pending.since).min();
        pending.or(self.session.since)
    }

    /// Where it belongs in the list: who needs a person, who works, who is ready, who cannot be known, and who has ended.
    fn rank(&self) -> u8 {
        match (self.session.status, self.session.outcome) {
            (Status::Waiting, _) => 0,
            (Status::Running, _) => 1,
            (Status::Idle, _) => 2,
            (Status::Unknown, _) => 3,
            (Status::Stopped, Some(Outcome::Failed | Outcome::Died)) => 4,
            (Status::Stopped, _) => 5,
        }
    }
}

/// The order in which rows belong: the longest wait first, and of all others the newest first.
pub(crate) fn sort(rows: &mut [&Row]) {
    rows.sort_by_cached_key(|row| {
        let since = if row.session.status == Status::Waiting {
            // One that does not say since when may wait longest.
            (row.waits_since().map_or(i64::MIN, Timestamp::as_second), Reverse(0))
        } else {
            let newest = if row.rank() < 4 { row.session.since } else { None };
            (0, Reverse(newest.or(row.session.updated_at).map_or(0, Timestamp::as_second)))
        };
        (row.rank(), since, row.key.clone())
    });
}

/// How many stand in which status.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) waiting: usize,
    pub(crate) running: usize,
    pub(crate) idle: usize,
    pub(crate) failed: usize,
    pub(crate) unknown: usize,
}

impl Counts {
    pub(crate) fn of<'r>(rows: impl Iterator<Item = &'r Row>) -> Self {
        let mut counts = Self::default();
        for row in rows {
            match row.rank() {
                0 => counts.waiting += 1,
                1 => counts.running += 1,
                2 => counts.idle += 1,
                3 => counts.unknown += 1,
                4 => counts.failed += 1,
                _ => {}
            }
        }
        counts
    }
}
