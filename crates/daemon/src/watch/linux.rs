//! Linux: waits for inotify, pidfds and a waker at once.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentctl_files::watch::{Folders, WatchTarget};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::polled::{POLL_INTERVAL, Polled};
use super::{WakeReasons, Watching};
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
    /// Made when folders are to be watched for the first time, and tried again until it can be.
    folders: Option<Folders>,
    /// Why no folder at all can be watched.
    no_folders: Option<String>,
    processes: BTreeMap<u32, OwnedFd>,
    /// Processes of which the kernel will not tell.
    polled: Polled,
    /// How many processes may be watched at once: each costs a descriptor, and a look at the fleet needs some too.
    most_processes: usize,
    waker: Waker,
}

impl Watcher {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            folders: None,
            no_folders: None,
            processes: BTreeMap::new(),
            polled: Polled::new(),
            most_processes: descriptors::for_processes(),
            waker,
        }
    }

    /// What is watched now, and what cannot be.
    pub(crate) fn standing(&self) -> Watching {
        let folders = self.folders.as_ref();
        let unwatched = folders.map(Folders::unwatched);
        let no_folder = self.no_folders.as_ref().map(|why| format!("no folder can be watched: {why}"));
        let some_folders = folders.and_then(Folders::why_unwatched).map(|why| {
            format!("{} cannot be watched: {why}", counted(unwatched.unwrap_or(0), "folder", "folders"))
        });
        let processes = self.polled.why().map(|why| {
            format!("{} cannot be watched: {why}", counted(self.polled.count(), "process", "processes"))
        });
        Watching {
            folders: folders.map_or(0, Folders::count),
            processes: self.processes.len(),
            unwatched_folders: if self.no_folders.is_some() { None } else { Some(unwatched.unwrap_or(0)) },
            unwatched_processes: Some(self.polled.count()),
            incomplete: [no_folder, some_folders, processes].into_iter().flatten().collect(),
        }
    }

    pub(crate) fn watch_folders(&mut self, targets: Vec<WatchTarget>) {
        if self.folders.is_none() {
            match Folders::new() {
                Ok(folders) => (self.folders, self.no_folders) = (Some(folders), None),
                Err(error) => self.no_folders = Some(format!("inotify: {error}")),
            }
        }
        if let Some(folders) = &mut self.folders {
            folders.watch(targets);
        }
    }

    /// Watches exactly these processes. Returns whether one was new: its pid may have been reused since the
    /// survey that named it, so another survey is needed. A process that cannot be watched counts as new only
    /// once, or the surveys would never stop.
    pub(crate) fn watch_processes(&mut self, pids: impl IntoIterator<Item = u32>) -> bool {
        let mut before = std::mem::take(&mut self.processes);
        let mut unwatched = BTreeMap::new();
        let mut fresh = false;
        for pid in pids {
            if self.processes.contains_key(&pid) || unwatched.contains_key(&pid) {
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
                    unwatched.insert(pid, why);
                }
            }
        }
        self.polled.set(&unwatched) || fresh
    }

    fn pin(&self, pid: u32) -> Result<OwnedFd, String> {
        if self.processes.len() >= self.most_processes {
            return Err(format!("the limit of open files allows {}", self.most_processes));
        }
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or_else(|| format!("{pid} is no process"))?;
        pidfd_open(number, PidfdFlags::NONBLOCK).map_err(|error| error.to_string())
    }

    /// Waits until something happens, at most so long. In between, processes that cannot be watched are polled.
    pub(crate) fn wait(&mut self, longest: Duration) -> WakeReasons {
        let began = Instant::now();
        loop {
            let left = longest.saturating_sub(began.elapsed());
            let at_once = if self.polled.count() == 0 { left } else { left.min(POLL_INTERVAL) };
            let mut woken = self.wait_for_the_kernel(at_once);
            if woken.by_nothing() {
                woken.ended = self.polled.ended();
            }
            if !woken.by_nothing() || began.elapsed() >= longest {
                return woken;
            }
        }
    }

    fn wait_for_the_kernel(&mut self, longest: Duration) -> WakeReasons {
        let mut watched = vec![PollFd::new(&*self.waker.0, PollFlags::IN)];
        let processes: Vec<u32> = self.processes.keys().copied().collect();
        watched.extend(self.processes.values().map(|pinned| PollFd::new(pinned, PollFlags::IN)));
        if let Some(folders) = &self.folders {
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
        let mut woken = WakeReasons { waker: ready[0], ..WakeReasons::default() };
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
        if let Some(folders) = &mut self.folders {
            woken.files = folders.drain();
        }
        woken
    }
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
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
        assert_eq!(watcher.standing().processes, 0);
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
        let standing = watcher.standing();
        assert_eq!((standing.processes, standing.unwatched_processes), (0, Some(1)));
        let words = standing.incomplete.join("; ");
        assert!(words.contains("1 process cannot be watched: No such process"), "{words}");
        assert!(watcher.wait(Duration::ZERO).by_nothing(), "nobody had this pid, so nobody ended");
        assert!(!watcher.watch_processes([]) && watcher.standing().incomplete.is_empty());
    }

    #[test]
    fn the_end_of_a_process_that_cannot_be_watched_is_seen_all_the_same() {
        let mut watcher = Watcher::new(Waker::new().unwrap());
        watcher.most_processes = 0;
        #[expect(clippy::disallowed_methods, reason = "a child of this test")]
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        assert!(watcher.watch_processes([child.id()]));
        assert!(!watcher.watch_processes([child.id()]));
        assert!(watcher.wait(Duration::ZERO).by_nothing());
        child.kill().unwrap();
        assert_eq!(
            watcher.wait(Duration::from_mins(1)).ended,
            [child.id()],
            "not waited for, and still ended"
        );
        assert!(watcher.wait(Duration::ZERO).by_nothing(), "it is told once");
        child.wait().unwrap();
    }

    #[test]
    fn only_so_many_processes_are_watched_as_there_are_descriptors_for() {
        let mut watcher = Watcher::new(Waker::new().unwrap());
        watcher.most_processes = 1;
        let (this, first) = (std::process::id(), 1);
        assert!(watcher.watch_processes([this, first]));
        assert!(!watcher.watch_processes([this, first]));
        let standing = watcher.standing();
        assert_eq!((standing.processes, standing.unwatched_processes), (1, Some(1)));
        watcher.most_processes = 2;
        assert!(watcher.watch_processes([this, first]), "it is watched as soon as it can be");
        assert_eq!(watcher.standing().unwatched_processes, Some(0));
    }
}
