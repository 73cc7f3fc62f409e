//! What changed between two surveys. This is pure, so an event is wrong only if the list is wrong.
//!
//! Absence alone is never a change: a session that a failed, late or partial source does not mention stays as it was. If a
//! conversation has two sessions (see `twins`), only the changes of one are reported; but once a change of a session was
//! reported, all its later changes are reported too.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;

use super::{Event, EventKind};
use crate::session::{Pending, Session, SessionKey};
use crate::status::{Rule, Status};
use crate::survey::twins;
use crate::survey::{SourceReport, Survey};

/// A live session with its last status that was not unknown.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    session: Box<Session>,
    known: Option<Status>,
    /// When the first of its owners was started.
    owned_since: Option<Timestamp>,
}

impl Seen {
    fn new(session: &Session, known: Option<Status>) -> Self {
        let owned_since = session.processes.iter().filter_map(|process| process.started_at).min();
        Self { session: Box::new(session.clone()), known, owned_since }
    }
}

type Place = (String, String);

/// The live sessions of the last survey. It can be dropped at any moment: that changes no answer, only what counts as a
/// change.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    live: BTreeMap<SessionKey, Seen>,
    sources: BTreeMap<Place, SourceReport>,
    /// Sources that were read completely at least once: a session that they did not mention then was not live.
    read_once: BTreeSet<Place>,
    /// Live sessions that a reader knows: a change of theirs was reported, or they were shown.
    reported: BTreeSet<SessionKey>,
    /// Live sessions that were hidden by their twins, and of which no change was reported.
    suppressed: BTreeSet<SessionKey>,
    /// A reader was shown everything that was known to be live, and takes what is not told to it later for not live.
    is_shown: bool,
}

