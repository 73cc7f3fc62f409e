//! The outbox: one file per webhook that is not delivered yet, named so that the order of names is their order.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{clock, store};

/// The first wait after a failure; each further one is twice as long, up to the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// Given up after so many tries, about two hours.
const TRIES: u32 = 30;
/// More than this is not kept: the oldest are given up.
const MOST: usize = 10_000;

/// A webhook as it lies on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delivery {
    version: u32,
    pub(crate) id: String,
    /// Deliveries of one order are made one after the other.
    pub(crate) order: String,
    /// Where to, if not where the settings say.
    pub(crate) url: Option<String>,
    tries: u32,
    /// Exactly what is sent, each time.
    pub(crate) body: String,
}

#[derive(Debug)]
struct Waiting {
    order: String,
    tries: u32,
    not_before: Instant,
    under_way: bool,
}

#[derive(Debug, Default)]
struct Queue {
    /// By file name, which is by age.
    waiting: BTreeMap<String, Waiting>,
    dead: usize,
    last_error: Option<String>,
    closed: bool,
}

/// For `daemon status`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutboxStatus {
    pub pending: usize,
    /// Given up after many tries; their files lie in `outbox/dead`.
    pub dead: usize,
    pub last_error: Option<String>,
}

pub(crate) struct Outbox {
    folder: PathBuf,
    queue: Mutex<Queue>,
    news: Condvar,
}

