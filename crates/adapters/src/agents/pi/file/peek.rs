//! Reads the last entries of the active branch, and follows a session as it grows.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;

use agentctl_model::Entry;

use super::branch::Branch;
use super::entries::{entries, of_record};
use super::records::Record;
use super::session::heading;
use crate::ReadError;
use crate::transcript::jsonl::follow::{Follow, JsonlFollower, end_of_lines};
use crate::transcript::jsonl::lenient::as_text;
use crate::transcript::jsonl::open::{Opened, open_regular};
use crate::transcript::jsonl::{Scan, scan_back};
use crate::transcript::read::Line;
use crate::transcript::show::shortened;

/// Collects entries newest first (`collect` reverses them). Abandoned branches and attempts that were retried
/// are not shown.
struct Collect {
    branch: Branch,
    limit: usize,
    taken_back: HashSet<Box<str>>,
    on_branch: u64,
    entries: Vec<Entry>,
    /// The lines that contain them.
    lines: Vec<Vec<u8>>,
}

impl Collect {
    fn new(leaf: Option<&str>, limit: usize) -> Self {
        Self {
            branch: Branch::from_leaf(leaf),
            limit,
            taken_back: HashSet::new(),
            on_branch: 0,
            entries: Vec::new(),
            lines: Vec::new(),
        }
    }

    fn take(&mut self, line: &[u8]) -> Line {
        let Some(record) = Record::parse(line) else { return Line::Broken };
        if !self.branch.takes(&record) {
            return Line::Record;
        }
        self.on_branch += 1;
        if let ("context_edit", Some(target)) = (record.kind.as_ref(), record.target_id.as_deref()) {
            self.taken_back.insert(target.into());
        }
        let failed =
            record.message.as_ref().is_some_and(|message| message.stop_reason.as_deref() == Some("error"));
        let tried_again = failed && record.id.as_deref().is_some_and(|id| self.taken_back.contains(id));
        if !tried_again {
            let shown = of_record(&record);
            if !shown.is_empty() {
                self.lines.push(line.to_vec());
            }
            self.entries.extend(shown.into_iter().rev());
        }
        Line::Record
    }
}

impl Scan for Collect {
    fn line(&mut self, line: &[u8], _: u64) -> ControlFlow<()> {
        if self.entries.len() >= self.limit || self.branch.is_at_its_root() {
            return ControlFlow::Break(());
        }
        if as_text(line, |line| self.take(line)) == Line::Broken {
            self.branch.lost();
        }
        ControlFlow::Continue(())
    }
}

/// The last `limit` entries of the active branch in the first `size` bytes, newest first.
fn collect(place: &Path, opened: &Opened, size: u64, limit: usize) -> std::io::Result<Collect> {
    let leaf = heading(place).and_then(|heading| heading.leaf);
    let mut found = Collect::new(leaf.as_deref(), limit);
    scan_back(&opened.file, size, &mut found)?;
    if leaf.is_some() && found.on_branch == 0 {
        found = Collect::new(None, limit);
        scan_back(&opened.file, size, &mut found)?;
    }
    found.entries.truncate(limit);
    found.entries.reverse();
    found.entries = shortened(std::mem::take(&mut found.entries));
    Ok(found)
}

/// The last `limit` entries, oldest first.
pub(crate) fn read_last(place: &Path, limit: usize) -> Result<Vec<Entry>, ReadError> {
    let read = || {
        let opened = open_regular(place)?;
        collect(place, &opened, opened.size, limit)
    };
    read().map(|found| found.entries).map_err(|error| ReadError::new(place, error))
}

/// Returns the branch so far, then every record as it is written.
struct BranchFollower {
    backlog: Vec<Entry>,
    rest: JsonlFollower,
}

impl Follow for BranchFollower {
    fn next(&mut self) -> Result<Vec<Entry>, ReadError> {
        let mut fresh = std::mem::take(&mut self.backlog);
        fresh.append(&mut self.rest.next()?);
        Ok(fresh)
    }
}

pub(crate) fn follow(place: &Path, backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
    let start = || {
        let opened = open_regular(place)?;
        // An incomplete record is shown once it is complete.
        let end = end_of_lines(&opened.file, opened.size)?;
        let found = collect(place, &opened, end, backlog)?;
        let shown = found.lines.iter().map(Vec::as_slice);
        let rest = JsonlFollower::after(place, entries, end, shown);
        Ok(BranchFollower { backlog: found.entries, rest })
    };
    let follower = start().map_err(|error| ReadError::new(place, error))?;
    Ok(Box::new(follower))
}
