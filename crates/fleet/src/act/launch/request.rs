//! Turns a launch request into orders, for the command line and the API alike.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_adapters::gateway::Addressee;
use agentctl_model::{Conversation, Error, ErrorKind, Permission};

use super::slots::{Choice, LaunchPlan, PlannedSlot, names};
use crate::Fleet;
use crate::keep::launches::{LaunchOrder, WorktreeOrder};
use crate::keep::new_names;
use crate::worktree::{WorktreeError, check};

/// What is to be launched, and how.
#[derive(Debug, Default)]
pub struct LaunchRequest {
    pub choices: Vec<Choice>,
    /// As a group, each session in its own worktree.
    pub side_by_side: bool,
    pub cwd: PathBuf,
    /// The user named the directory, so a session without a process here gets it too.
    pub cwd_is_chosen: bool,
    /// The worktree of a single launch.
    pub worktree: Option<WorktreeOrder>,
    /// Where the branches of a group begin.
    pub base: Option<String>,
    pub options: LaunchOptions,
}

/// The options that apply to every slot of a launch.
#[derive(Debug, Clone, Default)]
pub struct LaunchOptions {
    pub group: Option<String>,
    pub permission: Option<Permission>,
    pub system_prompt: Option<String>,
    pub env: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    pub spec: Option<PathBuf>,
    pub files: Vec<PathBuf>,
    pub on_create: Option<String>,
    pub on_complete: Option<String>,
    /// Which of several gateways is meant, both for the session and for the recipient of the callback.
    pub gateway: Option<String>,
    /// Who is notified of the end; nobody by default.
    pub callback: Addressee,
    pub stay: Stay,
    /// Arguments that are passed to the agent's program unchanged.
    pub args: Vec<String>,
    pub force: bool,
}

/// How long a session stays, for a launch and for a resume alike. Without anything it is one turn long.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stay {
    /// It is stopped after this time. In a session that is held it is the time of a turn, which is interrupted.
    pub timeout: Option<Duration>,
    /// It stays after its turn and can be spoken with.
    pub hold: bool,
    /// How long a held session may be idle before it is ended.
    pub idle_timeout: Option<Duration>,
    /// The agent shows its own screen, in a terminal that a person can open.
    pub terminal: bool,
}

impl Fleet {
    /// Returns the orders of a launch. A slot that cannot be launched has an error instead, which does not affect the
    /// others. Creates nothing.
    pub fn plan_launch(
        &self,
        request: &LaunchRequest,
        words: String,
        programs: &BTreeMap<String, PathBuf>,
    ) -> io::Result<LaunchPlan> {
        let group = match &request.options.group {
            Some(name) => Some(name.clone()),
            None if request.side_by_side => Some(new_names::group_id()?),
            None => None,
        };
        let slot = |(choice, name): (&Choice, String)| {
            let worktree = match &group {
                Some(group) if request.side_by_side => Some(WorktreeOrder {
                    repository: request.cwd.clone(),
                    branch: choice.branch.clone().unwrap_or_else(|| format!("try/{group}/{name}")),
                    base: request.base.clone(),
                }),
                _ => request.worktree.clone(),
            };
            let in_group = group.as_deref().map(|group| (group, name.as_str()));
            let order = self.order(choice, request, worktree, in_group, programs);
            PlannedSlot { adapter: choice.adapter.clone(), name, order }
        };
        let slots = request.choices.iter().zip(names(&request.choices)).map(slot).collect();
        Ok(LaunchPlan { slots, words, group: group.filter(|_| request.side_by_side) })
    }

    fn order(
        &self,
        choice: &Choice,
        request: &LaunchRequest,
        worktree: Option<WorktreeOrder>,
        in_group: Option<(&str, &str)>,
        programs: &BTreeMap<String, PathBuf>,
    ) -> Result<LaunchOrder, Error> {
        let options = request.options.clone();
        let gateway = options.gateway.as_deref();
        let source = self.place_to_launch(&choice.adapter, gateway)?;
        let given = [("model", &choice.model), ("system prompt", &options.system_prompt)];
        if let Some(why) =
            given.iter().find_map(|(what, value)| misfit(&choice.adapter, what, value.as_deref()?))
        {
            return Err(Error::usage(why));
        }
        // A session in a gateway takes no worktree, and its own check refuses one.
        if let (Some(WorktreeOrder { repository, branch, base }), None) =
            (&worktree, source.adapter.gateway())
        {
            check(repository, branch, base.as_deref()).map_err(|error| no_such_tree(&error))?;
        }
        let callback = if options.callback != Addressee::default() {
            Some(self.callback_to(options.callback, gateway)?)
        } else if gateway.is_some() && source.adapter.gateway().is_none() {
            let message =
                format!("{} does not run in a gateway, and no callback goes through one", choice.adapter);
            return Err(Error::refused(message));
        } else {
            None
        };
        let via = self.acp_agent(&choice.adapter).map(|agent| agent.name.clone());
        Ok(LaunchOrder {
            adapter: source.name().to_owned(),
            root: source.root.path.to_string_lossy().into_owned(),
            conversation: Conversation::New,
            cwd: request.cwd.clone(),
            cwd_is_chosen: request.cwd_is_chosen,
            worktree,
            model: choice.model.clone(),
            permission: options.permission,
            system_prompt: options.system_prompt,
            fresh_id: new_names::uuid().map_err(|error| Error::failed(error.to_string()))?,
            program: programs.get(&choice.adapter).filter(|_| via.is_none()).cloned(),
            env: options.env.into_iter().map(|(name, value)| (name, Some(value))).collect(),
            // A single launch has no group and no slot name.
            group: in_group.map(|(group, _)| group.to_owned()),
            slot: in_group.map(|(_, name)| name.to_owned()),
            labels: options.labels,
            spec: options.spec,
            files: options.files,
            on_create: options.on_create,
            on_complete: options.on_complete,
            callback,
            timeout_ms: options.stay.timeout.map(milliseconds),
            // The protocol has two ends, so there is always a runner that holds it.
            hold: options.stay.hold || (via.is_some() && !options.stay.terminal),
            via,
            idle_timeout_ms: options.stay.idle_timeout.map(milliseconds),
            terminal: options.stay.terminal,
            args: options.args,
            force: options.force,
            unshared: false,
        })
    }
}

/// Returns why this agent does not accept this value for `what`, if it does not.
pub fn misfit(adapter: &str, what: &str, value: &str) -> Option<String> {
    let known = agentctl_adapters::registry().into_iter().find(|known| known.card().name == adapter)?;
    known.control()?.misfit(what, value)
}

/// A request that makes no sense is wrong usage; a failure of git may be temporary.
fn no_such_tree(error: &WorktreeError) -> Error {
    let kind = match error.kind() {
        ErrorKind::Usage => ErrorKind::Usage,
        _ => ErrorKind::Failed,
    };
    Error::new(kind, error.to_string())
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Checks that an agent can work in this directory.
pub fn check_folder(path: &Path) -> Result<(), String> {
    use rustix::fs::{Access, access};
    let refuse = |why: &str| Err(format!("{} {why}", path.display()));
    match agentctl_files::is_folder_within(path) {
        Err(silent) => return refuse(&silent.to_string()),
        Ok(false) if path.exists() => return refuse("is not a folder"),
        Ok(false) => return refuse("does not exist"),
        Ok(true) => {}
    }
    if access(path, Access::READ_OK | Access::EXEC_OK).is_err() {
        return refuse("is not open to you");
    }
    Ok(())
}

/// Checks that an agent can be given this text.
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
