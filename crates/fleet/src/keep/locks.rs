//! Who holds a directory: people who locked it, and live sessions that work in it.
//!
//! Only locks that a person took are stored. The locks of sessions are computed from the survey at the moment of the
//! question, so no such lock can outlive its session.

use std::path::{Path, PathBuf};
use std::time::Instant;

use agentctl_model::{
    DirectoryHolder, Environ, Error, HostReport, LockType, Session, SourceReport, Status, Survey,
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::keep::store::{Document, Store, StoreError};
use crate::worktree::root::{held_place, real_path};
use crate::{Fleet, Query, Wanted};

/// A person's lock on a directory and everything below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManualLock {
    pub directory: PathBuf,
    pub by: Option<String>,
    pub reason: Option<String>,
    pub since: Timestamp,
    /// From this time on the lock counts as absent.
    pub until: Option<Timestamp>,
}

impl ManualLock {
    fn holds(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// The file of manual locks.
#[derive(Debug, Default, Serialize, Deserialize)]
struct LockBook {
    locks: Vec<ManualLock>,
}

impl Document for LockBook {
    const FILE: &'static str = "locks.json";
    const VERSION: u64 = 1;
}

impl From<&ManualLock> for DirectoryHolder {
    fn from(lock: &ManualLock) -> Self {
        Self {
            lock_type: LockType::Manual,
            directory: lock.directory.to_string_lossy().into_owned(),
            by: lock.by.clone(),
            reason: lock.reason.clone(),
            since: Some(lock.since),
            until: lock.until,
            session_id: None,
            adapter: None,
            config_root: None,
            cwd: None,
            pid: None,
            status: None,
            host: crate::own_name(),
        }
    }
}

fn by_session(session: &Session, place: &Path) -> DirectoryHolder {
    let process = session.processes.iter().find(|process| Some(process.pid) == session.pid);
    DirectoryHolder {
        lock_type: LockType::Auto,
        directory: place.to_string_lossy().into_owned(),
        by: None,
        reason: None,
        since: process.and_then(|process| process.started_at),
        until: None,
        session_id: Some(session.id.clone()),
        adapter: Some(session.adapter.clone()),
        config_root: Some(session.config_root.clone()),
        cwd: session.cwd.clone(),
        pid: session.pid,
        status: Some(session.status),
        host: session.host.clone(),
    }
}

/// Why a directory was not locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("{0}")]
    Held(Box<DirectoryHolder>),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The command line and the API each add their own hint on how to take over a held lock.
impl From<LockError> for Error {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Held(holder) => Self::refused(holder.to_string()),
            LockError::Store(error) => error.into(),
        }
    }
}

/// The manual locks, and with a survey the automatic ones.
#[derive(Debug, Clone)]
pub struct Locks {
    store: Store,
}

impl Locks {
    pub fn of(store: Store) -> Self {
        Self { store }
    }

    /// Returns the manual locks in force.
    pub fn manual(&self, now: Timestamp) -> Result<Vec<ManualLock>, StoreError> {
        let mut locks = self.store.read::<LockBook>()?.locks;
        locks.retain(|lock| lock.holds(now));
        Ok(locks)
    }

    /// Locks a directory, or renews a lock of the same person; fields that are not given this time stay as they were. A
    /// lock of another person on the directory or above it refuses this, unless `force` takes over the one on the
    /// directory itself.
    pub fn lock(&self, wanted: ManualLock, force: bool) -> Result<DirectoryHolder, LockError> {
        let now = wanted.since;
        self.store.change(|book: &mut LockBook| {
            book.locks.retain(|lock| lock.holds(now));
            let of_others = |lock: &&ManualLock| covers(lock, &wanted.directory) && lock.by != wanted.by;
            if let Some(other) = book.locks.iter().find(of_others).filter(|_| !force) {
                return Err(LockError::Held(Box::new(DirectoryHolder::from(other))));
            }
            let renewed =
                book.locks.iter().find(|lock| lock.directory == wanted.directory && lock.by == wanted.by);
            let lock = match renewed.cloned() {
                Some(before) => ManualLock {
                    since: before.since,
                    reason: wanted.reason.or(before.reason),
                    until: wanted.until.or(before.until),
                    ..before
                },
                None => wanted,
            };
            let holder = DirectoryHolder::from(&lock);
            book.locks.retain(|other| other.directory != lock.directory);
            book.locks.push(lock);
            Ok(holder)
        })?
    }

    /// Removes the lock of a directory, no matter who took it; `None` if none was in force.
    pub fn unlock(&self, directory: &Path, now: Timestamp) -> Result<Option<DirectoryHolder>, StoreError> {
        // If there is nothing to remove, our directory is not needed.
        if !self.manual(now)?.iter().any(|lock| lock.directory == directory) {
            return Ok(None);
        }
        self.store.change(|book: &mut LockBook| {
            book.locks.retain(|lock| lock.holds(now));
            let index = book.locks.iter().position(|lock| lock.directory == directory);
            index.map(|index| DirectoryHolder::from(&book.locks.remove(index)))
        })
    }

