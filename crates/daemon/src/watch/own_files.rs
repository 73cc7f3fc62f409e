//! A thread that watches what commands and runners write into agentctl's own folder: ends of launches, and
//! locks.

use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::WatchTarget;

use crate::run::clock;
use crate::shared::{Phase, Shared};
use crate::watch::Watcher;
use crate::watch::directory_holders::Holders;
use crate::watch::launches::Launches;

/// The interval of checks when no change is announced.
const SWEEP: Duration = Duration::from_secs(15);
/// The output of agents and our own log lie there too; their writes must not keep this thread busy.
const REST: Duration = Duration::from_millis(50);

/// Runs until the daemon stops. `begun` is called once it is known how things stand, from which on changes are told.
pub(crate) fn watch(shared: &Arc<Shared>, begun: impl FnOnce()) {
    let mut begun = Some(begun);
    let mut watcher = Watcher::new(shared.own_files.clone());
    let targets = vec![
        WatchTarget::new(shared.home.folder(), 0),
        WatchTarget::new(shared.home.launches(), 1),
        WatchTarget::new(shared.home.outbox(), 0),
    ];
    let (mut launches, mut holders) = (Launches::default(), Holders::default());
    loop {
        watcher.watch_folders(targets.clone());
        launches.update(shared);
        // A runner writes into the outbox after it has recorded the exit.
        if shared.daemon_lock.is_some()
            && let Err(error) = shared.outbox.rescan()
        {
            shared.log.say(&format!("the outbox cannot be read: {error}"));
        }
        let next_end = holders.update(shared);
        if let Some(begun) = begun.take() {
            begun();
        }
        let left = next_end.and_then(|end| Duration::try_from(end.duration_since(clock::now())).ok());
        let serving = || *shared.phase.borrow() == Phase::Serving;
        if serving() && !watcher.wait(left.unwrap_or(SWEEP).min(SWEEP)).by_nothing() {
            std::thread::sleep(REST);
        }
        if !serving() {
            return;
        }
    }
}
