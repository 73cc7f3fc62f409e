//! Who holds which directory, told when it changes: people by their locks, live sessions by working there.
//!
//! Sessions are those of the live view, so a source that cannot be heard releases nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentctl_fleet::locks::held_by;
use agentctl_fleet::{DirectoryHolder, Locks, Store};
use agentctl_model::Session;
use jiff::Timestamp;

use crate::clock;
use crate::events::News;
use crate::shared::Shared;

/// A holder, and the session that it is.
type Held = (DirectoryHolder, Option<Box<Session>>);
/// By what one is known again: the directory, the session or whoever locked it, and since when a lock is there.
type Name = (String, Option<String>, Option<String>, Option<Timestamp>);

#[derive(Default)]
pub(crate) struct Holders {
    known: Option<BTreeMap<Name, Held>>,
}

impl Holders {
    /// Says when a lock of a person comes to its end by itself.
    pub(crate) fn look(&mut self, shared: &Arc<Shared>) -> Option<Timestamp> {
        // Locks that cannot be read say nothing; whoever wants to change them hears why.
        let Ok(manual) = Locks::of(Store::at(shared.home.folder())).manual(clock::now()) else { return None };
        let next_end = manual.iter().filter_map(|lock| lock.until).min();
        let mut now: BTreeMap<Name, Held> = BTreeMap::new();
        for lock in &manual {
            let holder = DirectoryHolder::by_hand(lock);
            now.insert((holder.directory.clone(), holder.by.clone(), None, holder.since), (holder, None));
        }
        // Finding a working tree reads the disk, for which nobody shall wait.
        let sessions: Vec<Session> = shared.live.view().sessions().cloned().collect();
        for (session, holder) in held_by(sessions.iter()) {
            let name = (holder.directory.clone(), Some(session.id.clone()), holder.config_root.clone(), None);
            now.insert(name, (holder, Some(Box::new(session.clone()))));
        }
        let before = self.known.replace(now.clone());
        // What was held when this daemon began is no news.
        let before = before.unwrap_or_else(|| now.clone());
        let gone = before.iter().filter(|(name, _)| !now.contains_key(*name));
        let fresh = now.iter().filter(|(name, _)| !before.contains_key(*name));
        for (kind, held) in gone
            .map(|(_, held)| ("lock.released", held))
            .chain(fresh.map(|(_, held)| ("lock.acquired", held)))
        {
            tell(shared, kind, held);
        }
        next_end
    }
}

fn tell(shared: &Arc<Shared>, kind: &str, (holder, session): &Held) {
    let posted = shared.hub.post(News {
        kind: kind.to_owned(),
        adapter: holder.adapter.clone(),
        session_id: holder.session_id.clone(),
        session: session.clone(),
        lock: Some(holder.clone()),
        ..News::default()
    });
    shared.told(&posted);
}
