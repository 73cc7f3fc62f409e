//! The outbox: webhooks that are not delivered yet, one file each in `outbox/`, named so that the order of names is the
//! order of what happened.
//!
//! Whoever saw it happen writes it: the daemon what it is told, a runner the end of its own agent. Sending is the
//! daemon's alone.

mod address;
mod body;
mod payload;
mod signature;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_files::own;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::keep::kernel_lock::KernelLock;
use crate::keep::whole_file;

pub use address::is_address;
pub use body::{body, duration};
pub use payload::Payload;
pub use signature::sign;

/// The name of the folder in agentctl's own.
pub const FOLDER: &str = "outbox";

/// Where those lie that were given up.
const DEAD: &str = "dead";

/// Writing one takes milliseconds; whoever has the lock this long is stopped or broken.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many digits begin a name.
const DIGITS: usize = 20;

/// The largest that is read; none of ours is.
const LARGEST: u64 = 64 << 20;

const VERSION: u32 = 1;

/// A webhook as it lies on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    version: u32,
    /// By which a receiver knows it again.
    pub id: String,
    /// Deliveries of one order are made one after the other.
    pub order: String,
    /// Where to, if not where the settings say.
    pub url: Option<String>,
    #[serde(default)]
    pub signature: Signature,
    pub tries: u32,
    /// Exactly what is sent, each time.
    pub body: String,
}

/// By whose secret a webhook is signed. The secret itself is never written down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signature {
    /// By that of whoever sends it, as its settings are then.
    #[default]
    BySender,
    /// By that of whoever took it on, who may have been the only one to know it.
    Given(String),
    /// Whoever took it on has none.
    None,
}

impl Delivery {
    pub fn new(id: &str, order: &str, url: Option<String>, body: String) -> Self {
        let (id, order) = (id.to_owned(), order.to_owned());
        Self { version: VERSION, id, order, url, signature: Signature::BySender, tries: 0, body }
    }

    /// For settings that whoever sends it may not have: where to, and signed now.
    #[must_use]
    pub fn sealed(self, url: &str, secret: Option<&str>) -> Self {
        let signature =
            secret.map_or(Signature::None, |secret| Signature::Given(sign(secret, self.body.as_bytes())));
        Self { url: Some(url.to_owned()), signature, ..self }
    }
}

/// The outbox on disk.
#[derive(Debug, Clone)]
pub struct OutboxFolder {
    path: PathBuf,
}

impl OutboxFolder {
    /// The one in this folder of agentctl.
    pub fn of(home: &Path) -> Self {
        Self { path: home.join(FOLDER) }
    }

    /// Makes it if need be, and takes away what was never finished.
    pub fn prepare(&self) -> io::Result<()> {
        for path in [&self.path, &self.path.join(DEAD)] {
            own::make_folder(path)?;
        }
        let _alone = self.alone()?;
        for name in file_names(&self.path)?.filter(|name| whole_file::is_half(name)) {
            // Never read, so one that stays does no harm.
            let _ = fs::remove_file(self.path.join(name));
        }
        Ok(())
    }

    /// Takes a webhook on, and gives the name of its file. When this returns it is on disk. One with this id that is there
    /// already is the same one.
    pub fn put(&self, delivery: &Delivery, now: Timestamp) -> io::Result<String> {
        let _alone = self.alone()?;
        let names = self.names()?;
        if let Some(known) = names.iter().find(|name| id_of(name) == Some(&delivery.id)) {
            return Ok(known.clone());
        }
        let micros = now.as_microsecond();
        // Two at the same moment keep their order, and a clock that was set back does not change it.
        let newest = names.last().and_then(|name| name.get(..DIGITS)?.parse::<i64>().ok());
        let number = newest.map_or(micros, |newest| micros.max(newest + 1));
        let name = format!("{number:0DIGITS$}-{}.json", delivery.id);
        self.write(&name, delivery, "outbox")?;
        Ok(name)
    }

