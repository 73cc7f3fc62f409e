//! Which launch records have had their time. Pure but for looking at the folder and the process.

use std::path::Path;
use std::time::Duration;

use agentctl_model::Observed;
use agentctl_process::Kernel;
use jiff::Timestamp;

use super::folder::LaunchFolder;
use super::ledger::Ledger;
use super::record::{Exit, Record};

/// A record that is to go, and why.
#[derive(Debug)]
pub struct Expired {
    pub folder: LaunchFolder,
    pub record: Record,
    pub why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Its process ended longer ago than records are kept.
    Old,
    /// Its runner went away before there was a session.
    Leftover,
}

impl Why {
    pub fn words(self) -> &'static str {
        match self {
            Self::Old => "ended long ago",
            Self::Leftover => "left behind by a launch that was killed before it had a session",
        }
    }
}

impl Ledger {
    /// The records that are to go. One whose process went unseen is given the time from now on, which `note` says.
    pub fn expired(&self, kernel: &dyn Kernel, now: Timestamp, kept: Duration, note: bool) -> Vec<Expired> {
        let judged = self.entries().iter().filter_map(|(folder, record)| {
            let why = judge(folder, record, kernel, now, kept, note)?;
            Some(Expired { folder: folder.clone(), record: record.clone(), why })
        });
        judged.collect()
    }
}

fn judge(
    folder: &LaunchFolder,
    record: &Record,
    kernel: &dyn Kernel,
    now: Timestamp,
    kept: Duration,
    note: bool,
) -> Option<Why> {
    // A runner at work holds its folder; what cannot be locked is nobody's to remove.
    let _free = folder.hold().ok().flatten()?;
    if is_alive(record, kernel) {
        return None;
    }
    if record.session_id.is_none() || folder.failed().is_some() {
        return Some(Why::Leftover);
    }
    let Some(exit) = folder.exit() else {
        if note {
            let gone = Exit {
                exit_code: None,
                exit_signal: None,
                exited_at: None,
                timed_out: false,
                found_gone_at: Some(now),
            };
            // Where it cannot be written now, the next look writes it.
            let _ = folder.write_exit(&gone);
        }
        return None;
    };
    let ended = exit.exited_at.or(exit.found_gone_at)?;
    let age = Duration::try_from(now.duration_since(ended)).unwrap_or_default();
    (age > kept).then_some(Why::Old)
}

/// Whether the process that was started lives. What cannot be seen may live.
fn is_alive(record: &Record, kernel: &dyn Kernel) -> bool {
    let process = record.process.as_ref().and_then(super::record::ProcessMark::process);
    process.is_some_and(|process| kernel.is_alive(process) != Observed::Seen(false))
}

/// Folders that were never finished: their maker was killed while writing them.
pub fn half_made(launches: &Path) -> Vec<LaunchFolder> {
    let folders = std::fs::read_dir(launches).into_iter().flatten().flatten();
    let half = folders.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
    let abandoned = |folder: &LaunchFolder| folder.hold().is_ok_and(|held| held.is_some());
    half.map(|entry| LaunchFolder::at(entry.path())).filter(abandoned).collect()
}
