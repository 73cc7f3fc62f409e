//! Fuses: timers on directories, limits on sessions, budgets of directories, resumes at a time. Deadlines are absolute and stored on disk, so they
//! survive the daemon. A fuse that expired while the daemon was down fires once when it is back.

mod budgets;
mod expiry;
mod idle_servers;
mod limits;
mod plans;
mod spec;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use agentctl_fleet::keep::fuses::FuseBook;
use agentctl_fleet::keep::whole_file;
use agentctl_fleet::{Document, Store, StoreError};
use agentctl_model::{Fuse, Stage};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::home::Home;
use crate::run::clock;

pub(crate) use expiry::{run_fuses, session_of, tell};
pub use limits::SessionStopper;
pub use spec::deadline;
pub(crate) use spec::{Extension, FuseSpec};

/// What `fuses --json` prints and `GET /v1/fuses` answers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuseList {
    /// The clock by which they burn.
    pub as_of: Timestamp,
    /// The next to expire first.
    pub fuses: Vec<Fuse>,
}

impl FuseList {
    fn of(fuses: impl Iterator<Item = Fuse>) -> Self {
        let mut fuses: Vec<Fuse> = fuses.collect();
        fuses.sort_by_key(|fuse| (fuse.expires_at.unwrap_or(Timestamp::MAX), fuse.set_at));
        Self { as_of: clock::now(), fuses }
    }

    /// Reads the fuses that are set, whether or not a daemon runs: the daemon writes every fuse to disk
    /// before it keeps it in memory.
    pub fn read(store: &Store) -> Result<Self, StoreError> {
        Ok(Self::of(store.read::<FuseBook>()?.fuses.into_iter()))
    }
}

pub(crate) const FILE: &str = FuseBook::FILE;

#[derive(Debug, Default)]
struct ActiveFuses {
    /// `None` while the file cannot be read. Then no fuse is known, none expires, and the file is not
    /// overwritten.
    fuses: Option<BTreeMap<String, Fuse>>,
    closed: bool,
}

/// The fuses, for the process that holds the daemon's lock.
pub struct Fuses {
    home: Home,
    active: Mutex<ActiveFuses>,
    news: Condvar,
}

impl Fuses {
    /// Only the process that [holds](Home::hold) the folder may call this: of two writers, each would lose
    /// the other's fuses.
    pub fn open(home: &Home) -> Result<Self, StoreError> {
        let fuses = Self::at(home);
        fuses.known()?;
        Ok(fuses)
    }

    /// Does the same, but tolerates a damaged file: it is read once it has been repaired or moved away.
    pub(crate) fn at(home: &Home) -> Self {
        whole_file::forget_half(&home.fuses());
        Self { home: home.clone(), active: Mutex::default(), news: Condvar::new() }
    }

    /// For a process that only reads them. Its writes are refused before they come here.
    pub(crate) fn to_read(home: &Home) -> Self {
        Self { home: home.clone(), active: Mutex::default(), news: Condvar::new() }
    }

    /// Returns the fuses, and reads the file if it could not be read before.
    fn known(&self) -> Result<BTreeMap<String, Fuse>, StoreError> {
        let mut active = self.active();
        if active.fuses.is_none() {
            let stored: FuseBook = Store::at(self.home.folder()).read()?;
            active.fuses = Some(stored.fuses.into_iter().map(|fuse| (fuse.id.clone(), fuse)).collect());
        }
        Ok(active.fuses.clone().unwrap_or_default())
    }

