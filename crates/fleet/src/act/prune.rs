//! Removes expired launch records, and what killed launches left behind.
//!
//! Only what no process holds is touched: a runner holds its directory, and the caller of a launch holds the result.

use std::path::PathBuf;
use std::time::Duration;

use agentctl_model::SourceReport;
use jiff::Timestamp;

use crate::Fleet;
use crate::act::launch::clean_up;
use crate::keep::launches::{LaunchFolder, PruneReason, Record, Retention, half_made};
use crate::read::query::Query;

/// How many old records one launch removes in passing.
const REMOVED_IN_PASSING: usize = 20;

/// A record that was removed, or would be.
#[derive(Debug, Clone)]
pub struct Pruned {
    pub path: PathBuf,
    /// `None` for one that was never completely written.
    pub record: Option<Record>,
    pub why: PruneReason,
}

impl Fleet {
    /// Returns everything that has expired, and removes it unless this is a dry run.
    pub fn prune(&self, now: Timestamp, kept: Duration, dry_run: bool) -> Vec<Pruned> {
        let Some(launches) = self.launches.as_deref().filter(|launches| launches.is_dir()) else {
            return Vec::new();
        };
        let has_session = |record: &Record| self.has_session(record);
        let retention =
            Retention { kernel: self.kernel.as_ref(), now, kept, note: !dry_run, has_session: &has_session };
        let gone = |folder: &LaunchFolder, record: Option<Record>, why: PruneReason| Pruned {
            path: folder.path().to_owned(),
            record,
            why,
        };
        let mut pruned = Vec::new();
        for expired in self.ledger().expired(&retention) {
            if !dry_run {
                match expired.why {
                    // Its session and its worktree belong to the user.
                    PruneReason::Old => drop(expired.folder.remove()),
                    _ => clean_up(self, &expired.folder, &expired.record),
                }
            }
            pruned.push(gone(&expired.folder, Some(expired.record), expired.why));
        }
        let half = half_made(launches, !dry_run);
        pruned.extend(half.iter().map(|folder| gone(folder, None, PruneReason::HalfMade)));
        pruned
    }

    /// Silently removes a few old records in passing.
    pub fn forget_old_launches(&self, now: Timestamp, kept: Duration) {
        let ledger = self.ledger();
        let retention =
            Retention { kernel: self.kernel.as_ref(), now, kept, note: true, has_session: &|_| true };
        let old = ledger.expired(&retention).filter(|expired| expired.why == PruneReason::Old);
        for expired in old.take(REMOVED_IN_PASSING) {
            // If it cannot be removed now, the next launch tries again.
            let _ = expired.folder.remove();
        }
    }

    /// Whether there is, or may be, a session for this launch.
    fn has_session(&self, record: &Record) -> bool {
        let Some((id, query)) = record.session_id.as_ref().zip(Query::of_launch(record)) else {
            return false;
        };
        let survey = self.survey(&query);
        // A source that was not read completely, or is no longer configured, proves nothing.
        survey.sources.is_empty()
            || survey.sources.iter().any(SourceReport::is_incomplete)
            || survey.sessions.iter().any(|surveyed| surveyed.key.id == *id)
    }
}
