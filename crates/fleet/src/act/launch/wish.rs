//! From what somebody wants launched to the orders of it, for the command line and the API alike.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_adapters::gateway::Addressee;
use agentctl_model::Permission;

use super::slots::{Choice, LaunchPlan, PlannedSlot, Unfit, UnfitKind, named};
use crate::Fleet;
use crate::keep::fresh;
use crate::keep::launches::{LaunchOrder, Talk, WorktreeOrder};
use crate::worktree::{WorktreeError, check};

/// What is to be launched, and how.
#[derive(Debug, Default)]
pub struct LaunchWish {
    pub choices: Vec<Choice>,
    /// As a group, each in a working tree of its own.
    pub side_by_side: bool,
    pub cwd: PathBuf,
    /// Somebody named it: a session without processes here is told of it too.
    pub cwd_is_chosen: bool,
    /// The working tree of one that is alone.
    pub worktree: Option<WorktreeOrder>,
    /// Where the branches of a group begin.
    pub base: Option<String>,
    pub manner: LaunchManner,
}

/// What holds for every slot of a launch.
#[derive(Debug, Clone, Default)]
pub struct LaunchManner {
    pub group: Option<String>,
    pub permission: Option<Permission>,
    pub system_prompt: Option<String>,
    pub env: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    pub spec: Option<PathBuf>,
    pub files: Vec<PathBuf>,
    pub on_create: Option<String>,
    pub on_complete: Option<String>,
    /// The gateway that is meant, where there are several: for the session, and for whoever is told.
    pub gateway: Option<String>,
    /// Who is told when it has ended; nobody by default.
    pub callback: Addressee,
    pub timeout: Option<Duration>,
    /// Arguments for the agent's program, as they are.
    pub args: Vec<String>,
    pub force: bool,
}

impl Fleet {
    /// The orders of a launch. A slot that cannot be has none, and why; the others do not suffer. Makes nothing.
    pub fn plan_launch(
        &self,
        wish: &LaunchWish,
        words: String,
        programs: &BTreeMap<String, PathBuf>,
    ) -> io::Result<LaunchPlan> {
        let group = match &wish.manner.group {
            Some(name) => Some(name.clone()),
            None if wish.side_by_side => Some(fresh::group_id()?),
            None => None,
        };
        let mut slots = named(&wish.choices);
        for slot in &mut slots {
            let worktree = match &group {
                Some(group) if wish.side_by_side => Some(WorktreeOrder {
                    repository: wish.cwd.clone(),
                    branch: slot.branch.clone().unwrap_or_else(|| format!("try/{group}/{}", slot.name)),
                    base: wish.base.clone(),
                }),
                _ => wish.worktree.clone(),
            };
            slot.order = self.order(slot, wish, worktree, group.clone(), programs);
        }
        Ok(LaunchPlan { slots, words, group: group.filter(|_| wish.side_by_side) })
    }

    fn order(
        &self,
        slot: &PlannedSlot,
        wish: &LaunchWish,
        worktree: Option<WorktreeOrder>,
        group: Option<String>,
        programs: &BTreeMap<String, PathBuf>,
    ) -> Result<LaunchOrder, Unfit> {
        let manner = wish.manner.clone();
        let gateway = manner.gateway.as_deref();
        let source = self.place_to_launch(&slot.adapter, gateway)?;
        let given = [("model", &slot.model), ("system prompt", &manner.system_prompt)];
        if let Some(why) =
            given.iter().find_map(|(what, value)| misfit(&slot.adapter, what, value.as_deref()?))
        {
            return Err(Unfit::new(UnfitKind::Unknown, why));
        }
        // What lives in a gateway takes none, and says so itself.
        if let (Some(WorktreeOrder { repository, branch, base }), None) =
            (&worktree, source.adapter.gateway())
        {
            check(repository, branch, base.as_deref()).map_err(|error| no_such_tree(&error))?;
        }
        let callback = if manner.callback != Addressee::default() {
            Some(self.callback_to(manner.callback, gateway)?)
        } else if gateway.is_some() && source.adapter.gateway().is_none() {
            let message = format!("{} lives in no gateway, and nobody is to be told", slot.adapter);
            return Err(Unfit::new(UnfitKind::Refused, message));
        } else {
            None
        };
        Ok(LaunchOrder {
            adapter: slot.adapter.clone(),
            root: source.root.path.to_string_lossy().into_owned(),
            conversation: Talk::New,
            cwd: wish.cwd.clone(),
            cwd_is_chosen: wish.cwd_is_chosen,
            worktree,
            model: slot.model.clone(),
            permission: manner.permission,
            system_prompt: manner.system_prompt,
            fresh_id: fresh::uuid().map_err(|error| Unfit::new(UnfitKind::Failed, error.to_string()))?,
            program: programs.get(&slot.adapter).cloned(),
            env: manner.env.into_iter().map(|(name, value)| (name, Some(value))).collect(),
            // A launch that is alone has no name among others.
            slot: group.as_ref().map(|_| slot.name.clone()),
            group,
            labels: manner.labels,
            spec: manner.spec,
            files: manner.files,
            on_create: manner.on_create,
            on_complete: manner.on_complete,
            callback,
            timeout_ms: manner.timeout.map(milliseconds),
            args: manner.args,
            force: manner.force,
        })
    }
}

/// Why this agent cannot be given this value as what it is, if it cannot.
pub fn misfit(adapter: &str, what: &str, value: &str) -> Option<String> {
    let known = agentctl_adapters::registry().into_iter().find(|known| known.card().name == adapter)?;
    known.control()?.misfit(what, value)
}

/// What makes no sense is wrong usage; what git could not say now may be so another time.
fn no_such_tree(error: &WorktreeError) -> Unfit {
    let kind = match error {
        WorktreeError::NotARepository(_) | WorktreeError::BadBranch(_) | WorktreeError::BadBase(_) => {
            UnfitKind::Unknown
        }
        _ => UnfitKind::Failed,
    };
    Unfit::new(kind, error.to_string())
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Whether an agent can work in this folder, or why not.
pub fn check_folder(path: &Path) -> Result<(), String> {
    use rustix::fs::{Access, access};
    let refuse = |why: &str| Err(format!("{} {why}", path.display()));
    if !path.exists() {
        return refuse("does not exist");
    }
    if !path.is_dir() {
        return refuse("is not a folder");
    }
    if access(path, Access::READ_OK | Access::EXEC_OK).is_err() {
        return refuse("is not open to you");
    }
    Ok(())
}

/// Whether words can be said at all, or why not.
pub fn check_words(words: &str) -> Result<(), String> {
    if words.trim().is_empty() {
        return Err("the prompt is empty".to_owned());
    }
    match words.find('\0') {
        Some(at) => Err(format!("the prompt holds a NUL at byte {at}, which no agent can be given")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_none_are_refused() {
        assert!(check_words(" \n").is_err());
        assert!(check_words("a\0b").is_err());
        assert_eq!(check_words("--help"), Ok(()));
    }
}
