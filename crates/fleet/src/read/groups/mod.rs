//! Sessions that were launched together: launch records, joined with a survey.

mod diff;
mod view;

use std::collections::HashSet;
use std::time::Duration;

use agentctl_model::{SourceReport, Survey, Surveyed};
use jiff::Timestamp;

use crate::Fleet;
use crate::keep::launches::{LaunchFolder, Record};
use crate::read::query::{Query, Wanted};
use crate::worktree::{DiffStat, Form, WorktreeError, diff, diffstat};

pub use diff::{GroupDiff, SlotDiff, UnknownSlot};
pub use view::{FailedSlot, GroupBrief, GroupLaunch, GroupList, GroupView, SlotBrief, SlotView};

/// All groups, or the one that was asked for, newest first.
#[derive(Debug, Default)]
pub struct Groups {
    pub groups: Vec<Group>,
    /// How completely the agents were read.
    pub sources: Vec<SourceReport>,
}

/// One group, with its slots in the order of their launches.
#[derive(Debug)]
pub struct Group {
    pub name: String,
    /// When its first slot was launched.
    pub launched_at: Timestamp,
    pub slots: Vec<Slot>,
}

/// One launch of a group and the session it made.
#[derive(Debug)]
pub struct Slot {
    pub name: String,
    /// The record of the session's first launch; a resume does not change the session's place in the group.
    pub record: Record,
    /// `None` while the session is starting, and where the agent no longer has it.
    pub session: Option<Surveyed>,
    folder: LaunchFolder,
}

impl Fleet {
    /// Returns the groups, joined with what is true of their sessions now.
    pub fn groups(&self, only: Option<&str>, usage: bool) -> Groups {
        let mut groups = self.recorded_groups(only);
        let slots = || groups.iter().flat_map(|group| &group.slots);
        let mut adapters: Vec<String> = slots().map(|slot| slot.record.order.adapter.clone()).collect();
        adapters.sort_unstable();
        adapters.dedup();
        let ids: Vec<String> = slots().filter_map(|slot| slot.record.session_id.clone()).collect();
        let question = Query { usage, adapters, ..Query::new(Wanted::Ids(ids.clone())) };
        let survey = if ids.is_empty() { Survey::default() } else { self.survey(&question) };
        for slot in groups.iter_mut().flat_map(|group| &mut group.slots) {
            slot.session = survey.sessions.iter().find(|surveyed| slot.is_of(surveyed)).cloned();
        }
        // What a killed launch left behind is no session; `prune` removes it.
        for group in &mut groups {
            group.slots.retain(|slot| slot.session.is_some() || slot.record.settled || slot.is_starting());
        }
        groups.retain(|group| !group.slots.is_empty());
        Groups { groups, sources: survey.sources }
    }

    /// Returns the name of the group that is meant, by its whole name or by a prefix that only one group has.
    /// `Ok(None)` means that no group has that prefix yet; an error lists the groups that share it.
    pub fn group_named(&self, typed: &str) -> Result<Option<String>, Vec<String>> {
        let names = self.group_names();
        if names.iter().any(|name| name == typed) {
            return Ok(Some(typed.to_owned()));
        }
        let mut begun: Vec<String> = names.into_iter().filter(|name| name.starts_with(typed)).collect();
        if begun.len() > 1 { Err(begun) } else { Ok(begun.pop()) }
    }

    /// The recorded groups, newest first.
    pub fn group_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.ledger().entries().iter().filter_map(|(_, record)| record.order.group.clone()) {
            if !names.contains(&name) {
                names.insert(0, name);
            }
        }
        names
    }

    fn recorded_groups(&self, only: Option<&str>) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut known = HashSet::new();
        for (folder, record) in self.ledger().entries() {
            let order = &record.order;
            let again = record
                .session_id
                .as_ref()
                .is_some_and(|id| !known.insert((order.adapter.clone(), order.root.clone(), id.clone())));
            let Some(name) = order.group.as_ref().filter(|name| only.is_none_or(|only| only == *name)) else {
                continue;
            };
            if again || folder.failed().is_some() {
                continue;
            }
            let index = groups.iter().position(|group| group.name == *name).unwrap_or_else(|| {
                groups.push(Group { name: name.clone(), launched_at: record.launched_at, slots: Vec::new() });
                groups.len() - 1
            });
            let slots = &mut groups[index].slots;
            let name = free_name(order.slot.as_deref().unwrap_or(&order.adapter), slots);
            slots.push(Slot { name, record: record.clone(), session: None, folder: folder.clone() });
        }
        groups.reverse();
        groups
    }
}

/// A person may have put several launches of the same agent into one group.
fn free_name(wanted: &str, slots: &[Slot]) -> String {
    let taken = |name: &String| slots.iter().any(|slot| slot.name == *name);
    let numbered = (2..).map(|number| format!("{wanted}-{number}"));
    let names = std::iter::once(wanted.to_owned()).chain(numbered);
    names.into_iter().find(|name| !taken(name)).unwrap_or_default()
}

impl Slot {
    fn is_of(&self, surveyed: &Surveyed) -> bool {
        let order = &self.record.order;
        let key = &surveyed.key;
        key.adapter == order.adapter
            && key.root == order.root
            && self.record.session_id.as_deref() == Some(key.id.as_str())
    }

    /// A runner is working on it, and there is no session to show yet.
    pub fn is_starting(&self) -> bool {
        !self.record.settled && matches!(self.folder.hold(), Ok(None))
    }

    /// Cancels a launch that has no session yet; its runner undoes it.
    pub fn cancel(&self) -> bool {
        self.is_starting() && self.folder.cancel().is_ok()
    }

    /// The time from its launch to its end, or until now while it is live. `None` means that its end was not observed.
    pub fn took(&self, now: Timestamp) -> Option<Duration> {
        let session = &self.session.as_ref()?.session;
        let exited = || session.launch.as_ref().and_then(|launch| launch.exited_at);
        let end = if session.is_live() { now } else { exited().or(session.stopped_at)? };
        Some(Duration::try_from(end.duration_since(self.record.launched_at)).unwrap_or_default())
    }

    pub fn branch(&self) -> Option<&str> {
        self.record.made.as_ref().map(|made| made.branch.as_str())
    }

    /// What was changed in its worktree. `None` means that it has none, or that both the worktree and the branch are
    /// gone.
    pub fn diffstat(&self) -> Result<Option<DiffStat>, WorktreeError> {
        self.record.made.as_ref().map_or(Ok(None), |made| diffstat(made, self.base()))
    }

    /// The same as a patch, or as git's own table.
    pub fn diff(&self, form: Form) -> Result<Option<Vec<u8>>, WorktreeError> {
        self.record.made.as_ref().map_or(Ok(None), |made| diff(made, self.base(), form))
    }

    fn base(&self) -> Option<&str> {
        self.record.order.worktree.as_ref().and_then(|order| order.base.as_deref())
    }
}
