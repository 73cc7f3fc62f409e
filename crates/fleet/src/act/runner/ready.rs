//! What must be true of a directory before an agent is started in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_model::{Conversation, CoverageKind, Error, ErrorKind, Survey};
use jiff::Timestamp;

use super::Runner;
use crate::Fleet;
use crate::act::caller::Caller;
use crate::act::launch::glance;
use crate::keep::kernel_lock::KernelLock;
use crate::keep::locks::Locks;
use crate::keep::marks::Marks;
use crate::keep::store::Store;
use crate::read::query::{Query, Wanted};
use crate::worktree::root::held_place;
use crate::worktree::{self, WorktreeError};

/// Another launch in the same directory takes seconds. This waits for it, and then its session is the obstacle.
const TIMEOUT: Duration = Duration::from_mins(3);

/// How often a source that timed out is read again before its state counts as unknown.
const TRIES: usize = 3;

impl Runner<'_> {
    /// Returns where the agent will run; makes its worktree if one was requested.
    pub(super) fn make_place(&mut self) -> Result<PathBuf, Error> {
        let Some(order) = self.record.order.worktree.clone() else {
            return Ok(self.record.order.cwd.clone());
        };
        // This is recorded before the worktree is made, so that what a dead launch left can be removed.
        let (marks, base) = (Marks::of(Store::at(&self.caller.home)), order.base.as_deref());
        let made = worktree::create_noting(&order.repository, &order.branch, base, &marks, |made| {
            self.record.made = Some(made.clone());
            let written = self.folder.write_record(&self.record);
            written.map_err(|source| WorktreeError::Io { path: self.folder.path().to_owned(), source })
        });
        match made {
            Ok(made) => Ok(made.path),
            Err(error) => {
                // If git refused, nothing was made.
                self.record.made = None;
                let untrusted = matches!(error, WorktreeError::Untrusted { .. });
                let kind = if untrusted { ErrorKind::Refused } else { ErrorKind::AgentFailed };
                Err(Error::from(error).of_kind(kind))
            }
        }
    }

    /// Takes the kernel's lock on the directory and checks that no session holds it. Of two racing launches, one waits
    /// here until the other's session is seen.
    pub(super) fn take_directory(&self, cwd: &Path) -> Result<Option<KernelLock>, Error> {
        let place = held_place(cwd);
        let held = KernelLock::on_folder(&place, TIMEOUT)
            .map_err(|error| Error::agent_failed(format!("cannot work in {}: {error}", place.display())))?;
        if held.is_none() {
            let reason = format!("another launch has been starting in {} for minutes", place.display());
            return Err(Error::refused(reason).hint("`agentctl doctor` shows what runs there"));
        }
        match &self.record.order.conversation {
            Conversation::New if self.record.order.force => {}
            Conversation::New => refuse_a_held_directory(self.fleet, self.caller, cwd)?,
            Conversation::Stored { id, .. } => {
                self.refuse_a_live_session(id)?;
                if self.record.order.unshared {
                    refuse_a_held_directory(self.fleet, self.caller, cwd).map_err(|error| Error {
                        hint: Some("it can be resumed once the folder is free".to_owned()),
                        ..error
                    })?;
                }
            }
            Conversation::ForkOf { .. } => {}
        }
        Ok(held)
    }

    /// Refuses a live session, because two processes would corrupt one conversation.
    fn refuse_a_live_session(&self, id: &str) -> Result<(), Error> {
        let mut probe = self.record.clone();
        probe.session_id = Some(id.to_owned());
        let Some(seen) = glance(self.fleet, &probe) else { return Ok(()) };
        self.fleet.refuse_live(&seen, false)
    }
}

/// Refuses if there is a manual lock on the directory or above it, or a live session in the same worktree.
pub(crate) fn refuse_a_held_directory(fleet: &Fleet, caller: &Caller, cwd: &Path) -> Result<(), Error> {
    let survey = survey_live(fleet);
    let locks = Locks::of(Store::at(&caller.home));
    #[expect(clippy::disallowed_methods, reason = "a manual lock may have run out")]
    let now = Timestamp::now();
    let holders = locks.holders(&survey, cwd, now);
    let holders = holders.map_err(|error| Error::from(error).of_kind(ErrorKind::AgentFailed))?;
    match holders.first() {
        None => Ok(()),
        Some(holder) => Err(Error::refused(holder.to_string())
            .hint("give it a tree of its own with --worktree REPO --branch NAME, or --force it")),
    }
}

fn survey_live(fleet: &Fleet) -> Survey {
    let ask = || fleet.survey(&Query::new(Wanted::Live));
    let mut survey = ask();
    for _ in 1..TRIES {
        if !survey.sources.iter().any(|source| source.coverage == CoverageKind::TimedOut) {
            break;
        }
        survey = ask();
    }
    survey
}
