//! Searches the conversations of all sessions, newest session first. Nothing is kept for the next search.
//!
//! The conversations are read on all cores, and their hits are told in the order of the sessions: what is found in an
//! older one waits until those before it are done. Only a few are read ahead, so the memory is bounded.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use agentctl_adapters::cancel::with_cancellation;
use agentctl_adapters::search::{self, Conversation, Pattern, Place, Search};
use agentctl_adapters::{Progress, ReadError};
use agentctl_model::search::Hit;
use agentctl_model::{CoverageKind, Entry, Role, SourceReport, Surveyed};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Fleet;
use crate::read::list::{ListFilter, Sort};
use crate::read::query::{Query, Since, Wanted};

/// What is searched, and where.
#[derive(Debug, Clone)]
pub struct SearchQuery {
    pub pattern: Pattern,
    /// Only what these said or did; empty means everybody.
    pub roles: Vec<Role>,
    /// Only these adapters; empty means all.
    pub adapters: Vec<String>,
    /// Only sessions that work in one of these folders or below; empty means all.
    pub folders: Vec<PathBuf>,
    /// Only sessions that were launched as this group.
    pub group: Option<String>,
    /// Only messages since then.
    pub since: Since,
    /// At most this many hits.
    pub limit: usize,
    /// How many lines before and after the one that fits are told.
    pub around: usize,
    /// One hit for each session is enough.
    pub once: bool,
}

/// What a search tells.
#[derive(Debug)]
pub enum Told {
    Hit(Box<Hit>),
    /// So many of so many conversations were searched.
    Progress {
        done: usize,
        of: usize,
    },
}

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchEnd {
    pub hits: usize,
    /// How many conversations were searched.
    pub searched: usize,
    /// There may be more hits than were asked for.
    pub more: bool,
    pub sources: Vec<SourceReport>,
}

impl SearchEnd {
    /// Whether everything that was asked for was heard, so that what was not found is not there.
    pub fn heard_all(&self) -> bool {
        !self.sources.iter().any(SourceReport::is_incomplete)
    }
}

/// How many conversations are read ahead of the one whose hits are told.
const AHEAD: usize = 32;
/// How often progress is told, and how soon a search ends that nobody waits for.
const TICK: Duration = Duration::from_millis(50);
/// What was written lately is searched before everything else is even listed.
const LATELY: Since = Since::Back(Duration::from_hours(24));

impl Fleet {
    /// Tells every hit, newest session first, until `tell` breaks or the limit is reached.
    pub fn search(&self, asked: &SearchQuery, tell: &mut dyn FnMut(Told) -> ControlFlow<()>) -> SearchEnd {
        let mut end = SearchEnd { hits: 0, searched: 0, more: false, sources: Vec::new() };
        let mut known = HashSet::new();
        let rounds = if asked.since == Since::Ever || wider(asked.since) {
            vec![LATELY, asked.since]
        } else {
            vec![asked.since]
        };
        for since in rounds {
            let filter = ListFilter {
                folders: asked.folders.clone(),
                group: asked.group.clone(),
                sort: Sort::Updated,
                ..ListFilter::default()
            };
            let query = Query {
                subagents: true,
                adapters: asked.adapters.clone(),
                filter,
                ..Query::new(Wanted::All { since })
            };
            let listing = self.list(&query);
            let from = asked.since.start(listing.as_of);
            let new: Vec<Surveyed> =
                listing.sessions.into_iter().filter(|one| known.insert(one.key.clone())).collect();
            end.sources = listing.sources;
            let flow = self.search_sessions(&new, asked, from, &mut end, tell);
            if flow.is_break() {
                break;
            }
        }
        end
    }

