//! What the slots of a group have done, as `group diff --json` prints it and the API answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Group, Slot};
use crate::worktree::Form;

/// What `group diff --json` prints and `GET /v1/groups/{id}/diff` answers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GroupDiff {
    pub group: String,
    pub slots: Vec<SlotDiff>,
}

/// What one slot has done in its working tree.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SlotDiff {
    pub slot: String,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    /// `null` where there is nothing to compare, which `error` may say more about.
    pub diff: Option<String>,
    pub error: Option<String>,
    /// The machine that it was launched on.
    #[serde(default)]
    pub host: String,
}

/// No slot has this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSlot {
    pub slot: String,
    pub known: Vec<String>,
}

impl Group {
    /// Returns the slots of these names, or all slots if no name is given.
    pub fn chosen(&self, names: &[String]) -> Result<Vec<&Slot>, UnknownSlot> {
        let known = || self.slots.iter().map(|slot| slot.name.clone()).collect::<Vec<_>>();
        if let Some(slot) = names.iter().find(|name| !known().contains(name)) {
            return Err(UnknownSlot { slot: slot.clone(), known: known() });
        }
        let wanted = |slot: &&Slot| names.is_empty() || names.contains(&slot.name);
        Ok(self.slots.iter().filter(wanted).collect())
    }

    /// Returns what these slots have done, and whether git could report on all of them.
    pub fn diff_of(&self, slots: &[&Slot], form: Form) -> (GroupDiff, bool) {
        let mut all = true;
        let slots = slots.iter().map(|slot| {
            let made = slot.record.made.as_ref();
            let (diff, error) = match slot.diff(form) {
                Ok(Some(diff)) => (Some(String::from_utf8_lossy(&diff).into_owned()), None),
                Ok(None) => (None, Some(slot.why_no_diff().to_owned())),
                Err(error) => {
                    all = false;
                    (None, Some(error.to_string()))
                }
            };
            SlotDiff {
                slot: slot.name.clone(),
                worktree: made.map(|made| made.path.to_string_lossy().into_owned()),
                branch: slot.branch().map(str::to_owned),
                diff,
                error,
                host: crate::own_name(),
            }
        });
        let slots = slots.collect();
        (GroupDiff { group: self.name.clone(), slots }, all)
    }
}

impl Slot {
    /// Why there is nothing to compare.
    pub fn why_no_diff(&self) -> &'static str {
        match &self.record.made {
            Some(_) => "its working tree and its branch are gone",
            None => "it has no working tree of its own",
        }
    }
}