impl View {
    /// All live sessions, including hidden twins.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.live.values().map(|seen| &*seen.session)
    }

    /// The same with their keys.
    pub fn live(&self) -> impl Iterator<Item = (&SessionKey, &Session)> {
        self.live.iter().map(|(key, seen)| (key, &*seen.session))
    }

    pub fn has_same_sessions(&self, other: &Self) -> bool {
        self.live.keys().eq(other.live.keys())
    }

    /// The sessions that a person is shown: every conversation once.
    pub fn shown(&self) -> impl Iterator<Item = &Session> {
        let hidden = self.hidden();
        self.live.iter().filter(move |(key, _)| !hidden.contains(*key)).map(|(_, seen)| &*seen.session)
    }

    /// The sessions that a person is shown and that were not live in another view.
    pub fn shown_beyond(&self, before: &Self) -> Vec<Session> {
        let hidden = self.hidden();
        let is_new = |key: &&SessionKey| !hidden.contains(*key) && !before.live.contains_key(*key);
        self.live.iter().filter(|(key, _)| is_new(key)).map(|(_, seen)| (*seen.session).clone()).collect()
    }

    /// Records that a reader was shown all these sessions: from now on all their changes are reported, and so is every session
    /// that is found only later, because its source had not been read yet.
    pub fn tell_shown(&mut self) {
        self.is_shown = true;
        let hidden = self.hidden();
        self.reported.extend(self.live.keys().filter(|key| !hidden.contains(*key)).cloned());
    }

    /// The native sessions whose gateway cannot be read now. Their own changes must be reported, because the gateway's are
    /// not seen.
    fn gateway_unheard(&self) -> HashSet<SessionKey> {
        let mut all = twins::hidden(self.live.iter().map(|(key, seen)| (key, &*seen.session)));
        for key in self.hidden() {
            all.remove(&key);
        }
        all
    }

    /// The sessions that are hidden by their twins. A gateway that cannot be read hides no session.
    fn hidden(&self) -> HashSet<SessionKey> {
        let is_readable = |key: &SessionKey| {
            let source = self.sources.get(&(key.adapter.clone(), key.root.clone()));
            !source.is_some_and(SourceReport::failed)
        };
        let readable = self.live.iter().filter(|(key, _)| is_readable(key));
        twins::hidden(readable.map(|(key, seen)| (key, &*seen.session)))
    }

    pub fn sources(&self) -> impl Iterator<Item = &SourceReport> {
        self.sources.values()
    }

    /// Sessions that were live and are not in this survey of live sessions. The caller must read them by their keys before
    /// anything is known about them.
    pub fn missing(&self, live: &Survey) -> Vec<SessionKey> {
        let mentioned = |key: &SessionKey| live.sessions.iter().any(|surveyed| surveyed.key == *key);
        // A source that has just failed would fail again.
        let asked =
            |key: &SessionKey| live.sources.iter().any(|source| is_of(source, key) && !source.failed());
        self.live.keys().filter(|key| asked(key) && !mentioned(key)).cloned().collect()
    }

    /// The changes that this survey shows, and the view after it. `now` must contain every live session of the sources that
    /// it read completely, and the caller must have read those that were [missing](Self::missing).
    pub fn diff(&self, now: &Survey) -> (Vec<Event>, Self) {
        let (changes, after) = self.compare(now);
        self.without_suppressed(changes, after)
    }

    /// Drops the changes of a native session that stands behind its gateway session, and of how its work there ends, because
    /// the gateway session has reported the same. If the gateway cannot be read, the native session's own end is reported.
    fn without_suppressed(&self, mut changes: Vec<Event>, mut after: Self) -> (Vec<Event>, Self) {
        let (hidden, gateway_unheard) = (after.hidden(), after.gateway_unheard());
        changes.retain(|change| {
            let ends = matches!(
                change.kind,
                EventKind::SessionIdle | EventKind::SessionStopped | EventKind::SessionGone
            );
            let is_unseen = |key| hidden.contains(key) || (ends && self.suppressed.contains(key));
            change.key.as_ref().is_none_or(|key| self.reported.contains(key) || !is_unseen(key))
        });
        let lives = |key: &&SessionKey| after.live.contains_key(*key);
        let just_reported = changes.iter().filter_map(|change| change.key.as_ref());
        let reported: BTreeSet<_> =
            self.reported.iter().chain(just_reported).filter(lives).cloned().collect();
        let is_suppressed = |key: &&SessionKey| !reported.contains(*key) && !gateway_unheard.contains(*key);
        let candidates = self.suppressed.iter().chain(&hidden).filter(lives);
        after.suppressed = candidates.filter(is_suppressed).cloned().collect();
        after.reported = reported;
        (changes, after)
    }

    /// Everything that this survey changes, reported or not.
    fn compare(&self, now: &Survey) -> (Vec<Event>, Self) {
        let mut changes = Vec::new();
        let sources = self.sources_after(now, &mut changes);
        let complete = sources.iter().filter(|(_, report)| report.proves_absence()).map(|(place, _)| place);
        let earlier = self.read_once.iter().filter(|place| sources.contains_key(*place));
        let read_once = earlier.chain(complete).cloned().collect();
        let mut after = Self { sources, read_once, is_shown: self.is_shown, ..Self::default() };
        for (key, was) in &self.live {
            let Some(source) = now.sources.iter().find(|source| is_of(source, key)) else {
                // That root is not read any more, so nothing is reported about it.
                continue;
            };
            let seen = now.sessions.iter().find(|surveyed| surveyed.key == *key);
            match seen.map(|surveyed| (&surveyed.session, surveyed.rule)) {
                // The outcome will be known when the runner has written the exit, and an event cannot be taken back.
                Some((session, Rule::ExitNotWrittenYet)) => {
                    after.live.insert(key.clone(), Seen { session: session.clone(), ..was.clone() });
                }
                Some((session, _)) => {
                    if let Some(kind) = EventKind::of(session.status)
                        && (was.known != Some(session.status) || asks_anew(session, &was.session))
                    {
                        let change = Event::of_session(kind, key, was.known, session);
                        changes.push(Event { owned_since: was.owned_since, ..change });
                    }
                    if session.is_live() {
                        let known = Some(session.status).filter(|status| *status != Status::Unknown);
                        after.live.insert(key.clone(), Seen::new(session, known.or(was.known)));
                    }
                }
                None if source.proves_absence() => {
                    changes.push(Event::of_session(EventKind::SessionGone, key, was.known, &was.session));
                }
                None => drop(after.live.insert(key.clone(), was.clone())),
            }
        }
        for surveyed in now.sessions.iter().filter(|surveyed| surveyed.session.is_live()) {
            let key = &surveyed.key;
            if self.live.contains_key(key) {
                continue;
            }
            let session = &surveyed.session;
            // A session that was already live when its source was first read did not start now.
            if self.has_read(key) {
                changes.push(Event::of_session(EventKind::SessionStarted, key, None, session));
            }
            if self.has_read(key) || self.is_shown {
                let kind = EventKind::of(session.status);
                changes.extend(kind.map(|kind| Event::of_session(kind, key, None, session)));
            }
            let known = Some(session.status).filter(|status| *status != Status::Unknown);
            after.live.insert(key.clone(), Seen::new(session, known));
        }
        (changes, after)
    }

    /// The sessions that these processes own.
    pub fn owned_by(&self, pids: &[u32]) -> Vec<SessionKey> {
        let owned = |seen: &Seen| seen.session.processes.iter().any(|process| pids.contains(&process.pid));
        self.live.iter().filter(|(_, seen)| owned(seen)).map(|(key, _)| key.clone()).collect()
    }

    /// The changes in a survey of only these sessions; it says nothing about other sessions or about sources.
    pub fn diff_of(&self, some: &[SessionKey], now: &Survey) -> (Vec<Event>, Self) {
        let mut part = self.clone();
        part.live.retain(|key, _| some.contains(key));
        let (mut changes, mut after) = part.compare(now);
        changes.retain(|change| change.key.as_ref().is_some_and(|key| some.contains(key)));
        after.live.retain(|key, _| some.contains(key));
        let mut whole = self.clone();
        whole.live.retain(|key, _| !some.contains(key));
        whole.live.append(&mut after.live);
        self.without_suppressed(changes, whole)
    }

    /// The changes in a survey of only some agents; the sessions of the others stay as they were.
    pub fn diff_among(&self, concerns: impl Fn(&str) -> bool, now: &Survey) -> (Vec<Event>, Self) {
        let (mut part, mut rest) = (self.clone(), self.clone());
        part.live.retain(|key, _| concerns(&key.adapter));
        part.sources.retain(|(adapter, _), _| concerns(adapter));
        part.read_once.retain(|(adapter, _)| concerns(adapter));
        let (changes, after) = part.compare(now);
        rest.live.retain(|key, _| !concerns(&key.adapter));
        rest.sources.retain(|(adapter, _), _| !concerns(adapter));
        rest.read_once.retain(|(adapter, _)| !concerns(adapter));
        rest.live.extend(after.live);
        rest.sources.extend(after.sources);
        rest.read_once.extend(after.read_once);
        self.without_suppressed(changes, rest)
    }

    fn has_read(&self, key: &SessionKey) -> bool {
        self.read_once.contains(&(key.adapter.clone(), key.root.clone()))
    }

    fn sources_after(&self, now: &Survey, changes: &mut Vec<Event>) -> BTreeMap<Place, SourceReport> {
        let mut after = BTreeMap::new();
        for report in &now.sources {
            let place = (report.adapter.clone(), report.root.clone());
            let failed = self.sources.get(&place).is_some_and(SourceReport::failed);
            let kind = match (failed, report.failed()) {
                (false, true) => Some(EventKind::SourceFailed),
                (true, false) => Some(EventKind::SourceRecovered),
                _ => None,
            };
            changes.extend(kind.map(|kind| Event::of_source(kind, report)));
            after.insert(place, report.clone());
        }
        after
    }
}

fn is_of(source: &SourceReport, key: &SessionKey) -> bool {
    source.adapter == key.adapter && source.root == key.root
}

/// It waits with a request that it did not wait with before. Requests without an id cannot be told apart.
fn asks_anew(session: &Session, was: &Session) -> bool {
    let is_new = |pending: &Pending| {
        pending.id.is_some() && was.pending.iter().all(|earlier| earlier.id != pending.id)
    };
    session.status == Status::Waiting && session.pending.iter().any(is_new)
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
