//! Reads many transcript files on all cores and collects them into one harvest.

use std::collections::{BTreeMap, HashMap, HashSet};

use agentctl_model::{Call, Facts, Found, Harvest, Registration};
use jiff::Timestamp;

use crate::transcript::parallel;
use crate::{Reach, Scope};

/// One session that was read, with the warnings about it.
#[derive(Default)]
pub(crate) struct ReadSession {
    pub(crate) found: Option<Found>,
    /// The agent's notes about which process owns it.
    pub(crate) registrations: Vec<Registration>,
    pub(crate) warning: Option<String>,
    pub(crate) drift: BTreeMap<String, u64>,
}

/// `Ok(None)` if there is nothing to show; `Err` names what had to be left out.
pub(crate) type Gathered = Result<Option<ReadSession>, String>;

/// Reads every place. One id is one session, even if a copy of its file lies elsewhere: the newer file is used.
pub(crate) fn gather<P: Sync>(
    places: &[P],
    scope: &Scope<'_>,
    harvest: &mut Harvest,
    read: impl Fn(&P, Option<Timestamp>, &Scope<'_>) -> Gathered + Sync,
) {
    // The rows are collected in place: the rows of ten thousand sessions are megabytes.
    let sessions = read_all(places, scope, read).into_iter();
    let mut found: Vec<Found> = sessions.filter_map(|outcome| session_of(outcome, harvest)).collect();
    drop_older_copies(&mut found);
    harvest.found = found;
}

/// The results of reading every place, in the order of the places.
pub(crate) fn read_all<P: Sync, R: Send>(
    places: &[P],
    scope: &Scope<'_>,
    read: impl Fn(&P, Option<Timestamp>, &Scope<'_>) -> Result<R, String> + Sync,
) -> Vec<Result<R, String>> {
    let since = match scope.reach {
        Reach::All { since } => since,
        Reach::Live(_) | Reach::Ids(_) => None,
    };
    parallel::map(places, |place, (): &mut ()| {
        scope.progress.tick();
        // When the caller has given up, the remaining thousands of files are not even opened.
        if scope.progress.is_given_up() {
            return Err("nobody waits for it any more".to_owned());
        }
        read(place, since, scope)
    })
}

/// The session, after its warnings were recorded in the harvest.
fn session_of(outcome: Gathered, harvest: &mut Harvest) -> Option<Found> {
    match outcome {
        Ok(session) => {
            let session = session?;
            harvest.registrations.extend(session.registrations);
            harvest.warnings.extend(session.warning);
            add_drift(harvest, session.drift);
            session.found
        }
        Err(warning) => {
            harvest.left_out(warning);
            None
        }
    }
}

pub(crate) fn add_drift(harvest: &mut Harvest, drift: BTreeMap<String, u64>) {
    for (kind, count) in drift {
        *harvest.drift.entry(kind).or_default() += count;
    }
}

fn drop_older_copies(found: &mut Vec<Found>) {
    let mut newest: HashMap<(&str, Option<&str>), usize> = HashMap::with_capacity(found.len());
    let mut older = HashSet::new();
    let mut moved = Vec::new();
    for (index, one) in found.iter().enumerate() {
        newest
            .entry((&one.id, one.variant.as_deref()))
            .and_modify(|known| {
                let is_newer = found[*known].facts.updated_at < one.facts.updated_at;
                older.insert(if is_newer { std::mem::replace(known, index) } else { index });
            })
            .or_insert(index);
    }
    if !older.is_empty() {
        // What a copy alone has of the calls was paid for all the same.
        for index in &older {
            let (id, variant) = (&found[*index].id, found[*index].variant.as_deref());
            let into = newest[&(id.as_str(), variant)];
            moved.push((into, found[*index].facts.calls.clone()));
        }
        for (into, calls) in moved {
            add_calls(&mut found[into].facts, calls.as_deref().unwrap_or_default());
        }
        let mut index = 0;
        found.retain(|_| {
            index += 1;
            !older.contains(&(index - 1))
        });
    }
}

/// Adds the calls that the facts do not have yet. A call without a name cannot be told from one that is there.
fn add_calls(facts: &mut Facts, others: &[Call]) {
    let Some(own) = &facts.calls else { return };
    let known: HashSet<u64> = own.iter().filter_map(|call| call.name).collect();
    let missing = others.iter().filter(|call| call.name.is_some_and(|name| !known.contains(&name)));
    let all: Vec<Call> = own.iter().chain(missing).cloned().collect();
    facts.calls = Some(all.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(id: &str, variant: Option<&str>, second: i64) -> Found {
        let updated_at = Timestamp::from_second(second).ok();
        Found {
            id: id.into(),
            variant: variant.map(Into::into),
            place: format!("/{second}").into(),
            stamp: None,
            facts: Facts { updated_at, ..Facts::default() },
            evidence: vec![],
        }
    }

    #[test]
    fn one_id_is_one_session_and_the_newest_copy_is_it() {
        let mut all =
            vec![found("a", None, 1), found("b", None, 5), found("a", None, 3), found("a", None, 2)];
        all.extend([found("c", Some("x"), 1), found("c", Some("y"), 2)]);
        drop_older_copies(&mut all);
        let places: Vec<_> = all.iter().map(|one| one.place.to_str().unwrap().to_owned()).collect();
        assert_eq!(places, ["/5", "/3", "/1", "/2"], "two variants of one id are two sessions");
    }
}
