//! The sessions of the files in which something was found. They are looked at like sessions that were asked for by their ids,
//! several at once: the first at once, later ones together, so that a word that is found everywhere costs few looks.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use agentctl_adapters::StoredFile;
use agentctl_adapters::search::Place;
use agentctl_model::{SourceReport, Surveyed};

use super::conversations::{Plan, lagging};
use super::queue::Newest;
use crate::Source;
use crate::read::query::{Query, Wanted};

/// With more of them than this the search waits until they are known.
pub(super) const MOST_UNKNOWN: usize = 64;

/// A file in which something was found.
pub(super) struct Unknown {
    pub(super) source: Arc<Source>,
    pub(super) file: StoredFile,
    pub(super) newest: Newest,
    pub(super) places: Vec<Place>,
}

impl Unknown {
    pub(super) fn newest(&self) -> Newest {
        self.newest
    }
}

/// The time between two looks. It grows, because each look also reads the process table.
pub(super) struct Gap {
    next: Instant,
    length: Duration,
    /// How new the sessions can be that are being looked at.
    looking: Option<Newest>,
    /// Nothing was looked at so far.
    is_first: bool,
}

impl Default for Gap {
    fn default() -> Self {
        let length = Duration::from_millis(20);
        Self { next: Instant::now() + Self::LONGEST, length, looking: None, is_first: true }
    }
}

impl Gap {
    const LONGEST: Duration = Duration::from_millis(500);

    /// What is looked at now; everything when nothing else is `left` to be searched. Otherwise it must be the turn of one of
    /// them: nothing that is left can come before it, if it is as new as its file. Somebody waits for the first hit, so the
    /// first look is at those alone.
    pub(super) fn batch(&self, unknown: &mut Vec<Unknown>, left: Option<Newest>) -> Vec<Unknown> {
        if self.looking.is_some() {
            return Vec::new();
        }
        let Some(left) = left else { return std::mem::take(unknown) };
        let is_turn = |one: &Unknown| one.newest > left.map(lagging);
        let is_over = Instant::now() >= self.next;
        let is_full = unknown.len() >= MOST_UNKNOWN && is_over;
        if is_full || (!self.is_first && is_over && unknown.iter().any(is_turn)) {
            return std::mem::take(unknown);
        }
        if self.is_first { unknown.extract_if(.., |one| is_turn(one)).collect() } else { Vec::new() }
    }

    pub(super) fn begin(&mut self, batch: &[Unknown]) {
        self.looking = batch.iter().map(Unknown::newest).max();
    }

    pub(super) fn end(&mut self) {
        self.looking = None;
        self.is_first = false;
        self.next = Instant::now() + self.length;
        self.length = (self.length * 2).min(Self::LONGEST);
    }

    pub(super) fn newest(&self) -> Option<Newest> {
        self.looking
    }

    /// The first look has the machine for itself.
    pub(super) fn is_first_look(&self) -> bool {
        self.is_first && self.looking.is_some()
    }
}