impl Outbox {
    /// What an earlier daemon or a runner left is tried at once.
    pub(crate) fn open(folder: PathBuf) -> io::Result<Self> {
        for path in [&folder, &folder.join("dead")] {
            match fs::DirBuilder::new().mode(0o700).create(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        store::sweep(&folder);
        let mut queue = Queue { dead: fs::read_dir(folder.join("dead"))?.count(), ..Queue::default() };
        for entry in fs::read_dir(&folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if let Some(delivery) = read(&folder.join(&name)) {
                queue.waiting.insert(name, Waiting::new(&delivery));
            }
        }
        Ok(Self { folder, queue: Mutex::new(queue), news: Condvar::new() })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a webhook on. When this returns it is on disk. The id makes a second call with the same one harmless.
    pub(crate) fn put(&self, id: &str, order: &str, url: Option<String>, body: String) -> io::Result<()> {
        let mut queue = self.queue();
        if queue.waiting.keys().any(|name| name.ends_with(&format!("-{id}.json"))) {
            return Ok(());
        }
        let delivery =
            Delivery { version: 1, id: id.to_owned(), order: order.to_owned(), url, tries: 0, body };
        let millis = clock::now().as_millisecond();
        // Two in one millisecond keep their order, and a clock that was set back does not change it.
        let newest = queue.waiting.last_key_value().and_then(|(name, _)| name.get(..20)?.parse::<i64>().ok());
        let number = newest.map_or(millis * 1000, |newest| newest.max(millis * 1000 - 1) + 1);
        let name = format!("{number:020}-{id}.json");
        store::replace(&self.folder.join(&name), &serde_json::to_vec(&delivery)?, "outbox")?;
        queue.waiting.insert(name, Waiting::new(&delivery));
        if queue.waiting.len() > MOST
            && let Some((oldest, _)) = queue.waiting.pop_first()
        {
            self.bury(&oldest, &mut queue);
        }
        drop(queue);
        self.news.notify_all();
        Ok(())
    }

    pub(crate) fn status(&self) -> OutboxStatus {
        let queue = self.queue();
        OutboxStatus { pending: queue.waiting.len(), dead: queue.dead, last_error: queue.last_error.clone() }
    }

    pub(crate) fn close(&self) {
        self.queue().closed = true;
        self.news.notify_all();
    }

    /// The next webhook whose time has come: the oldest of its order, and none of that order under way. Waits for one;
    /// `None` when the outbox was closed.
    pub(super) fn next(&self) -> Option<(String, Delivery)> {
        let mut queue = self.queue();
        loop {
            if queue.closed {
                return None;
            }
            let now = Instant::now();
            let mut orders: Vec<&str> = Vec::new();
            let mut due = None;
            let mut soonest: Option<Instant> = None;
            for (name, waiting) in &queue.waiting {
                if orders.contains(&waiting.order.as_str()) {
                    continue;
                }
                orders.push(&waiting.order);
                if waiting.under_way {
                    continue;
                }
                if waiting.not_before <= now {
                    due = Some(name.clone());
                    break;
                }
                soonest = Some(soonest.map_or(waiting.not_before, |known| known.min(waiting.not_before)));
            }
            if let Some(name) = due {
                match read(&self.folder.join(&name)) {
                    Some(delivery) => {
                        if let Some(waiting) = queue.waiting.get_mut(&name) {
                            waiting.under_way = true;
                        }
                        return Some((name, delivery));
                    }
                    // Somebody removed it by hand.
                    None => drop(queue.waiting.remove(&name)),
                }
                continue;
            }
            let wait = soonest.map_or(LONGEST_WAIT, |soonest| soonest.saturating_duration_since(now));
            queue = self.news.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn delivered(&self, name: &str) -> io::Result<()> {
        store::remove(&self.folder.join(name), "delivered")?;
        let mut queue = self.queue();
        queue.waiting.remove(name);
        queue.last_error = None;
        drop(queue);
        self.news.notify_all();
        Ok(())
    }

    /// Tried in vain. Says whether it was given up.
    pub(super) fn failed(&self, name: &str, mut delivery: Delivery, why: String) -> io::Result<bool> {
        delivery.tries += 1;
        let given_up = delivery.tries >= TRIES;
        if !given_up {
            store::replace(&self.folder.join(name), &serde_json::to_vec(&delivery)?, "retry")?;
        }
        let mut queue = self.queue();
        queue.last_error = Some(why);
        if given_up {
            queue.waiting.remove(name);
            self.bury(name, &mut queue);
        } else if let Some(waiting) = queue.waiting.get_mut(name) {
            waiting.tries = delivery.tries;
            waiting.under_way = false;
            waiting.not_before = Instant::now() + wait_after(delivery.tries);
        }
        drop(queue);
        self.news.notify_all();
        Ok(given_up)
    }

    fn bury(&self, name: &str, queue: &mut Queue) {
        // A file that cannot be moved is tried again by the next daemon, which is no loss.
        if fs::rename(self.folder.join(name), self.folder.join("dead").join(name)).is_ok() {
            queue.dead += 1;
        }
    }
}

impl Waiting {
    fn new(delivery: &Delivery) -> Self {
        let (order, tries) = (delivery.order.clone(), delivery.tries);
        Self { order, tries, not_before: Instant::now(), under_way: false }
    }
}

fn wait_after(tries: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(LONGEST_WAIT)
}

fn read(path: &Path) -> Option<Delivery> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox(place: &tempfile::TempDir) -> Outbox {
        Outbox::open(place.path().join("outbox")).unwrap()
    }

    #[test]
    fn the_order_of_a_session_is_kept_and_others_do_not_wait_for_it() {
        let place = tempfile::tempdir().unwrap();
        let outbox = outbox(&place);
        for (id, order) in [("1", "a"), ("2", "a"), ("3", "b")] {
            outbox.put(id, order, None, "{}".into()).unwrap();
        }
        outbox.put("2", "a", None, "{}".into()).unwrap();
        assert_eq!(outbox.status().pending, 3, "one id is one webhook");
        let (first, delivery) = outbox.next().unwrap();
        assert_eq!(delivery.id, "1");
        assert_eq!(outbox.next().unwrap().1.id, "3", "the second of `a` waits for the first");
        assert!(!outbox.failed(&first, delivery, "no".into()).unwrap());
        assert_eq!(outbox.next().unwrap().1.id, "1", "and after a failure too");
        outbox.delivered(&first).unwrap();
        assert_eq!(outbox.next().unwrap().1.id, "2");
    }

    #[test]
    fn what_was_taken_on_survives_and_is_given_up_only_after_many_tries() {
        let place = tempfile::tempdir().unwrap();
        outbox(&place).put("1", "a", Some("http://x".into()), "{\"x\":1}".into()).unwrap();
        for tries in 1..=TRIES {
            let again = outbox(&place);
            assert_eq!(again.status().pending, 1);
            let (name, delivery) = again.next().unwrap();
            assert_eq!((delivery.tries, delivery.body.as_str()), (tries - 1, "{\"x\":1}"));
            assert_eq!(again.failed(&name, delivery, "no".into()).unwrap(), tries == TRIES);
        }
        let status = outbox(&place).status();
        assert_eq!((status.pending, status.dead), (0, 1));
    }

    #[test]
    fn waits_double_up_to_five_minutes() {
        let waits: Vec<u64> = (1..12).map(|tries| wait_after(tries).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }
}
