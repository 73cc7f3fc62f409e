//! A further turn of a session that nobody runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_model::{Permission, Status, Surveyed, text};

use super::LaunchError;
use super::wish::milliseconds;
use crate::keep::fresh;
use crate::keep::launches::{LaunchOrder, Talk};
use crate::{Fleet, Offer};

/// How a session is to go on.
#[derive(Debug, Clone, Default)]
pub struct ResumeWish {
    /// In a copy with an id of its own.
    pub fork: bool,
    pub model: Option<String>,
    pub permission: Option<Permission>,
    pub on_complete: Option<String>,
    pub timeout: Option<Duration>,
}

impl Fleet {
    /// The order that takes a session up again, or why that must not be. The runner looks again when nobody else can
    /// begin.
    pub fn resume_order(
        &self,
        found: &Surveyed,
        wish: &ResumeWish,
        programs: &BTreeMap<String, PathBuf>,
    ) -> Result<LaunchOrder, LaunchError> {
        let hosted = self.is_hosted(found);
        if !wish.fork {
            self.refuse_live(found, hosted)?;
        }
        if found.session.is_subagent() {
            let parent = text::shell_word(found.session.parent_id.as_deref().unwrap_or("ID"));
            return Err(LaunchError::refused("a sub-agent cannot be taken up by itself")
                .hint(format!("`agentctl resume {parent}` speaks to its parent")));
        }
        self.may_resume(found)?;
        let (id, place) = (found.key.id.clone(), found.place.clone());
        // Where a session of a gateway works is the gateway's business.
        let cwd = if hosted { found.session.cwd.clone().unwrap_or_default() } else { folder_of(found)? };
        let conversation = if wish.fork { Talk::Fork { id, place } } else { Talk::Resume { id, place } };
        Ok(LaunchOrder {
            adapter: found.key.adapter.clone(),
            root: found.key.root.clone(),
            conversation,
            cwd: cwd.into(),
            cwd_is_chosen: false,
            worktree: None,
            model: wish.model.clone(),
            permission: wish.permission,
            system_prompt: None,
            fresh_id: fresh::uuid().map_err(|error| LaunchError::failed(error.to_string()))?,
            program: programs.get(&found.key.adapter).cloned(),
            env: BTreeMap::new(),
            // The group of a session is the one of its first launch.
            group: found.session.group.clone().filter(|_| !wish.fork),
            slot: None,
            labels: BTreeMap::new(),
            spec: None,
            files: Vec::new(),
            on_create: None,
            on_complete: wish.on_complete.clone(),
            callback: None,
            timeout_ms: wish.timeout.map(milliseconds),
            args: Vec::new(),
            force: false,
        })
    }
}

fn folder_of(found: &Surveyed) -> Result<String, LaunchError> {
    let id = &found.key.id;
    let cwd = found.session.cwd.clone().ok_or_else(|| {
        LaunchError::failed(format!("the folder of session {id} is not known, so it cannot be resumed"))
    })?;
    match agentctl_files::is_folder_within(Path::new(&cwd)) {
        Ok(true) => Ok(cwd),
        Ok(false) => Err(LaunchError::failed(format!("the folder of session {id} is gone: {cwd}"))
            .hint("make it again, or launch a new session elsewhere")),
        Err(silent) => Err(LaunchError::failed(format!("the folder of session {id}, {cwd}, {silent}"))),
    }
}

impl Fleet {
    /// Two processes on one conversation would tear it apart. In a gateway a session that rests has no process that could
    /// be in the way.
    pub(crate) fn refuse_live(&self, found: &Surveyed, hosted: bool) -> Result<(), LaunchError> {
        let session = &found.session;
        if session.status == Status::Stopped || (hosted && session.status == Status::Idle) {
            return Ok(());
        }
        let pid = session.pid.map(|pid| format!(" in process {pid}")).unwrap_or_default();
        let message = format!("session {} is live{pid} ({})", session.id, session.status.as_str());
        Err(LaunchError::refused(message).hint(self.instead_of(&[Offer::Resume], found)))
    }
}
