//! The outbox: webhooks that are not delivered yet, one file each in `outbox/`. Sorting the names gives the order of
//! the events.
//!
//! The process that sees an event writes it: the daemon writes the events of its surveys, a runner the end of its own
//! agent. Only the daemon sends.

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

/// The name of this directory in agentctl's own.
pub const FOLDER: &str = "outbox";

/// The directory of webhooks that were given up.
const DEAD: &str = "dead";

/// Writing one takes milliseconds, so a process that holds the lock this long is stopped or broken.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of digits at the beginning of a name.
const DIGITS: usize = 20;

/// The largest file that is read; ours are never that large.
const LARGEST: u64 = 64 << 20;

const VERSION: u32 = 1;

/// A webhook as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    version: u32,
    /// The id by which a receiver recognises a repeated delivery.
    pub id: String,
    /// Deliveries with the same value are sent one after the other.
    pub order: String,
    /// The address, if it is not the one in the settings.
    pub url: Option<String>,
    #[serde(default)]
    pub signature: Signature,
    pub tries: u32,
    /// Exactly what is sent at every attempt; of a notice what its provider's request is made of.
    pub body: String,
    /// The provider of a notice; a webhook has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// Whose secret signs a webhook. The secret itself is never written down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signature {
    /// The sender's secret, as its settings are when it sends.
    #[default]
    BySender,
    /// The signature was made by the process that stored the webhook, which may have been the only one to know the
    /// secret.
    Given(String),
    /// The process that stored the webhook has no secret.
    None,
}

impl Delivery {
    pub fn new(id: &str, order: &str, url: Option<String>, body: String) -> Self {
        let (id, order) = (id.to_owned(), order.to_owned());
        Self {
            version: VERSION,
            id,
            order,
            url,
            signature: Signature::BySender,
            tries: 0,
            body,
            notice: None,
        }
    }

    /// A notice for this provider, in the place of a webhook.
    #[must_use]
    pub fn for_notice(self, provider: &str) -> Self {
        Self { notice: Some(provider.to_owned()), signature: Signature::None, ..self }
    }

    /// Fixes the address and signs now, for settings that the sender may not have.
    #[must_use]
    pub fn sealed(self, url: &str, secret: Option<&str>) -> Self {
        let signature =
            secret.map_or(Signature::None, |secret| Signature::Given(sign(secret, self.body.as_bytes())));
        Self { url: Some(url.to_owned()), signature, ..self }
    }
}

/// The outbox directory.
#[derive(Debug, Clone)]
pub struct OutboxFolder {
    path: PathBuf,
}

impl OutboxFolder {
    /// Returns the outbox in this home of agentctl.
    pub fn of(home: &Path) -> Self {
        Self { path: home.join(FOLDER) }
    }

    /// Makes the directory if necessary, and removes files that were never finished.
    pub fn prepare(&self) -> io::Result<()> {
        for path in [&self.path, &self.path.join(DEAD)] {
            own::make_folder(path)?;
        }
        let _lock = self.lock()?;
        for name in file_names(&self.path)?.filter(|name| whole_file::is_half(name)) {
            // Such a file is never read, so it does no harm if it stays.
            let _ = fs::remove_file(self.path.join(name));
        }
        Ok(())
    }

    /// Stores a webhook and returns the name of its file. When this returns, the file is on disk. If there is a file
    /// with this id already, it is the same webhook.
    pub fn put(&self, delivery: &Delivery, now: Timestamp) -> io::Result<String> {
        let _lock = self.lock()?;
        let names = self.names()?;
        if let Some(known) = names.iter().find(|name| id_of(name) == Some(&delivery.id)) {
            return Ok(known.clone());
        }
        let micros = now.as_microsecond();
        // Two webhooks of the same moment keep their order, and setting the clock back does not change it.
        let newest = names.last().and_then(|name| name.get(..DIGITS)?.parse::<i64>().ok());
        let number = newest.map_or(micros, |newest| micros.max(newest + 1));
        let name = format!("{number:0DIGITS$}-{}.json", delivery.id);
        self.write(&name, delivery, "outbox")?;
        Ok(name)
    }

    /// Records how often it was tried.
    pub fn note(&self, name: &str, delivery: &Delivery) -> io::Result<()> {
        let _lock = self.lock()?;
        self.write(name, delivery, "retry")
    }

    fn write(&self, name: &str, delivery: &Delivery, what: &str) -> io::Result<()> {
        whole_file::replace(&self.path.join(name), &serde_json::to_vec(delivery)?, what)
    }

    /// Returns the webhooks that wait, oldest first.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = file_names(&self.path)?.filter(|name| id_of(name).is_some()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Returns `None` if it is gone, or if agentctl did not write it.
    pub fn read(&self, name: &str) -> Option<Delivery> {
        serde_json::from_slice(&own::read(&self.path.join(name), LARGEST).ok()?).ok()
    }

    /// Removes a webhook that was delivered.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        whole_file::remove(&self.path.join(name), "delivered")
    }

    /// Gives a webhook up and keeps it for a person to look at. Only the newest of these are kept.
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

    /// How many webhooks were given up and are still stored.
    pub fn dead(&self) -> usize {
        file_names(&self.path.join(DEAD)).map_or(0, Iterator::count)
    }

    fn lock(&self) -> io::Result<KernelLock> {
        let held = KernelLock::on_folder(&self.path, LOCK_TIMEOUT)?;
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
