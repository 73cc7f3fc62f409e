//! Linux: inotify, pidfds and a bell, all waited for at once.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::WatchTarget;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::Woken;
use super::inotify::Folders;

/// Wakes the watcher from elsewhere.
#[derive(Clone)]
pub(crate) struct Bell(Arc<OwnedFd>);

impl Bell {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub(crate) fn ring(&self) {
        // A bell that has been rung too often to count rings still.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

pub(crate) struct Watcher {
    folders: Result<Folders, String>,
    processes: BTreeMap<u32, OwnedFd>,
    bell: Bell,
}

impl Watcher {
    pub(crate) fn new(bell: Bell) -> Self {
        let folders = Folders::new().map_err(|error| format!("inotify: {error}"));
        Self { folders, processes: BTreeMap::new(), bell }
    }

    /// How many folders and processes are watched.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.folders.as_ref().map_or(0, Folders::count), self.processes.len())
    }

    /// Why not everything is watched.
    pub(crate) fn incomplete(&self) -> Option<String> {
        match &self.folders {
            Ok(folders) => folders.incomplete.clone(),
            Err(why) => Some(why.clone()),
        }
    }

    pub(crate) fn watch_folders(&mut self, targets: Vec<WatchTarget>) {
        if let Ok(folders) = &mut self.folders {
            folders.watch(targets);
        }
    }

    /// Watches exactly these processes. Says whether one was new: between the look that named it and now its pid may
    /// have changed hands, so the fleet must be looked at once more.
    pub(crate) fn watch_processes(&mut self, pids: impl IntoIterator<Item = u32>) -> bool {
        let mut before = std::mem::take(&mut self.processes);
        let mut fresh = false;
        for pid in pids {
            if self.processes.contains_key(&pid) {
                continue;
            }
            let pinned = before.remove(&pid).or_else(|| {
                fresh = true;
                let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
                pidfd_open(pid, PidfdFlags::NONBLOCK).ok()
            });
            if let Some(pinned) = pinned {
                self.processes.insert(pid, pinned);
            }
        }
        fresh
    }

    /// Waits until something happens, at most so long.
    pub(crate) fn wait(&mut self, longest: Duration) -> Woken {
        let mut watched = vec![PollFd::new(&*self.bell.0, PollFlags::IN)];
        let processes: Vec<u32> = self.processes.keys().copied().collect();
        watched.extend(self.processes.values().map(|pinned| PollFd::new(pinned, PollFlags::IN)));
        if let Ok(folders) = &self.folders {
            watched.push(PollFd::new(folders, PollFlags::IN));
        }
        let timeout = Timespec::try_from(longest).ok();
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // Cannot be waited for: the caller's sweep must not become a spin.
            Err(_) => std::thread::sleep(longest.min(Duration::from_secs(1))),
        }
        let ready: Vec<bool> = watched.iter().map(|one| !one.revents().is_empty()).collect();
        drop(watched);
        let mut woken = Woken { bell: ready[0], ..Woken::default() };
        if woken.bell {
            let _ = rustix::io::read(&*self.bell.0, &mut [0; 8]);
        }
        for (pid, ended) in processes.iter().zip(&ready[1..]) {
            if *ended {
                // Told once: its end is known now, and the pid may be another's.
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
        let bell = Bell::new().unwrap();
        let mut watcher = Watcher::new(bell.clone());
        assert!(watcher.wait(Duration::ZERO).by_nothing());
        bell.ring();
        bell.ring();
        assert!(watcher.wait(Duration::from_mins(1)).bell);
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
}
