//! Other systems: nothing is watched, and the fleet is surveyed every second.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentctl_adapters::WatchTarget;

use super::{WakeReasons, Watching};

const PERIOD: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(crate) struct Waker {
    ring: Sender<()>,
    heard: Arc<Mutex<Receiver<()>>>,
}

impl Waker {
    pub(crate) fn new() -> std::io::Result<Self> {
        let (ring, heard) = channel();
        Ok(Self { ring, heard: Arc::new(Mutex::new(heard)) })
    }

    pub(crate) fn wake(&self) {
        let _ = self.ring.send(());
    }
}

pub(crate) struct Watcher {
    waker: Waker,
}

impl Watcher {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { waker }
    }

    pub(crate) fn standing(&self) -> Watching {
        let incomplete = vec!["this system is looked at every second".to_owned()];
        Watching { incomplete, ..Watching::default() }
    }

    pub(crate) fn watch_folders(&mut self, _: Vec<WatchTarget>) {}

    pub(crate) fn watch_processes(&mut self, _: impl IntoIterator<Item = u32>) -> bool {
        false
    }

    pub(crate) fn wait(&mut self, longest: Duration) -> WakeReasons {
        let heard = self.waker.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let waker = heard.recv_timeout(longest.min(PERIOD)).is_ok();
        while heard.try_recv().is_ok() {}
        WakeReasons { files: !waker, ended: Vec::new(), waker }
    }
}
