//! Fuses: timers on directories and limits on sessions. Deadlines are absolute and on disk, so they survive the daemon;
//! what expired while it was down fires once when it is back.

mod burn;
mod limits;
mod spec;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use agentctl_fleet::whole_file;
use agentctl_model::SessionKey;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::home::Home;

pub(crate) use burn::{keep_burning, tell};
pub use limits::Hands;
pub(crate) use spec::{Extension, FuseSpec, deadline};

/// How far a fuse has burnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stage {
    Set,
    /// Four fifths of a session's limit are used.
    Warned,
    /// The limit was reached, and whoever is to hear of it is told.
    Reached,
    /// The session was asked to break off.
    Interrupted,
    /// What happens at the end is happening.
    Firing,
}

/// What happens when a fuse expires, beside the event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OnExpire {
    /// A command line of the shell, run in the directory.
    pub(crate) script: Option<String>,
    /// An address that is told.
    pub(crate) webhook: Option<String>,
    /// A name for whoever reads the event.
    pub(crate) event: Option<String>,
}

/// One fuse, as it is shown and as it lies on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Fuse {
    pub(crate) id: String,
    /// Of a directory's fuse.
    pub(crate) directory: Option<String>,
    /// Of a session's fuse.
    pub(crate) session_id: Option<String>,
    pub(crate) adapter: Option<String>,
    pub(crate) config_root: Option<String>,
    slot: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) set_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) max_cost: Option<f64>,
    pub(crate) on_expire: OnExpire,
    pub(crate) stage: Stage,
    /// When that stage was reached.
    pub(crate) stage_at: Timestamp,
}

impl Fuse {
    pub(crate) fn session(&self) -> Option<SessionKey> {
        Some(SessionKey {
            adapter: self.adapter.clone()?,
            root: self.config_root.clone()?,
            id: self.session_id.clone()?,
            slot: self.slot.clone(),
        })
    }

    fn is_about(&self, other: &Self) -> bool {
        match &self.directory {
            Some(directory) => other.directory.as_ref() == Some(directory),
            None => self.session() == other.session(),
        }
    }
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    version: u32,
    fuses: Vec<Fuse>,
}

const VERSION: u32 = 1;

#[derive(Debug, Default)]
struct Burning {
    fuses: BTreeMap<String, Fuse>,
    closed: bool,
}

pub(crate) struct Fuses {
    path: PathBuf,
    home: PathBuf,
    burning: Mutex<Burning>,
    news: Condvar,
}

impl Fuses {
    pub(crate) fn open(home: &Home) -> io::Result<Self> {
        let path = home.fuses();
        whole_file::forget_half(&path);
        let stored = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Stored { version: VERSION, fuses: vec![] }
            }
            Err(error) => return Err(error),
        };
        if stored.version != VERSION {
            let words = format!("it has version {}, this agentctl knows {VERSION}", stored.version);
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        let fuses = stored.fuses.into_iter().map(|fuse| (fuse.id.clone(), fuse)).collect();
        let burning = Mutex::new(Burning { fuses, closed: false });
        Ok(Self { path, home: home.folder().to_owned(), burning, news: Condvar::new() })
    }

    fn burning(&self) -> MutexGuard<'_, Burning> {
        self.burning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that are set, the next to expire first.
    pub(crate) fn all(&self) -> Vec<Fuse> {
        let mut fuses: Vec<Fuse> = self.burning().fuses.values().cloned().collect();
        fuses.sort_by_key(|fuse| (fuse.expires_at.unwrap_or(Timestamp::MAX), fuse.set_at));
        fuses
    }

    pub(crate) fn count(&self) -> usize {
        self.burning().fuses.len()
    }

    pub(crate) fn close(&self) {
        self.burning().closed = true;
        self.news.notify_all();
    }

    /// Sets a fuse; one on the same thing makes way. On disk when this returns.
    pub(crate) fn set(&self, fuse: Fuse) -> io::Result<()> {
        self.change(|fuses| {
            fuses.retain(|_, known| !known.is_about(&fuse));
            fuses.insert(fuse.id.clone(), fuse);
        })
    }

    /// Changes one fuse; `None` when it is not set any more.
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

    pub(crate) fn remove(&self, id: &str) -> io::Result<Option<Fuse>> {
        let mut removed = None;
        self.change(|fuses| removed = fuses.remove(id))?;
        Ok(removed)
    }

    /// Memory follows the disk: what could not be written did not happen.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Fuse>)) -> io::Result<()> {
        let mut burning = self.burning();
        let mut fuses = burning.fuses.clone();
        change(&mut fuses);
        if fuses != burning.fuses {
            let stored = Stored { version: VERSION, fuses: fuses.values().cloned().collect() };
            whole_file::replace(&self.path, &serde_json::to_vec_pretty(&stored)?, "fuses")?;
            burning.fuses = fuses;
        }
        drop(burning);
        self.news.notify_all();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
            slot: None,
            label: None,
            set_at: now,
            expires_at: Some(now),
            max_tokens: None,
            max_cost: None,
            on_expire: OnExpire::default(),
            stage: Stage::Set,
            stage_at: now,
        };
        let fuses = Fuses::open(&home).unwrap();
        fuses.set(fuse("1", "/a")).unwrap();
        fuses.set(fuse("2", "/b")).unwrap();
        fuses.set(fuse("3", "/a")).unwrap();
        let ids = |fuses: &Fuses| fuses.all().into_iter().map(|fuse| fuse.id).collect::<Vec<_>>().concat();
        assert_eq!(ids(&fuses), "23");
        assert_eq!(ids(&Fuses::open(&home).unwrap()), "23");
        assert!(fuses.remove("2").unwrap().is_some() && fuses.remove("2").unwrap().is_none());
        assert_eq!(ids(&Fuses::open(&home).unwrap()), "3");
        fs::write(home.fuses(), r#"{"version":9,"fuses":[]}"#).unwrap();
        assert!(Fuses::open(&home).is_err_and(|error| error.to_string().contains("version 9")));
    }
}