    fn active(&self) -> MutexGuard<'_, ActiveFuses> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Result<FuseList, StoreError> {
        Ok(FuseList::of(self.known()?.into_values()))
    }

    pub(crate) fn count(&self) -> usize {
        self.active().fuses.as_ref().map_or(0, BTreeMap::len)
    }

    fn has(&self, id: &str) -> bool {
        self.active().fuses.as_ref().is_some_and(|fuses| fuses.contains_key(id))
    }

    pub(crate) fn close(&self) {
        self.active().closed = true;
        self.news.notify_all();
    }

    /// The fuse with this id.
    pub(crate) fn get(&self, id: &str) -> Option<Fuse> {
        self.known().ok()?.remove(id)
    }

    /// Sets a fuse and replaces one that is about the same. The fuse is on disk when this returns.
    /// `tell` runs before the fuse itself can do anything.
    pub(crate) fn set(&self, fuse: Fuse, tell: impl FnOnce()) -> io::Result<()> {
        let set = |fuses: &mut BTreeMap<String, Fuse>| {
            fuses.retain(|_, known| !known.is_about(&fuse));
            fuses.insert(fuse.id.clone(), fuse);
        };
        self.change_and_tell(set, tell)
    }

    /// Changes one fuse. Returns `None` when it is no longer set.
    pub(crate) fn update(&self, id: &str, change: impl FnOnce(&mut Fuse)) -> io::Result<Option<Fuse>> {
        let mut changed = None;
        self.change(|fuses| {
            if let Some(fuse) = fuses.get_mut(id) {
                change(fuse);
                changed = Some(fuse.clone());
            }
        })?;
        Ok(changed)
    }

    /// Removes a fuse without firing it. Returns `None` when it is no longer set.
    pub fn remove(&self, id: &str) -> io::Result<Option<Fuse>> {
        let mut removed = None;
        self.change(|fuses| removed = fuses.remove(id))?;
        Ok(removed)
    }

    /// Extends a fuse until then. Returns `None` when it is no longer set, already fires, or has no time
    /// limit to extend.
    pub fn extend(&self, id: &str, now: Timestamp, until: Timestamp) -> io::Result<Option<Fuse>> {
        let mut extensible = true;
        let changed = self.update(id, |fuse| {
            extensible = fuse.stage != Stage::Firing
                && !fuse.is_budget()
                && (fuse.expires_at.is_some() || fuse.directory.is_some());
            if extensible {
                fuse.expires_at = Some(until);
                fuse.stage = Stage::Set;
                fuse.stage_at = now;
            }
        })?;
        Ok(changed.filter(|_| extensible))
    }

    /// Memory changes only after the disk: a change that could not be written did not happen.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Fuse>)) -> io::Result<()> {
        self.change_and_tell(change, || {})
    }

    fn change_and_tell(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, Fuse>),
        tell: impl FnOnce(),
    ) -> io::Result<()> {
        self.known().map_err(io::Error::other)?;
        let mut active = self.active();
        let before = active.fuses.clone().unwrap_or_default();
        let mut fuses = before.clone();
        change(&mut fuses);
        if fuses != before {
            let written: Vec<&Fuse> = fuses.values().collect();
            let book = serde_json::json!({"version": FuseBook::VERSION, "fuses": written});
            whole_file::replace(&self.home.fuses(), &serde_json::to_vec_pretty(&book)?, "fuses")?;
            active.fuses = Some(fuses);
        }
        tell();
        drop(active);
        self.news.notify_all();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use agentctl_model::{OnExpire, Period};

    use super::*;

    #[test]
    fn fuses_survive_and_one_on_the_same_directory_makes_way() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::at(place.path());
        let now = Timestamp::UNIX_EPOCH;
        let fuse = |id: &str, directory: &str| Fuse {
            id: id.into(),
            directory: Some(directory.into()),
            session_id: None,
            adapter: None,
            config_root: None,
            variant: None,
            label: None,
            set_at: now,
            expires_at: Some(now),
            max_tokens: None,
            max_cost: None,
            per: None,
            on_expire: OnExpire::default(),
            stage: Stage::Set,
            stage_at: now,
            spent: None,
            resume: None,
        };
        let fuses = Fuses::open(&home).unwrap();
        fuses.set(fuse("1", "/a"), || {}).unwrap();
        fuses.set(fuse("2", "/b"), || {}).unwrap();
        fuses.set(fuse("3", "/a"), || {}).unwrap();
        let ids = |fuses: &Fuses| {
            fuses.all().unwrap().fuses.into_iter().map(|fuse| fuse.id).collect::<Vec<_>>().concat()
        };
        assert_eq!(ids(&fuses), "23");
        assert_eq!(ids(&Fuses::open(&home).unwrap()), "23");
        // Budgets stand beside timers, one for each period and agent.
        let budget = |id: &str, per, adapter: Option<&str>| {
            let adapter = adapter.map(str::to_owned);
            Fuse { per: Some(per), expires_at: None, max_cost: Some(2.0), adapter, ..fuse(id, "/a") }
        };
        fuses.set(budget("5", Period::Day, None), || {}).unwrap();
        fuses.set(budget("6", Period::Week, None), || {}).unwrap();
        fuses.set(budget("7", Period::Day, Some("pi")), || {}).unwrap();
        fuses.set(budget("8", Period::Day, None), || {}).unwrap();
        assert_eq!(ids(&fuses), "23678");
        assert!(fuses.extend("8", now, now).unwrap().is_none(), "a budget has no end that could be later");
        for id in ["6", "7", "8"] {
            assert!(fuses.remove(id).unwrap().is_some());
        }
        assert!(fuses.remove("2").unwrap().is_some() && fuses.remove("2").unwrap().is_none());
        assert_eq!(ids(&Fuses::open(&home).unwrap()), "3");
        std::fs::write(home.fuses(), r#"{"version":9,"fuses":[]}"#).unwrap();
        assert!(Fuses::open(&home).is_err_and(|error| error.to_string().contains("version 9")));

        let damaged = r#"{"version":1,"fuses":[{"#;
        std::fs::write(home.fuses(), damaged).unwrap();
        let fuses = Fuses::at(&home);
        assert!(
            fuses.all().is_err() && fuses.set(fuse("4", "/c"), || {}).is_err() && fuses.remove("3").is_err()
        );
        assert_eq!(std::fs::read_to_string(home.fuses()).unwrap(), damaged, "nothing is written over it");
        std::fs::remove_file(home.fuses()).unwrap();
        fuses.set(fuse("4", "/c"), || {}).unwrap();
        assert_eq!(ids(&fuses), "4", "once it is gone all is well");
    }
}