    /// Returns a hint for a directory that has no lock of its own to remove.
    pub fn hint_for_unlocked(&self, directory: &Path, now: Timestamp) -> Result<String, StoreError> {
        let above = self.manual(now)?.into_iter().find(|lock| directory.starts_with(&lock.directory));
        Ok(match above {
            Some(lock) => format!("{} above it is; unlock that one", lock.directory.display()),
            None => "`agentctl locks` shows what is held, and by whom".to_owned(),
        })
    }

    /// Returns all who hold `directory`: manual locks on it or above it, and the sessions of [`session_holders`].
    /// `survey` must cover what is live; a source that it could not read holds nothing.
    pub fn holders(
        &self,
        survey: &Survey,
        directory: &Path,
        now: Timestamp,
    ) -> Result<Vec<DirectoryHolder>, StoreError> {
        let directory = real_path(directory);
        let manual = self.manual(now)?;
        let by_hand = manual.iter().filter(|lock| covers(lock, &directory)).map(DirectoryHolder::from);
        Ok(by_hand.chain(session_holders(survey, &directory)).collect())
    }

    /// Returns every directory that is held, manual locks first.
    pub fn all(&self, survey: &Survey, now: Timestamp) -> Result<Vec<DirectoryHolder>, StoreError> {
        let manual = self.manual(now)?;
        let by_session = sessions_in_place(survey).map(|(session, place)| by_session(session, &place));
        Ok(manual.iter().map(DirectoryHolder::from).chain(by_session).collect())
    }
}

/// What `locks --json` prints and `GET /v1/locks` answers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LockList {
    pub as_of: Timestamp,
    /// Manual ones first.
    pub locks: Vec<DirectoryHolder>,
    pub sources: Vec<SourceReport>,
    /// The machines that were asked.
    #[serde(default)]
    pub hosts: Vec<HostReport>,
}

impl Fleet {
    /// Returns who holds which directory now.
    pub fn held(&self, locks: &Locks, now: Timestamp) -> Result<LockList, StoreError> {
        let began = Instant::now();
        let survey = self.survey(&Query::new(Wanted::Live));
        let hosts = vec![self.own_report(now, &survey.sessions, &survey.sources, began)];
        Ok(LockList { as_of: now, locks: locks.all(&survey, now)?, sources: survey.sources, hosts })
    }
}

/// Returns the default name of the person who locks: the user that these variables name, else the user of this process.
pub fn user_of(environ: &Environ) -> String {
    let named = ["USER", "LOGNAME"].iter().find_map(|name| environ.text(name)).map(str::to_owned);
    named.unwrap_or_else(|| format!("uid {}", rustix::process::geteuid().as_raw()))
}

/// Returns the live sessions that work in the same git worktree as `directory`; outside of git, in the same directory.
pub fn session_holders(survey: &Survey, directory: &Path) -> Vec<DirectoryHolder> {
    let wanted = held_place(directory);
    let here = sessions_in_place(survey).filter(|(_, place)| *place == wanted);
    here.map(|(session, place)| by_session(session, &place)).collect()
}

/// Returns what each of these sessions holds, if it holds anything.
pub fn held_by<'s>(
    sessions: impl Iterator<Item = &'s Session>,
) -> impl Iterator<Item = (&'s Session, DirectoryHolder)> {
    in_place(sessions).map(|(session, place)| (session, by_session(session, &place)))
}

fn sessions_in_place(survey: &Survey) -> impl Iterator<Item = (&Session, PathBuf)> {
    in_place(survey.sessions.iter().map(|surveyed| &*surveyed.session))
}

fn in_place<'s>(sessions: impl Iterator<Item = &'s Session>) -> impl Iterator<Item = (&'s Session, PathBuf)> {
    let holding = sessions.filter(|session| holds(session));
    holding.filter_map(|session| Some((session, held_place(Path::new(session.cwd.as_deref()?)))))
}

/// Only local processes hold directories, and a sub-agent works in its parent's. If the owner of a session of this
/// machine cannot be seen, it may exist, so the directory counts as held. The root of a gateway is no path.
fn holds(session: &Session) -> bool {
    let local = session.pid.is_some()
        || (session.status == Status::Unknown && Path::new(&session.config_root).is_absolute());
    session.is_live() && local && !session.is_subagent()
}

fn covers(lock: &ManualLock, directory: &Path) -> bool {
    directory.starts_with(&lock.directory)
}

#[cfg(test)]
#[path = "locks_tests.rs"]
mod tests;
