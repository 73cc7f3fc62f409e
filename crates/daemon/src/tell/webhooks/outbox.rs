//! Decides which webhook is sent next: one at a time per order key, each retried with a growing delay until
//! it is accepted. The `fleet` crate owns the files on disk; nothing in memory here is needed to continue
//! after a crash.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agentctl_fleet::keep::outbox::{Delivery, OutboxFolder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run::clock;
use crate::tell::notices::presets::{Kept, Preset};

/// The delay after the first failure. It doubles with each further failure, up to the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// A webhook is given up after this many tries, which take about two hours.
const TRIES: u32 = 30;
/// The largest number of waiting webhooks; above it the oldest are given up.
const MOST: usize = 10_000;
/// How many abandoned webhooks stay on disk.
const MOST_DEAD: usize = 1000;

#[derive(Debug)]
struct Waiting {
    order: String,
    not_before: Instant,
    under_way: bool,
    tries: u32,
    /// The delivery itself, if it could not be written to disk and exists only in memory.
    unwritten: Option<Delivery>,
}

#[derive(Debug, Default)]
struct Queue {
    /// By file name, which sorts by age.
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
    folder: OutboxFolder,
    queue: Mutex<Queue>,
    news: Condvar,
}

impl Outbox {
    /// Webhooks that an earlier daemon or a runner left behind are tried at once.
    pub(crate) fn open(folder: OutboxFolder) -> io::Result<Self> {
        folder.prepare()?;
        let queue = Queue { dead: folder.dead(), ..Queue::default() };
        let outbox = Self { folder, queue: Mutex::new(queue), news: Condvar::new() };
        outbox.rescan()?;
        Ok(outbox)
    }

