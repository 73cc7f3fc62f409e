//! Linux: waits for inotify, pidfds and a waker at once.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use agentctl_files::watch::{Folders, WatchTarget};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::Woken;
use crate::run::descriptors;

/// Wakes the watcher from another thread.
#[derive(Clone)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub(crate) fn wake(&self) {
        // The write can only fail when the counter is full, and then the watcher is woken anyway.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

pub(crate) struct Watcher {
    folders: Result<Folders, String>,
    processes: BTreeMap<u32, OwnedFd>,
    /// Processes whose end the kernel does not report: only another survey shows it.
    unwatched: BTreeSet<u32>,
    /// Why the last of them is not watched.
    why_unwatched: Option<String>,
    /// How many processes may be watched at once: each needs a descriptor, and a survey needs some too.
    most_processes: usize,
    waker: Waker,
}

impl Watcher {
    pub(crate) fn new(waker: Waker) -> Self {
        let folders = Folders::new().map_err(|error| format!("inotify: {error}"));
        Self {
            folders,
            processes: BTreeMap::new(),
            unwatched: BTreeSet::new(),
            why_unwatched: None,
            most_processes: descriptors::for_processes(),
            waker,
        }
    }

    /// How many folders and processes are watched.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.folders.as_ref().map_or(0, Folders::count), self.processes.len())
    }

    /// Why not everything is watched.
    pub(crate) fn incomplete(&self) -> Option<String> {
        let folders = match &self.folders {
            Ok(folders) => folders.incomplete().map(str::to_owned),
            Err(why) => Some(why.clone()),
        };
        let processes = self.why_unwatched.as_ref().map(|why| {
            let count = self.unwatched.len();
            format!("{count} processes are looked at every few seconds: {why}")
        });
        folders.or(processes)
    }

    /// Whether only another survey shows the end of some process.
    pub(crate) fn misses_ends(&self) -> bool {
        !self.unwatched.is_empty()
    }

    pub(crate) fn watch_folders(&mut self, targets: Vec<WatchTarget>) {
        if let Ok(folders) = &mut self.folders {
            folders.watch(targets);
        }
    }

    /// Watches exactly these processes. Returns whether one was new: its pid may have been reused since the
    /// survey that named it, so another survey is needed. A process that cannot be watched counts as new only
    /// once, or the surveys would never stop.
    pub(crate) fn watch_processes(&mut self, pids: impl IntoIterator<Item = u32>) -> bool {
        let mut before = std::mem::take(&mut self.processes);
        let missed_before = std::mem::take(&mut self.unwatched);
        self.why_unwatched = None;
        let mut fresh = false;
        for pid in pids {
            if self.processes.contains_key(&pid) || self.unwatched.contains(&pid) {
                continue;
            }
            if let Some(pinned) = before.remove(&pid) {
                self.processes.insert(pid, pinned);
                continue;
            }
            match self.pin(pid) {
                Ok(pinned) => {
                    fresh = true;
                    self.processes.insert(pid, pinned);
                }
                Err(why) => {
                    fresh |= !missed_before.contains(&pid);
                    self.unwatched.insert(pid);
                    self.why_unwatched = Some(why);
                }
            }
        }
        fresh
    }

    fn pin(&self, pid: u32) -> Result<OwnedFd, String> {
        if self.processes.len() >= self.most_processes {
            return Err(format!("no more than {} can be watched", self.most_processes));
        }
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or_else(|| format!("{pid} is no process"))?;
        pidfd_open(number, PidfdFlags::NONBLOCK).map_err(|error| error.to_string())
    }

    /// Waits until something happens, at most this long.
    pub(crate) fn wait(&mut self, longest: Duration) -> Woken {
        let mut watched = vec![PollFd::new(&*self.waker.0, PollFlags::IN)];
        let processes: Vec<u32> = self.processes.keys().copied().collect();
        watched.extend(self.processes.values().map(|pinned| PollFd::new(pinned, PollFlags::IN)));
        if let Ok(folders) = &self.folders {
            watched.push(PollFd::new(folders, PollFlags::IN));
        }
        let timeout = Timespec::try_from(longest).ok();
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // Polling failed: the caller's sweep must not become a busy loop.
            Err(_) => std::thread::sleep(longest.min(Duration::from_secs(1))),
        }
        let ready: Vec<bool> = watched.iter().map(|one| !one.revents().is_empty()).collect();
        drop(watched);
        let mut woken = Woken { waker: ready[0], ..Woken::default() };
        if woken.waker {
            let _ = rustix::io::read(&*self.waker.0, &mut [0; 8]);
        }
        for (pid, ended) in processes.iter().zip(&ready[1..]) {
            if *ended {
                // An end is reported once: after that the pid may belong to another process.
                self.processes.remove(pid);
                woken.ended.push(*pid);
            }
        }
        if let Ok(folders) = &mut self.folders {
            woken.files = folders.drain();
        }
        woken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_and_the_bell_wake() {
        let waker = Waker::new().unwrap();
        let mut watcher = Watcher::new(waker.clone());
        assert!(watcher.wait(Duration::ZERO).by_nothing());
        waker.wake();
        waker.wake();
        assert!(watcher.wait(Duration::from_mins(1)).waker);
        assert!(watcher.wait(Duration::ZERO).by_nothing());
        #[expect(clippy::disallowed_methods, reason = "a child of this test")]
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        assert!(watcher.watch_processes([child.id()]));
        assert!(!watcher.watch_processes([child.id()]));
        assert!(watcher.wait(Duration::ZERO).by_nothing());
        child.kill().unwrap();
        assert_eq!(watcher.wait(Duration::from_mins(1)).ended, [child.id()]);
        assert_eq!(watcher.count().1, 0);
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_cannot_be_watched_is_new_once_and_left_to_the_sweep() {
        // No process has this pid, so opening it fails, as it does when descriptors or the system call are
        // missing.
        let nobody = i32::MAX.unsigned_abs();
        let mut watcher = Watcher::new(Waker::new().unwrap());
        assert!(watcher.watch_processes([nobody]), "it may have ended since the look that named it");
        for _ in 0..3 {
            assert!(!watcher.watch_processes([nobody]), "looking again without rest");
        }
        assert!(watcher.misses_ends());
        assert!(watcher.incomplete().unwrap().contains("1 processes"), "{:?}", watcher.incomplete());
        assert_eq!(watcher.count().1, 0);
        assert!(!watcher.watch_processes([]) && !watcher.misses_ends() && watcher.incomplete().is_none());
    }

    #[test]
    fn only_so_many_processes_are_watched_as_there_are_descriptors_for() {
        let mut watcher = Watcher::new(Waker::new().unwrap());
        watcher.most_processes = 1;
        let (this, first) = (std::process::id(), 1);
        assert!(watcher.watch_processes([this, first]));
        assert!(!watcher.watch_processes([this, first]));
        assert_eq!(watcher.count().1, 1);
        assert!(watcher.misses_ends());
        watcher.most_processes = 2;
        assert!(watcher.watch_processes([this, first]), "it is watched as soon as it can be");
        assert!(!watcher.misses_ends());
    }
}
