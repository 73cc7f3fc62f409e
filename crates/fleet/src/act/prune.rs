//! Taking away launch records that have had their time, and what killed launches left behind.
//!
//! Only what nobody holds is touched: a runner holds its folder, and whoever asked for a launch holds the answer.

use std::path::PathBuf;
use std::time::Duration;

use agentctl_model::SourceReport;
use jiff::Timestamp;

use crate::Fleet;
use crate::act::launch::clean_up;
use crate::keep::launches::{LaunchFolder, Record, Retention, Why, half_made};
use crate::read::query::Query;

/// How many old records one launch takes away beside its own work.
const ASIDE: usize = 20;

/// A record that was taken away, or would be.
#[derive(Debug, Clone)]
pub struct Pruned {
    pub path: PathBuf,
    /// `None` for one that was never written to its end.
    pub record: Option<Record>,
    pub why: Why,
}

impl Fleet {
    /// Everything that is to go, taken away unless it is a dry run.
    pub fn prune(&self, now: Timestamp, kept: Duration, dry_run: bool) -> Vec<Pruned> {
        let Some(launches) = self.launches.as_deref().filter(|launches| launches.is_dir()) else {
            return Vec::new();
        };
        let has_session = |record: &Record| self.has_session(record);
        let retention =
            Retention { kernel: self.kernel.as_ref(), now, kept, note: !dry_run, has_session: &has_session };
        let gone = |folder: &LaunchFolder, record: Option<Record>, why: Why| Pruned {
            path: folder.path().to_owned(),
            record,
            why,
        };
        let mut pruned = Vec::new();
        for expired in self.ledger().expired(&retention) {
            if !dry_run {
                match expired.why {
                    // Its session and its working tree are the user's.
                    Why::Old => drop(expired.folder.remove()),
                    _ => clean_up(self, &expired.folder, &expired.record),
                }
            }
            pruned.push(gone(&expired.folder, Some(expired.record), expired.why));
        }
        let half = half_made(launches, !dry_run);
        pruned.extend(half.iter().map(|folder| gone(folder, None, Why::HalfMade)));
        pruned
    }

    /// A few records that are old, silently, beside something else.
    pub fn forget_old_launches(&self, now: Timestamp, kept: Duration) {
        let ledger = self.ledger();
        let retention =
            Retention { kernel: self.kernel.as_ref(), now, kept, note: true, has_session: &|_| true };
        let old = ledger.expired(&retention).filter(|expired| expired.why == Why::Old);
        for expired in old.take(ASIDE) {
            // What cannot be removed now is tried again by the next one.
            let _ = expired.folder.remove();
        }
    }

    /// Whether there is, or may be, a session for this launch.
    fn has_session(&self, record: &Record) -> bool {
        let Some((id, query)) = record.session_id.as_ref().zip(Query::of_launch(record)) else {
            return false;
        };
        let survey = self.survey(&query);
        // A source that was not heard, or is not read any more, says nothing.
        survey.sources.is_empty()
            || survey.sources.iter().any(SourceReport::is_incomplete)
            || survey.sessions.iter().any(|surveyed| surveyed.key.id == *id)
    }
}
