//! A further turn of a session that no process runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agentctl_model::{Capability, Conversation, Error, Permission, Status, Surveyed, text};

use super::request::{Stay, milliseconds};
use crate::act::offered::unless_offered;
use crate::keep::launches::LaunchOrder;
use crate::keep::new_names;
use crate::{Fleet, Offer};

/// How a session is to continue.
#[derive(Debug, Clone, Default)]
pub struct ResumeRequest {
    /// Continue in a copy with its own id.
    pub fork: bool,
    pub model: Option<String>,
    pub permission: Option<Permission>,
    pub on_complete: Option<String>,
    pub stay: Stay,
    /// The adapter over which it is to go on, where its own is not meant: `acp:NAME`.
    pub via: Option<String>,
    /// Only if its folder is free, as for a new session.
    pub unshared: bool,
}

impl Fleet {
    /// Returns the order that resumes a session, or why that is refused. The runner checks again once no other process
    /// can begin.
    pub fn resume_order(
        &self,
        found: &Surveyed,
        request: &ResumeRequest,
        programs: &BTreeMap<String, PathBuf>,
    ) -> Result<LaunchOrder, Error> {
        let wanted = if request.fork { Capability::Fork } else { Capability::Resume };
        let order = self.order_to_resume(found, request, programs);
        order.map_err(|error| unless_offered(error, &found.session.capabilities, wanted))
    }

    fn order_to_resume(
        &self,
        found: &Surveyed,
        request: &ResumeRequest,
        programs: &BTreeMap<String, PathBuf>,
    ) -> Result<LaunchOrder, Error> {
        let hosted = self.is_in_gateway(found);
        if !request.fork {
            self.refuse_live(found, hosted)?;
        }
        if found.session.is_subagent() {
            let parent = text::shell_word(found.session.parent_id.as_deref().unwrap_or("ID"));
            return Err(Error::refused("a sub-agent cannot be taken up by itself")
                .hint(format!("`agentctl resume {parent}` speaks to its parent")));
        }
        self.may_resume(found)?;
        let (id, place) = (found.key.id.clone(), found.place.clone());
        // The gateway decides where its session works.
        let cwd = if hosted { found.session.cwd.clone().unwrap_or_default() } else { folder_of(found)? };
        // A session that only ACP knows has no other way.
        let named = request.via.as_deref().unwrap_or(&found.key.adapter);
        let via = self.acp_agent(named).map(|agent| agent.name.clone());
        let conversation = if request.fork {
            Conversation::ForkOf { id, place }
        } else {
            Conversation::Stored { id, place }
        };
        Ok(LaunchOrder {
            adapter: found.key.adapter.clone(),
            root: found.key.root.clone(),
            conversation,
            cwd: cwd.into(),
            cwd_is_chosen: false,
            worktree: None,
            model: request.model.clone(),
            permission: request.permission,
            system_prompt: None,
            fresh_id: new_names::uuid().map_err(|error| Error::agent_failed(error.to_string()))?,
            program: programs.get(&found.key.adapter).filter(|_| via.is_none()).cloned(),
            env: BTreeMap::new(),
            // The group of a session is the group of its first launch.
            group: found.session.group.clone().filter(|_| !request.fork),
            slot: None,
            labels: BTreeMap::new(),
            spec: None,
            files: Vec::new(),
            on_create: None,
            on_complete: request.on_complete.clone(),
            callback: None,
            timeout_ms: request.stay.timeout.map(milliseconds),
            hold: request.stay.hold || (via.is_some() && !request.stay.terminal),
            via,
            idle_timeout_ms: request.stay.idle_timeout.map(milliseconds),
            terminal: request.stay.terminal,
            args: Vec::new(),
            force: false,
            unshared: request.unshared,
        })
    }
}

fn folder_of(found: &Surveyed) -> Result<String, Error> {
    let id = &found.key.id;
    let cwd = found.session.cwd.clone().ok_or_else(|| {
        Error::agent_failed(format!("the folder of session {id} is not known, so it cannot be resumed"))
    })?;
    match agentctl_files::is_folder_within(Path::new(&cwd)) {
        Ok(true) => Ok(cwd),
        Ok(false) => Err(Error::agent_failed(format!("the folder of session {id} is gone: {cwd}"))
            .hint("make it again, or launch a new session elsewhere")),
        Err(silent) => Err(Error::agent_failed(format!("the folder of session {id}, {cwd}, {silent}"))),
    }
}

impl Fleet {
    /// Refuses a live session, because two processes would corrupt one conversation. An idle session in a gateway has
    /// no process that could interfere.
    pub(crate) fn refuse_live(&self, found: &Surveyed, hosted: bool) -> Result<(), Error> {
        let session = &found.session;
        if session.status == Status::Stopped || (hosted && session.status == Status::Idle) {
            return Ok(());
        }
        let pid = session.pid.map(|pid| format!(" in process {pid}")).unwrap_or_default();
        let message = format!("session {} is live{pid} ({})", session.id, session.status.as_str());
        Err(Error::refused(message).hint(self.instead_of(&[Offer::Resume], found)))
    }
}