impl Plan<'_> {
    /// The session of each file, if the file is the place of one, and how the sources were heard.
    pub(super) fn look_at(
        &self,
        batch: Vec<Unknown>,
    ) -> (Vec<(Unknown, Option<Surveyed>)>, Vec<SourceReport>) {
        let mut sources: Vec<Source> = Vec::new();
        for one in &batch {
            let is_same = |known: &Source| known.name() == one.source.name() && known.root == one.source.root;
            if !sources.iter().any(is_same) {
                sources.push(Source::clone(&one.source));
            }
        }
        let names: HashSet<&str> =
            batch.iter().map(|one| one.file.id.as_str()).filter(|id| !id.is_empty()).collect();
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let mut reports = Vec::new();
        let mut known: HashMap<(&'static str, PathBuf), Surveyed> = HashMap::new();
        if !names.is_empty() {
            self.survey(&sources, names, &mut known, &mut reports);
        }
        // The name of a file does not always say whose it is.
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        for one in &batch {
            let root = one.source.root.path.clone();
            let place = (one.source.name(), one.file.path.clone());
            if !known.contains_key(&place) && others.asked.insert((one.source.name(), root)) {
                let all = vec![String::new()];
                self.survey(&[Source::clone(&one.source)], all, &mut others.known, &mut reports);
            }
        }
        let mut session = |one: Unknown| {
            let place = (one.source.name(), one.file.path.clone());
            let session = known.remove(&place).or_else(|| others.known.remove(&place));
            (one, session)
        };
        (batch.into_iter().map(&mut session).collect(), reports)
    }

    /// Looks at the sessions of these sources whose ids begin so.
    fn survey(
        &self,
        sources: &[Source],
        ids: Vec<String>,
        known: &mut HashMap<(&'static str, PathBuf), Surveyed>,
        reports: &mut Vec<SourceReport>,
    ) {
        let query =
            Query { subagents: true, adapters: self.asked.adapters.clone(), ..Query::new(Wanted::Ids(ids)) };
        let survey = self.fleet.reading(sources.to_vec()).survey(&query);
        for session in survey.sessions {
            let name = sources.iter().map(Source::name).find(|name| *name == session.key.adapter);
            if let Some(name) = name {
                known.insert((name, session.place.clone()), session);
            }
        }
        reports.extend(survey.sources);
    }
}

#[cfg(test)]
mod tests {
    use agentctl_adapters::{Root, registry};
    use jiff::Timestamp;

    use super::*;

    fn at(second: i64) -> Newest {
        Timestamp::from_second(second).ok()
    }

    fn unknown(id: &str, newest: Newest) -> Unknown {
        let source = Source { adapter: registry()[0], root: Root::at("/r"), timeout: Duration::from_secs(1) };
        let file = StoredFile { path: PathBuf::from(id), id: id.to_owned(), modified: newest };
        Unknown { source: Arc::new(source), file, newest, places: Vec::new() }
    }

    fn ids(batch: &[Unknown]) -> Vec<&str> {
        batch.iter().map(|one| one.file.id.as_str()).collect()
    }

    #[test]
    fn the_first_look_is_at_the_newest_alone_and_the_next_at_all() {
        let mut gap = Gap { next: Instant::now() + Duration::from_hours(1), ..Gap::default() };
        let all = || vec![unknown("old", at(10)), unknown("new", at(100)), unknown("newer", at(101))];
        let mut waiting = all();
        assert!(gap.batch(&mut waiting, Some(at(99))).is_empty(), "something may still come before them");
        let first = gap.batch(&mut waiting, Some(at(90)));
        assert_eq!((ids(&first), ids(&waiting)), (vec!["new", "newer"], vec!["old"]));
        gap.begin(&first);
        assert!(gap.is_first_look() && gap.newest() == Some(at(101)));
        assert!(gap.batch(&mut waiting, None).is_empty(), "one look at a time");
        gap.end();
        assert!(!gap.is_first_look());
        gap.next = Instant::now() + Duration::from_hours(1);
        let mut waiting = all();
        assert!(gap.batch(&mut waiting, Some(at(1))).is_empty(), "later ones wait for one another");
        assert_eq!(ids(&gap.batch(&mut waiting, None)), ["old", "new", "newer"], "nothing else is left");
        let mut late = Gap { next: Instant::now(), ..Gap::default() };
        assert!(late.batch(&mut all(), Some(at(200))).is_empty(), "none of them could be told");
        let mut many: Vec<Unknown> = (0..MOST_UNKNOWN).map(|_| unknown("one", at(10))).collect();
        assert_eq!(late.batch(&mut many, Some(at(200))).len(), MOST_UNKNOWN, "nobody waits for ever");
        late.end();
        late.next = Instant::now();
        assert!(late.batch(&mut all(), Some(at(200))).is_empty());
        assert_eq!(late.batch(&mut all(), Some(at(1))).len(), 3);
    }
}