    /// Writes down how often it was tried.
    pub fn note(&self, name: &str, delivery: &Delivery) -> io::Result<()> {
        let _alone = self.alone()?;
        self.write(name, delivery, "retry")
    }

    fn write(&self, name: &str, delivery: &Delivery, what: &str) -> io::Result<()> {
        whole_file::replace(&self.path.join(name), &serde_json::to_vec(delivery)?, what)
    }

    /// Those that wait, the oldest first.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = file_names(&self.path)?.filter(|name| id_of(name).is_some()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// `None`: it is gone, or nobody of ours wrote it.
    pub fn read(&self, name: &str) -> Option<Delivery> {
        serde_json::from_slice(&own::read(&self.path.join(name), LARGEST).ok()?).ok()
    }

    /// It was delivered.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        whole_file::remove(&self.path.join(name), "delivered")
    }

    /// It is given up: laid aside for a person to look at. Of those only the newest are kept.
    pub fn give_up(&self, name: &str, most: usize) -> io::Result<()> {
        let dead = self.path.join(DEAD);
        fs::rename(self.path.join(name), dead.join(name))?;
        let mut names: Vec<String> = file_names(&dead)?.collect();
        names.sort_unstable();
        for old in names.iter().take(names.len().saturating_sub(most)) {
            let _ = fs::remove_file(dead.join(old));
        }
        Ok(())
    }

    /// How many were given up and still lie there.
    pub fn dead(&self) -> usize {
        file_names(&self.path.join(DEAD)).map_or(0, Iterator::count)
    }

    fn alone(&self) -> io::Result<KernelLock> {
        let held = KernelLock::on_folder(&self.path, PATIENCE)?;
        held.ok_or_else(|| {
            io::Error::other(format!("another process holds {} for too long", self.path.display()))
        })
    }
}

fn file_names(folder: &Path) -> io::Result<impl Iterator<Item = String> + use<>> {
    Ok(own::entries(folder)?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()))
}

/// The id in the name of a webhook's file; other files have none.
fn id_of(name: &str) -> Option<&str> {
    let (number, rest) = name.split_at_checked(DIGITS)?;
    number.parse::<u64>().ok()?;
    rest.strip_prefix('-')?.strip_suffix(".json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn names_are_in_order_whatever_the_clock_does_and_one_id_is_one_webhook() {
        let place = tempfile::tempdir().unwrap();
        let outbox = OutboxFolder::of(place.path());
        outbox.prepare().unwrap();
        let put = |id: &str, millis| {
            outbox.put(&Delivery::new(id, "a", None, "{}".into()), at(millis)).unwrap();
        };
        for (id, millis) in [("x-1", 5_000), ("1", 5_000), ("2", 4_000), ("x-1", 9_000)] {
            put(id, millis);
        }
        let ids: Vec<String> =
            outbox.names().unwrap().iter().map(|name| outbox.read(name).unwrap().id).collect();
        assert_eq!(ids, ["x-1", "1", "2"]);
        fs::write(place.path().join("outbox/00000000000000000009-z.json.new"), "{").unwrap();
        fs::write(place.path().join("outbox/notes"), "mine").unwrap();
        outbox.prepare().unwrap();
        assert_eq!(outbox.names().unwrap().len(), 3);
        assert_eq!(fs::read_dir(place.path().join("outbox")).unwrap().count(), 5, "what is not ours stays");
    }

    #[test]
    fn of_the_dead_only_the_newest_are_kept() {
        let place = tempfile::tempdir().unwrap();
        let outbox = OutboxFolder::of(place.path());
        outbox.prepare().unwrap();
        for number in 0..5 {
            let id = number.to_string();
            let name = outbox.put(&Delivery::new(&id, "a", None, "{}".into()), at(number)).unwrap();
            outbox.give_up(&name, 3).unwrap();
        }
        assert_eq!((outbox.dead(), outbox.names().unwrap().len()), (3, 0));
    }
}
