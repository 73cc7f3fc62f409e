//! One thread that looks at what is written in agentctl's own folder, by commands and runners: ends of launches, and locks.

use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::WatchTarget;

use crate::run::clock;
use crate::shared::{Phase, Shared};
use crate::watch::Watcher;
use crate::watch::holders::Holders;
use crate::watch::launches::Launches;

/// The safety net, should nobody tell of a change.
const SWEEP: Duration = Duration::from_secs(15);
/// The output of agents and our own log lie there too: their words must not keep us busy.
const REST: Duration = Duration::from_millis(50);

/// Ends when the daemon stops.
pub(crate) fn keep(shared: &Arc<Shared>) {
    let mut watcher = Watcher::new(shared.own_files.clone());
    let targets = vec![
        WatchTarget::new(shared.home.folder(), 0),
        WatchTarget::new(shared.home.launches(), 1),
        WatchTarget::new(shared.home.outbox(), 0),
    ];
    let (mut launches, mut holders) = (Launches::default(), Holders::default());
    loop {
        watcher.watch_folders(targets.clone());
        launches.look(shared);
        // What a runner puts there is written after its exit.
        if let Err(error) = shared.outbox.look_again() {
            shared.log.say(&format!("the outbox cannot be read: {error}"));
        }
        let next_end = holders.look(shared);
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
