//! What a person was told, in `notices.json`, so that a need is told once although the daemon is started again.
//!
//! It is a record of our own deeds and contains no status: it names a need by its session and by what the agent's records
//! call it (the id of a request, the time of a record). Deleting it changes no answer; a need that still waits may then be
//! told once more.

use std::collections::BTreeMap;

use agentctl_model::{Session, notice::Notice};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::keep::store::{Document, Store, StoreError};

/// How many needs are remembered. The oldest are dropped.
const KEPT: usize = 1000;

#[derive(Debug, Default, Serialize, Deserialize)]
struct ToldBook {
    /// When each need was told.
    #[serde(default)]
    told: BTreeMap<String, Timestamp>,
}

impl Document for ToldBook {
    const FILE: &'static str = "notices.json";
    const VERSION: u64 = 1;
}

/// The needs that were told of in one home.
#[derive(Debug, Clone)]
pub struct ToldNeeds {
    store: Store,
}

impl ToldNeeds {
    pub fn of(store: Store) -> Self {
        Self { store }
    }

    /// Records that a need is told now. Returns whether it is the first time.
    pub fn tell(&self, need: &str, now: Timestamp) -> Result<bool, StoreError> {
        self.store.change(|book: &mut ToldBook| {
            let is_new = !book.told.contains_key(need);
            if is_new {
                book.told.insert(need.to_owned(), now);
            }
            while book.told.len() > KEPT {
                let oldest = book.told.iter().min_by_key(|(_, at)| **at).map(|(need, _)| need.clone());
                let Some(oldest) = oldest else { break };
                book.told.remove(&oldest);
            }
            is_new
        })
    }
}

/// The name of a need among those of all sessions; `None` where the agent's records do not tell it from others.
pub fn need_name(session: &Session, notice: &Notice) -> Option<String> {
    let identity = notice.identity.as_ref()?;
    Some(format!("{} {} {} {identity}", session.adapter, session.config_root, session.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_is_new_once_and_the_oldest_are_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let told = || ToldNeeds::of(Store::at(place.path().join("home")));
        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(told().tell("a", at(1)).unwrap());
        assert!(!told().tell("a", at(2)).unwrap(), "another process knows it too");
        for number in 0..1000 {
            told().tell(&number.to_string(), at(10 + number)).unwrap();
        }
        assert!(told().tell("a", at(5000)).unwrap(), "forgotten");
        assert!(!told().tell("999", at(5000)).unwrap());
    }
}