    fn search_sessions(
        &self,
        sessions: &[Surveyed],
        asked: &SearchQuery,
        since: Option<Timestamp>,
        end: &mut SearchEnd,
        tell: &mut dyn FnMut(Told) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let next = AtomicUsize::new(0);
        let told = (Mutex::new(0usize), Condvar::new());
        let progress = Progress::default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from).min(sessions.len().max(1));
        let (answers, inbox) = sync_channel::<(usize, Result<Vec<Place>, ReadError>)>(AHEAD);
        let limit = if asked.once { 1 } else { asked.limit.saturating_sub(end.hits) };
        let search =
            Search { pattern: &asked.pattern, roles: &asked.roles, since, limit, around: asked.around };
        let shared = SharedPlaces::of(sessions);
        std::thread::scope(|scope| {
            for _ in 0..cores {
                let (answers, next, told, progress) = (answers.clone(), &next, &told, &progress);
                let (search, shared) = (&search, &shared);
                scope.spawn(move || {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(session) = sessions.get(index) else { return };
                        let mut done = told.0.lock().unwrap_or_else(PoisonError::into_inner);
                        while index > *done + AHEAD && !progress.is_given_up() {
                            done = told.1.wait_timeout(done, TICK).unwrap_or_else(PoisonError::into_inner).0;
                        }
                        drop(done);
                        if progress.is_given_up() {
                            return;
                        }
                        let found =
                            with_cancellation(Some(progress), || self.search_one(session, search, shared));
                        if answers.send((index, found)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(answers);
            let mut waiting: BTreeMap<usize, Result<Vec<Place>, ReadError>> = BTreeMap::new();
            let mut turn = 0;
            let mut flow = ControlFlow::Continue(());
            while turn < sessions.len() && flow.is_continue() {
                match inbox.recv_timeout(TICK) {
                    Ok((index, found)) => {
                        waiting.insert(index, found);
                    }
                    // All of them are done, and the next one has said nothing.
                    Err(RecvTimeoutError::Disconnected) if !waiting.contains_key(&turn) => break,
                    Err(_) => {}
                }
                while let Some(found) = waiting.remove(&turn) {
                    flow = self.tell_found(&sessions[turn], found, asked, end, tell);
                    turn += 1;
                    *told.0.lock().unwrap_or_else(PoisonError::into_inner) = turn;
                    told.1.notify_all();
                    if flow.is_break() {
                        break;
                    }
                }
                if flow.is_continue() {
                    flow = tell(Told::Progress { done: turn, of: sessions.len() });
                }
            }
            progress.give_up();
            told.1.notify_all();
            // Whoever still wants to answer must not wait.
            drop(inbox);
            flow
        })
    }

    fn tell_found(
        &self,
        session: &Surveyed,
        found: Result<Vec<Place>, ReadError>,
        asked: &SearchQuery,
        end: &mut SearchEnd,
        tell: &mut dyn FnMut(Told) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        end.searched += 1;
        let places = match found {
            Ok(places) => places,
            Err(error) => {
                let key = &session.key;
                let source =
                    end.sources.iter_mut().find(|one| one.adapter == key.adapter && one.root == key.root);
                if let Some(source) = source {
                    source.warnings.push(error.to_string());
                    if source.coverage == CoverageKind::Complete {
                        source.coverage = CoverageKind::Partial;
                    }
                }
                Vec::new()
            }
        };
        for place in places {
            if end.hits >= asked.limit {
                end.more = true;
                return ControlFlow::Break(());
            }
            end.hits += 1;
            tell(Told::Hit(Box::new(self.hit(session, place))))?;
        }
        if end.hits >= asked.limit {
            end.more = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn hit(&self, found: &Surveyed, place: Place) -> Hit {
        let session = &found.session;
        Hit {
            session_id: session.id.clone(),
            adapter: session.adapter.clone(),
            config_root: session.config_root.clone(),
            host: self.host().to_owned(),
            at: place.at,
            role: place.role,
            tool: place.tool,
            hit: place.position,
            line: place.shown.line,
            matches: place.shown.matches,
            before: place.shown.before,
            after: place.shown.after,
            status: session.status,
            name: session.name.clone().or_else(|| session.prompt.clone()),
            cwd: session.cwd.clone(),
        }
    }

    /// One conversation. A panic is the failure of this conversation alone.
    fn search_one(
        &self,
        session: &Surveyed,
        asked: &Search<'_>,
        shared: &SharedPlaces<'_>,
    ) -> Result<Vec<Place>, ReadError> {
        let found = catch_unwind(AssertUnwindSafe(|| {
            if !self.may_fit(session, asked, shared) {
                return Ok(Vec::new());
            }
            self.conversation(session)
                .map_or_else(|| Ok(Vec::new()), |conversation| search::search(&conversation, asked))
        }));
        found.unwrap_or_else(|_| {
            Err(ReadError::new(&session.place, std::io::Error::other("could not be searched")))
        })
    }

    /// Whether a session among many in one place has a record that may fit. The place is read once for all of them.
    fn may_fit(&self, session: &Surveyed, asked: &Search<'_>, shared: &SharedPlaces<'_>) -> bool {
        let Some(candidates) = shared.0.get(session.place.as_path()) else { return true };
        let candidates = candidates.get_or_init(|| {
            let source = self.source_of(session)?;
            let may_fit = search::sieve(asked.pattern);
            // If this fails, each session says for itself why it cannot be read.
            source.adapter.candidates(&session.place, &may_fit).ok().flatten()
        });
        candidates.as_ref().is_none_or(|candidates| candidates.contains(&session.key.id))
    }

    pub(crate) fn conversation<'f>(&'f self, session: &'f Surveyed) -> Option<Conversation<'f>> {
        let source = self.source_of(session)?;
        Some(match source.adapter.gateway() {
            Some(gateway) => gateway.conversation(&source.root, &session.key.id),
            None => source.adapter.conversation(&session.place, &session.key.id),
        })
    }

    /// The entries around a hit, oldest first, and which of them it is. `None` if nothing stands there any more.
    pub fn read_around(
        &self,
        session: &Surveyed,
        hit: &str,
        around: (usize, usize),
    ) -> Result<Option<(Vec<Entry>, usize)>, ReadError> {
        self.conversation(session)
            .map_or(Ok(None), |conversation| search::read_around(&conversation, hit, around))
    }
}

/// The places of several sessions, each with the sessions that may fit, once they are known.
struct SharedPlaces<'s>(HashMap<&'s Path, OnceLock<Option<HashSet<String>>>>);

impl<'s> SharedPlaces<'s> {
    /// For a few sessions a pass over all of them costs more than it saves.
    const FEW: usize = 16;

    fn of(sessions: &'s [Surveyed]) -> Self {
        let mut counts: HashMap<&Path, usize> = HashMap::new();
        for session in sessions {
            *counts.entry(&session.place).or_default() += 1;
        }
        let many = counts.into_iter().filter(|(_, count)| *count > Self::FEW);
        Self(many.map(|(place, _)| (place, OnceLock::new())).collect())
    }
}

/// Whether a window is wider than what is searched first.
fn wider(since: Since) -> bool {
    match (since, LATELY) {
        (Since::Back(asked), Since::Back(lately)) => asked > lately,
        _ => true,
    }
}
