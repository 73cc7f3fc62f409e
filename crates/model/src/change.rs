//! What changed between two looks at the fleet. Pure: an event can be wrong only if the list is.
//!
//! Silence is never a change: whatever a failed, late or partial source does not mention stays as it was. Of two sessions for
//! one conversation (see `twins`) one is told of; but of whom anything was told, everything is told to the end.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;

use crate::session::{Session, SessionKey};
use crate::status::{Rule, Status};
use crate::survey::twins;
use crate::survey::{SourceReport, Survey};

/// What kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangeKind {
    /// Somebody runs it now, and nobody did when the fleet was looked at before.
    Started,
    Running,
    Waiting,
    Idle,
    Stopped,
    /// It lived, and its agent keeps nothing of it.
    Gone,
    SourceFailed,
    SourceRecovered,
}

impl ChangeKind {
    /// The event's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "session.started",
            Self::Running => "session.running",
            Self::Waiting => "session.waiting",
            Self::Idle => "session.idle",
            Self::Stopped => "session.stopped",
            Self::Gone => "session.gone",
            Self::SourceFailed => "source.failed",
            Self::SourceRecovered => "source.recovered",
        }
    }

    /// A status that cannot be known is no news.
    fn of(status: Status) -> Option<Self> {
        match status {
            Status::Running => Some(Self::Running),
            Status::Waiting => Some(Self::Waiting),
            Status::Idle => Some(Self::Idle),
            Status::Stopped => Some(Self::Stopped),
            Status::Unknown => None,
        }
    }
}

/// One change. Of a session or of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub kind: ChangeKind,
    pub adapter: String,
    pub key: Option<SessionKey>,
    /// The status that was known before, if any was.
    pub previous: Option<Status>,
    /// The session now; as it was last seen when it is gone.
    pub session: Option<Box<Session>>,
    /// The source that failed or recovered.
    pub source: Option<SourceReport>,
    /// When the first of the processes was started that carried the session before this.
    pub carried_since: Option<Timestamp>,
}

/// A live session, and the last status that was really known of it.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    session: Box<Session>,
    known: Option<Status>,
    /// When the first of its processes was started.
    carried_since: Option<Timestamp>,
}

impl Seen {
    fn new(session: &Session, known: Option<Status>) -> Self {
        let carried_since = session.processes.iter().filter_map(|process| process.started_at).min();
        Self { session: Box::new(session.clone()), known, carried_since }
    }
}

type Place = (String, String);

/// The live sessions as they were seen last. It can be dropped at any moment: it changes no answer, only what counts as
/// a change.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    live: BTreeMap<SessionKey, Seen>,
    sources: BTreeMap<Place, SourceReport>,
    /// Those that were heard completely once: what they did not mention then did not live.
    heard: BTreeSet<Place>,
    /// Live sessions of which somebody knows: something was told of them, or they were shown.
    told: BTreeSet<SessionKey>,
    /// Live sessions that stood behind their twins, and of which nothing was told.
    veiled: BTreeSet<SessionKey>,
}

