//! Many transcript files, read on all cores and brought together as one harvest.

use std::collections::{BTreeMap, HashMap};

use agentctl_model::{Found, Harvest};
use jiff::Timestamp;

use crate::{Reach, Scope, parallel};

/// One session that was read, with what was odd about it.
pub(crate) struct ReadSession {
    pub(crate) found: Found,
    pub(crate) warning: Option<String>,
    pub(crate) drift: BTreeMap<String, u64>,
}

/// `Ok(None)` if there is nothing to show, `Err` names what had to be left out.
pub(crate) type Gathered = Result<Option<ReadSession>, String>;

/// Reads every place. One id is one session, even if a copy of its file lies elsewhere: the newer one is it.
pub(crate) fn gather<P: Sync>(
    places: &[P],
    scope: &Scope<'_>,
    harvest: &mut Harvest,
    read: impl Fn(&P, Option<Timestamp>, &Scope<'_>, &mut Vec<u8>) -> Gathered + Sync,
) {
    let since = match scope.reach {
        Reach::All { since } => since,
        Reach::Live(_) | Reach::Ids(_) => None,
    };
    let outcomes = parallel::map(places, |place, buffer: &mut Vec<u8>| {
        scope.progress.tick();
        read(place, since, scope, buffer)
    });
    let mut known: HashMap<(String, Option<String>), usize> = HashMap::with_capacity(places.len());
    harvest.found.reserve(places.len());
    for outcome in outcomes {
        match outcome {
            Ok(None) => {}
            Ok(Some(session)) => {
                harvest.warnings.extend(session.warning);
                for (kind, count) in session.drift {
                    *harvest.drift.entry(kind).or_default() += count;
                }
                keep_newest(session.found, &mut harvest.found, &mut known);
            }
            Err(warning) => harvest.left_out(warning),
        }
    }
}

fn keep_newest(found: Found, all: &mut Vec<Found>, known: &mut HashMap<(String, Option<String>), usize>) {
    let key = (found.id.clone(), found.slot.clone());
    match known.get(&key) {
        Some(index) if all[*index].facts.updated_at < found.facts.updated_at => all[*index] = found,
        Some(_) => {}
        None => {
            known.insert(key, all.len());
            all.push(found);
        }
    }
}
