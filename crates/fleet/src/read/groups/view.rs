//! Groups as `group list --json` and `group show --json` print them and the API answers.

use agentctl_model::{Outcome, Session, SourceReport, Status, Surveyed};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Group, Groups, Slot};
use crate::worktree::DiffStat;

/// What a group launch answers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GroupLaunch {
    pub group: String,
    pub sessions: Vec<Session>,
    pub failed: Vec<FailedSlot>,
}

/// A slot that has no session, and why. The others are not touched by it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FailedSlot {
    pub slot: String,
    pub error: String,
}

/// What `group list --json` prints and `GET /v1/groups` answers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GroupList {
    pub groups: Vec<GroupBrief>,
    pub sources: Vec<SourceReport>,
}

/// A group in short.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupBrief {
    pub group: String,
    pub launched_at: Timestamp,
    pub slots: Vec<SlotBrief>,
}

/// One of the sessions that were launched together.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlotBrief {
    pub slot: String,
    pub adapter: String,
    /// `null` while it is not known yet.
    pub session_id: Option<String>,
    /// `null` where the agent does not have the session (yet, or any more).
    pub status: Option<Status>,
    pub outcome: Option<Outcome>,
    /// The machine that it was launched on.
    #[serde(default)]
    pub host: String,
}

/// What `group show --json` prints and `GET /v1/groups/{id}` answers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupView {
    pub group: String,
    pub launched_at: Timestamp,
    pub slots: Vec<SlotView>,
    pub sources: Vec<SourceReport>,
}

/// One of the sessions that were launched together, and how far it came.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlotView {
    pub slot: String,
    pub adapter: String,
    /// The model that was asked for; what is used is in the session.
    pub model: Option<String>,
    pub launched_at: Timestamp,
    /// From its launch to its end, or until now while it lives.
    pub seconds: Option<u64>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    /// What was done in its working tree, committed or not; `null` where there is none.
    pub diff: Option<DiffStat>,
    /// `null` while it is starting, and where the agent does not have it any more.
    pub session: Option<Session>,
    /// The machine that it was launched on.
    #[serde(default)]
    pub host: String,
}

impl From<Groups> for GroupList {
    fn from(found: Groups) -> Self {
        let brief = |slot: &Slot| {
            let session = slot.session.as_ref().map(|surveyed| &surveyed.session);
            SlotBrief {
                slot: slot.name.clone(),
                adapter: slot.record.order.adapter.clone(),
                session_id: slot.record.session_id.clone(),
                status: session.map(|session| session.status),
                outcome: session.and_then(|session| session.outcome),
                host: crate::own_name(),
            }
        };
        let entry = |group: Group| GroupBrief {
            slots: group.slots.iter().map(brief).collect(),
            group: group.name,
            launched_at: group.launched_at,
        };
        Self { groups: found.groups.into_iter().map(entry).collect(), sources: found.sources }
    }
}

impl GroupView {
    /// `changes` holds the diffs of the slots, in the order of the slots.
    pub fn new(
        group: Group,
        changes: Vec<Option<DiffStat>>,
        sources: Vec<SourceReport>,
        now: Timestamp,
    ) -> Self {
        let slots = group.slots.into_iter().zip(changes).map(|(slot, diff)| view(slot, diff, now));
        Self { group: group.name, launched_at: group.launched_at, slots: slots.collect(), sources }
    }
}

fn view(slot: Slot, diff: Option<DiffStat>, now: Timestamp) -> SlotView {
    let (seconds, branch) = (slot.took(now).map(|took| took.as_secs()), slot.branch().map(str::to_owned));
    let made = slot.record.made.as_ref();
    SlotView {
        worktree: made.map(|made| made.path.to_string_lossy().into_owned()),
        slot: slot.name,
        adapter: slot.record.order.adapter,
        model: slot.record.order.model,
        launched_at: slot.record.launched_at,
        seconds,
        branch,
        diff,
        session: slot.session.map(|surveyed| *surveyed.session),
        host: crate::own_name(),
    }
}

impl Group {
    /// Cancels the slots that are still starting. Returns how many these were, and the sessions that are live.
    pub fn cancel_starting(self) -> (usize, Vec<Surveyed>) {
        let starting = self.slots.iter().filter(|slot| slot.session.is_none() && slot.cancel()).count();
        let live = self.slots.into_iter().filter_map(|slot| slot.session);
        (starting, live.filter(|surveyed| surveyed.session.is_live()).collect())
    }
}