    /// The outbox of a process that sends nothing: the folder is neither made nor read.
    pub(crate) fn unused(folder: OutboxFolder) -> Self {
        Self { folder, queue: Mutex::default(), news: Condvar::new() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Picks up webhooks that other processes have put into the folder.
    pub(crate) fn rescan(&self) -> io::Result<()> {
        let mut queue = self.queue();
        for name in self.folder.names()? {
            if !queue.waiting.contains_key(&name)
                && let Some(delivery) = self.folder.read(&name)
            {
                queue.waiting.insert(name, Waiting::new(&delivery));
            }
        }
        self.limit(&mut queue);
        drop(queue);
        self.news.notify_all();
        Ok(())
    }

    /// Accepts a webhook, which is on disk when this returns. A second call with the same id has no effect.
    pub(crate) fn put(&self, id: &str, order: &str, url: Option<String>, body: String) -> io::Result<()> {
        let delivery = Delivery::new(id, order, url, body);
        let mut queue = self.queue();
        let name = self.folder.put(&delivery, clock::now())?;
        queue.waiting.entry(name).or_insert_with(|| Waiting::new(&delivery));
        self.limit(&mut queue);
        drop(queue);
        self.news.notify_all();
        Ok(())
    }

    /// Accepts a notice for this provider. Notices of one provider are sent in their order.
    pub(crate) fn put_notice(&self, id: &str, preset: Preset, kept: &Kept) -> io::Result<()> {
        let order = format!("notice-{}", preset.as_str());
        let delivery =
            Delivery::new(id, &order, None, serde_json::to_string(kept)?).for_notice(preset.as_str());
        let mut queue = self.queue();
        let name = self.folder.put(&delivery, clock::now())?;
        queue.waiting.entry(name).or_insert_with(|| Waiting::new(&delivery));
        self.limit(&mut queue);
        drop(queue);
        self.news.notify_all();
        Ok(())
    }

    /// Does the same when the disk may be full: the webhook then waits in memory only, and is lost if this
    /// daemon ends. Returns why the disk failed.
    pub(crate) fn put_somehow(&self, id: &str, order: &str, body: String) -> Option<io::Error> {
        let flushed = self.write_down();
        let error = match flushed {
            Ok(()) => self.put(id, order, None, body.clone()).err()?,
            Err(error) => error,
        };
        let delivery = Delivery::new(id, order, None, body);
        let waiting = Waiting { unwritten: Some(delivery.clone()), ..Waiting::new(&delivery) };
        let mut queue = self.queue();
        // The name sorts it behind all that are on disk, by the time it arrived.
        let name = format!("unwritten-{:020}-{id}", clock::now().as_microsecond());
        queue.waiting.insert(name, waiting);
        self.limit(&mut queue);
        drop(queue);
        self.news.notify_all();
        Some(error)
    }

    /// Writes the webhooks that exist only in memory to disk before any later one.
    fn write_down(&self) -> io::Result<()> {
        let mut queue = self.queue();
        let held = queue.waiting.iter().filter(|(_, waiting)| waiting.unwritten.is_some());
        for name in held.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            let Some(mut waiting) = queue.waiting.remove(&name) else { continue };
            let written = match &waiting.unwritten {
                // The sending thread identifies it by this name, so it must not be renamed now.
                Some(_) if waiting.under_way => Err(io::Error::other("it is just being sent")),
                Some(delivery) => self.folder.put(delivery, clock::now()),
                None => Ok(name.clone()),
            };
            match written {
                Ok(written) => {
                    waiting.unwritten = None;
                    queue.waiting.insert(written, waiting);
                }
                Err(error) => {
                    queue.waiting.insert(name, waiting);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn limit(&self, queue: &mut Queue) {
        while queue.waiting.len() > MOST
            && let Some((oldest, _)) = queue.waiting.pop_first()
        {
            self.give_up(&oldest, queue);
        }
    }

    pub(crate) fn status(&self) -> OutboxStatus {
        let queue = self.queue();
        OutboxStatus { pending: queue.waiting.len(), dead: queue.dead, last_error: queue.last_error.clone() }
    }

    pub(crate) fn close(&self) {
        self.queue().closed = true;
        self.news.notify_all();
    }

    /// Waits for the next webhook that is due: the oldest of its order key, while no other of that key is
    /// being sent. Returns `None` when the outbox is closed.
    pub(super) fn next(&self) -> Option<(String, Delivery)> {
        let mut queue = self.queue();
        loop {
            if queue.closed {
                return None;
            }
            let now = Instant::now();
            match queue.due(now) {
                Ok(name) => {
                    let Some(waiting) = queue.waiting.get_mut(&name) else { continue };
                    if let Some(mut delivery) = waiting.unwritten.clone().or_else(|| self.folder.read(&name))
                    {
                        waiting.under_way = true;
                        delivery.tries = waiting.tries;
                        return Some((name, delivery));
                    }
                    // A person removed the file.
                    queue.waiting.remove(&name);
                }
                Err(soonest) => {
                    let wait = soonest.map_or(LONGEST_WAIT, |at| at.saturating_duration_since(now));
                    queue = self.news.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// Removes a webhook that was accepted. If its file cannot be removed, it is sent again, which its id
    /// makes harmless.
    pub(super) fn delivered(&self, name: &str) -> io::Result<()> {
        let mut queue = self.queue();
        let unwritten = queue.waiting.get(name).is_some_and(|waiting| waiting.unwritten.is_some());
        let removed = if unwritten { Ok(()) } else { self.folder.remove(name) };
        if removed.is_ok() {
            queue.waiting.remove(name);
            queue.last_error = None;
        } else if let Some(waiting) = queue.waiting.get_mut(name) {
            waiting.again_after(LONGEST_WAIT);
        }
        drop(queue);
        self.news.notify_all();
        removed
    }

    /// Records a failed try and returns whether the webhook was given up. If the record cannot be written,
    /// only the next daemon's knowledge of the tries is affected.
    pub(super) fn failed(&self, name: &str, mut delivery: Delivery, why: String) -> io::Result<bool> {
        delivery.tries += 1;
        let given_up = delivery.tries >= TRIES;
        let mut queue = self.queue();
        queue.last_error = Some(why);
        let mut noted = Ok(());
        if given_up {
            queue.waiting.remove(name);
            self.give_up(name, &mut queue);
        } else if let Some(waiting) = queue.waiting.get_mut(name) {
            waiting.tries = delivery.tries;
            waiting.again_after(wait_after(delivery.tries));
            if waiting.unwritten.is_none() {
                noted = self.folder.note(name, &delivery);
            }
        }
        drop(queue);
        self.news.notify_all();
        noted.map(|()| given_up)
    }

    fn give_up(&self, name: &str, queue: &mut Queue) {
        // A file that cannot be moved is tried again by the next daemon, which loses nothing.
        if self.folder.give_up(name, MOST_DEAD).is_ok() {
            queue.dead = self.folder.dead();
        }
    }
}

impl Queue {
    /// The first webhook that is due, or the time at which the next one is.
    fn due(&self, now: Instant) -> Result<String, Option<Instant>> {
        let mut orders: HashSet<&str> = HashSet::new();
        let mut soonest: Option<Instant> = None;
        for (name, waiting) in &self.waiting {
            // Only the oldest of each order key is considered.
            if !orders.insert(&waiting.order) || waiting.under_way {
                continue;
            }
            if waiting.not_before <= now {
                return Ok(name.clone());
            }
            soonest = Some(soonest.map_or(waiting.not_before, |known| known.min(waiting.not_before)));
        }
        Err(soonest)
    }
}

impl Waiting {
    fn new(delivery: &Delivery) -> Self {
        Self {
            order: delivery.order.clone(),
            not_before: Instant::now(),
            under_way: false,
            tries: delivery.tries,
            unwritten: None,
        }
    }

    fn again_after(&mut self, wait: Duration) {
        self.under_way = false;
        self.not_before = Instant::now() + wait;
    }
}

fn wait_after(tries: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(LONGEST_WAIT)
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
