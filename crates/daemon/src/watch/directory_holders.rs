//! Announces changes in who holds which directory: people by manual locks, live sessions by working there.
//!
//! The sessions are those of the live view, so a source that cannot be read releases no directory.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentctl_fleet::keep::locks::held_by;
use agentctl_fleet::{Locks, Store};
use agentctl_model::{DirectoryHolder, Event, EventKind, Session, SessionKey};
use jiff::Timestamp;

use crate::run::clock;
use crate::shared::Shared;

/// The identity of a holder.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    directory: String,
    /// The session that holds it; `None` for a person, who is identified by a name and the time of the lock.
    session: Option<SessionKey>,
    by: Option<(Option<String>, Option<Timestamp>)>,
}

#[derive(Default)]
pub(crate) struct Holders {
    known: Option<BTreeMap<Name, DirectoryHolder>>,
}

impl Holders {
    /// Compares the holders with the last ones and announces the changes. Returns when the next manual lock
    /// expires.
    pub(crate) fn update(&mut self, shared: &Arc<Shared>) -> Option<Timestamp> {
        // If the locks cannot be read, nothing is announced; a command that changes them reports why.
        let Ok(manual) = Locks::of(Store::at(shared.home.folder())).manual(clock::now()) else { return None };
        let next_end = manual.iter().filter_map(|lock| lock.until).min();
        let mut now: BTreeMap<Name, DirectoryHolder> = BTreeMap::new();
        for lock in &manual {
            let holder = DirectoryHolder::from(lock);
            let by = Some((holder.by.clone(), holder.since));
            now.insert(Name { directory: holder.directory.clone(), session: None, by }, holder);
        }
        // Finding a working tree reads the disk, so it works on a copy and does not hold the view's lock.
        let (live, stopped) = shared.live.live_and_stopped();
        for (key, session) in &live {
            for (_, holder) in held_by(std::iter::once(session)) {
                let session = Some(key.clone());
                now.insert(Name { directory: holder.directory.clone(), session, by: None }, holder);
            }
        }
        // Holders that existed when this daemon began are not announced.
        let before = self.known.replace(now.clone()).unwrap_or_else(|| now.clone());
        let gone: Vec<_> = before.iter().filter(|(name, _)| !now.contains_key(*name)).collect();
        let fresh = now.iter().filter(|(name, _)| !before.contains_key(*name));
        for (name, holder) in gone {
            let session = name.session.as_ref().and_then(|key| stopped.get(key).or_else(|| live.get(key)));
            tell(shared, EventKind::LockReleased, holder, session);
        }
        for (name, holder) in fresh {
            tell(
                shared,
                EventKind::LockAcquired,
                holder,
                name.session.as_ref().and_then(|key| live.get(key)),
            );
        }
        next_end
    }
}

fn tell(shared: &Shared, kind: EventKind, holder: &DirectoryHolder, session: Option<&Session>) {
    let posted = shared.hub.post(Event {
        adapter: holder.adapter.clone(),
        session_id: holder.session_id.clone(),
        session: session.cloned().map(Box::new),
        lock: Some(Box::new(holder.clone())),
        ..Event::new(kind)
    });
    shared.on_event(&posted);
}