impl View {
    /// All of them, twins too.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.live.values().map(|seen| &*seen.session)
    }

    /// All of them by their keys.
    pub fn live(&self) -> impl Iterator<Item = (&SessionKey, &Session)> {
        self.live.iter().map(|(key, seen)| (key, &*seen.session))
    }

    pub fn has_same_sessions(&self, other: &Self) -> bool {
        self.live.keys().eq(other.live.keys())
    }

    /// What a person is shown: every conversation once.
    pub fn shown(&self) -> impl Iterator<Item = &Session> {
        let hidden = self.hidden();
        self.live.iter().filter(move |(key, _)| !hidden.contains(*key)).map(|(_, seen)| &*seen.session)
    }

    /// Somebody was shown them all: from now on they are told of to their end.
    pub fn tell_shown(&mut self) {
        let hidden = self.hidden();
        self.told.extend(self.live.keys().filter(|key| !hidden.contains(*key)).cloned());
    }

    /// Who would be hidden by a gateway that cannot be heard now: nobody tells of their ends but themselves.
    fn forsaken(&self) -> HashSet<SessionKey> {
        let mut all = twins::hidden(self.live.iter().map(|(key, seen)| (key, &*seen.session)));
        for key in self.hidden() {
            all.remove(&key);
        }
        all
    }

    /// A gateway that cannot be heard hides nobody.
    fn hidden(&self) -> HashSet<SessionKey> {
        let is_heard = |key: &SessionKey| {
            let source = self.sources.get(&(key.adapter.clone(), key.root.clone()));
            !source.is_some_and(SourceReport::failed)
        };
        let heard = self.live.iter().filter(|(key, _)| is_heard(key));
        twins::hidden(heard.map(|(key, seen)| (key, &*seen.session)))
    }

    pub fn sources(&self) -> impl Iterator<Item = &SourceReport> {
        self.sources.values()
    }

    /// Sessions that were live and are not in this answer about live ones. Nothing can be said of them before they were
    /// asked for by name.
    pub fn missing(&self, live: &Survey) -> Vec<SessionKey> {
        let mentioned = |key: &SessionKey| live.sessions.iter().any(|surveyed| surveyed.key == *key);
        // A source that gave no answer would give none now either.
        let asked =
            |key: &SessionKey| live.sources.iter().any(|source| is_of(source, key) && !source.failed());
        self.live.keys().filter(|key| asked(key) && !mentioned(key)).cloned().collect()
    }

    /// What this answer changes, and the view after it. `now` must mention every live session of the sources that it
    /// heard completely, and what is [missing](Self::missing) among them must have been asked for.
    pub fn diff(&self, now: &Survey) -> (Vec<Change>, Self) {
        let (changes, after) = self.compare(now);
        self.tell(changes, after)
    }

    /// Leaves out what is not told: whatever a twin does unseen, and how that ends, for its front has told it. Where the
    /// front fell silent, the twin tells its own end.
    fn tell(&self, mut changes: Vec<Change>, mut after: Self) -> (Vec<Change>, Self) {
        let (hidden, forsaken) = (after.hidden(), after.forsaken());
        changes.retain(|change| {
            let ends = matches!(change.kind, ChangeKind::Idle | ChangeKind::Stopped | ChangeKind::Gone);
            let is_unseen = |key| hidden.contains(key) || (ends && self.veiled.contains(key));
            change.key.as_ref().is_none_or(|key| self.told.contains(key) || !is_unseen(key))
        });
        let lives = |key: &&SessionKey| after.live.contains_key(*key);
        let heard_of = changes.iter().filter_map(|change| change.key.as_ref());
        let told: BTreeSet<_> = self.told.iter().chain(heard_of).filter(lives).cloned().collect();
        let is_veiled = |key: &&SessionKey| !told.contains(*key) && !forsaken.contains(*key);
        after.veiled = self.veiled.iter().chain(&hidden).filter(lives).filter(is_veiled).cloned().collect();
        after.told = told;
        (changes, after)
    }

    /// Everything that this answer changes, told or not.
    fn compare(&self, now: &Survey) -> (Vec<Change>, Self) {
        let mut changes = Vec::new();
        let sources = self.sources_after(now, &mut changes);
        let complete = sources.iter().filter(|(_, report)| report.proves_absence()).map(|(place, _)| place);
        let earlier = self.heard.iter().filter(|place| sources.contains_key(*place));
        let heard = earlier.chain(complete).cloned().collect();
        let mut after = Self { sources, heard, ..Self::default() };
        for (key, was) in &self.live {
            let Some(source) = now.sources.iter().find(|source| is_of(source, key)) else {
                // Nobody reads that root any more: we fall silent about it too.
                continue;
            };
            let seen = now.sessions.iter().find(|surveyed| surveyed.key == *key);
            match seen.map(|surveyed| (&surveyed.session, surveyed.rule)) {
                // How it ended is about to be known: what could be told now might have to be taken back.
                Some((session, Rule::ExitNotWrittenYet)) => {
                    after.live.insert(key.clone(), Seen { session: session.clone(), ..was.clone() });
                }
                Some((session, _)) => {
                    if let Some(kind) = ChangeKind::of(session.status)
                        && was.known != Some(session.status)
                    {
                        let change = of_session(kind, key, was.known, session);
                        changes.push(Change { carried_since: was.carried_since, ..change });
                    }
                    if session.is_live() {
                        let known = Some(session.status).filter(|status| *status != Status::Unknown);
                        after.live.insert(key.clone(), Seen::new(session, known.or(was.known)));
                    }
                }
                None if source.proves_absence() => {
                    changes.push(of_session(ChangeKind::Gone, key, was.known, &was.session));
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
            // What lived already when its source was first heard did not start now.
            if self.has_heard(key) {
                changes.push(of_session(ChangeKind::Started, key, None, session));
                let kind = ChangeKind::of(session.status);
                changes.extend(kind.map(|kind| of_session(kind, key, None, session)));
            }
            let known = Some(session.status).filter(|status| *status != Status::Unknown);
            after.live.insert(key.clone(), Seen::new(session, known));
        }
        (changes, after)
    }

    /// The sessions that these processes carried.
    pub fn carried_by(&self, pids: &[u32]) -> Vec<SessionKey> {
        let carried = |seen: &Seen| seen.session.processes.iter().any(|process| pids.contains(&process.pid));
        self.live.iter().filter(|(_, seen)| carried(seen)).map(|(key, _)| key.clone()).collect()
    }

    /// What an answer about some sessions alone changes; it says nothing of others, nor of sources.
    pub fn diff_of(&self, some: &[SessionKey], now: &Survey) -> (Vec<Change>, Self) {
        let mut part = self.clone();
        part.live.retain(|key, _| some.contains(key));
        let (mut changes, mut after) = part.compare(now);
        changes.retain(|change| change.key.as_ref().is_some_and(|key| some.contains(key)));
        after.live.retain(|key, _| some.contains(key));
        let mut whole = self.clone();
        whole.live.retain(|key, _| !some.contains(key));
        whole.live.append(&mut after.live);
        self.tell(changes, whole)
    }

    /// What an answer of some agents alone changes; those of the others stay as they were.
    pub fn diff_among(&self, concerns: impl Fn(&str) -> bool, now: &Survey) -> (Vec<Change>, Self) {
        let (mut part, mut rest) = (self.clone(), self.clone());
        part.live.retain(|key, _| concerns(&key.adapter));
        part.sources.retain(|(adapter, _), _| concerns(adapter));
        part.heard.retain(|(adapter, _)| concerns(adapter));
        let (changes, after) = part.compare(now);
        rest.live.retain(|key, _| !concerns(&key.adapter));
        rest.sources.retain(|(adapter, _), _| !concerns(adapter));
        rest.heard.retain(|(adapter, _)| !concerns(adapter));
        rest.live.extend(after.live);
        rest.sources.extend(after.sources);
        rest.heard.extend(after.heard);
        self.tell(changes, rest)
    }

    fn has_heard(&self, key: &SessionKey) -> bool {
        self.heard.contains(&(key.adapter.clone(), key.root.clone()))
    }

    fn sources_after(&self, now: &Survey, changes: &mut Vec<Change>) -> BTreeMap<Place, SourceReport> {
        let mut after = BTreeMap::new();
        for report in &now.sources {
            let place = (report.adapter.clone(), report.root.clone());
            let failed = self.sources.get(&place).is_some_and(SourceReport::failed);
            let kind = match (failed, report.failed()) {
                (false, true) => Some(ChangeKind::SourceFailed),
                (true, false) => Some(ChangeKind::SourceRecovered),
                _ => None,
            };
            changes.extend(kind.map(|kind| Change {
                kind,
                adapter: report.adapter.clone(),
                key: None,
                previous: None,
                session: None,
                source: Some(report.clone()),
                carried_since: None,
            }));
            after.insert(place, report.clone());
        }
        after
    }
}

fn is_of(source: &SourceReport, key: &SessionKey) -> bool {
    source.adapter == key.adapter && source.root == key.root
}

fn of_session(kind: ChangeKind, key: &SessionKey, previous: Option<Status>, session: &Session) -> Change {
    Change {
        kind,
        adapter: key.adapter.clone(),
        key: Some(key.clone()),
        previous,
        session: Some(Box::new(session.clone())),
        source: None,
        carried_since: None,
    }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
