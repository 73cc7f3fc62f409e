//! Which conversations there are to search.
//!
//! Where conversations lie in files of their own, the files are found without reading one. What only a list knows (the
//! sessions in a database, in a gateway) is listed, first what was written lately. So is everything when the search is about
//! a folder or a group, because only the sessions say where they belong.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentctl_adapters::search::Searched;
use agentctl_adapters::{Progress, Stored, StoredFile};
use agentctl_model::{Coverage, SessionKey, SourceReport, Survey, Surveyed};
use jiff::{SignedDuration, Timestamp};

use super::SearchQuery;
use super::queue::{Newest, Queued};
use crate::read::list::{ListFilter, Sort};
use crate::read::query::{Query, Since, Wanted};
use crate::read::survey::hear;
use crate::{Fleet, Source};

/// What was written lately is searched before everything else is even listed.
const LATELY: Since = Since::Back(Duration::from_hours(24));

/// For a few sessions a pass over all of their place costs more than it saves.
const FEW: usize = 16;

/// The kernel dates a file by its last tick, which may be before the moment of the record that was written then.
const CLOCK_LAG: SignedDuration = SignedDuration::from_secs(2);

/// Something that one thread searches.
pub(super) enum Item {
    /// A session that is known already.
    Session(Box<Surveyed>),
    /// A file whose session is looked at only if something is found in it.
    File { source: Arc<Source>, file: StoredFile },
    /// Sessions in one place, of which one pass finds those that may fit.
    Many(Vec<Surveyed>),
    /// The sessions that are not listed so far. None of them is newer.
    Rest(Newest),
}

/// What the search of an item gives.
pub(super) enum Found {
    Places(Searched),
    /// The ids of the sessions that may fit; `None` if all may.
    Among(Option<HashSet<String>>),
    Rest(Listed),
}

impl Found {
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Self::Places(Searched { places, unread: None }) if places.is_empty())
    }
}

impl Item {
    pub(super) fn queued(self) -> Queued {
        let updated_at = |session: &Surveyed| session.session.updated_at;
        let newest = match &self {
            Self::Session(session) => updated_at(session),
            // Of a time that is not known everything must be expected.
            Self::File { file, .. } => Some(file.modified.map_or(Timestamp::MAX, lagging)),
            Self::Many(sessions) => sessions.iter().map(updated_at).max().flatten(),
            Self::Rest(newest) => *newest,
        };
        Queued { newest, item: self }
    }

    pub(super) fn place(&self) -> &Path {
        match self {
            Self::Session(session) => &session.place,
            Self::File { file, .. } => &file.path,
            Self::Many(sessions) => sessions.first().map_or(Path::new(""), |session| &session.place),
            Self::Rest(_) => Path::new(""),
        }
    }

    /// How many conversations it has.
    pub(super) fn conversations(&self) -> usize {
        match self {
            Self::Session(_) | Self::File { .. } => 1,
            Self::Many(sessions) => sessions.len(),
            Self::Rest(_) => 0,
        }
    }
}

pub(super) fn lagging(modified: Timestamp) -> Timestamp {
    modified.checked_add(CLOCK_LAG).unwrap_or(Timestamp::MAX)
}

/// Sessions that were listed.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) sessions: Vec<Surveyed>,
    pub(super) sources: Vec<SourceReport>,
}

/// Files that were found.
pub(super) struct Files {
    pub(super) files: Vec<(Arc<Source>, StoredFile)>,
    pub(super) sources: Vec<SourceReport>,
}

/// Sessions of files whose names do not say whose they are, by adapter and place.
#[derive(Default)]
pub(super) struct Others {
    /// The sources of which all sessions were looked at.
    pub(super) asked: HashSet<(&'static str, PathBuf)>,
    pub(super) known: HashMap<(&'static str, PathBuf), Surveyed>,
}

/// Where is searched, and how.
pub(super) struct Plan<'f> {
    pub(super) fleet: &'f Fleet,
    pub(super) asked: &'f SearchQuery,
    /// The sources whose sessions must be listed.
    listed: Vec<Source>,
    /// The sources whose conversations lie in files of their own.
    stored: Vec<Arc<Source>>,
    pub(super) others: Mutex<Others>,
    /// Sessions that were listed first.
    early: Mutex<HashSet<SessionKey>>,
}

impl<'f> Plan<'f> {
    pub(super) fn new(fleet: &'f Fleet, asked: &'f SearchQuery) -> Self {
        let is_narrow = !asked.folders.is_empty() || asked.group.is_some();
        let query = Query { adapters: asked.adapters.clone(), ..Query::new(Wanted::Live) };
        let has_files = |source: &Source| !is_narrow && source.adapter.stored().is_some();
        let meant = fleet.sources().iter().filter(|source| fleet.is_asked(source, &query)).cloned();
        let (stored, listed): (Vec<Source>, Vec<Source>) = meant.partition(has_files);
        let stored = stored.into_iter().map(Arc::new).collect();
        Self { fleet, asked, listed, stored, others: Mutex::default(), early: Mutex::default() }
    }

    /// What is listed first. A gateway tells everything at once.
    pub(super) fn first(&self) -> Since {
        if self.is_first_lately() { LATELY } else { self.asked.since }
    }

    /// Whether more is to be listed after what is listed first.
    pub(super) fn is_first_lately(&self) -> bool {
        let is_wider = match (self.asked.since, LATELY) {
            (Since::Back(asked), Since::Back(lately)) => asked > lately,
            _ => true,
        };
        let is_gateway = |source: &Source| {
            source.adapter.gateway().is_some_and(|gateway| gateway.is_reachable(&source.root))
        };
        let is_told_at_once = self.listed.is_empty() || self.listed.iter().any(is_gateway);
        is_wider && !is_told_at_once
    }

    /// The adapters and the roots from which an item comes.
    pub(super) fn sources_of(&self, item: &Item) -> Vec<(String, String)> {
        let of = |key: &SessionKey| (key.adapter.clone(), key.root.clone());
        let at =
            |source: &Source| (source.name().to_owned(), source.root.path.to_string_lossy().into_owned());
        match item {
            Item::Session(session) => vec![of(&session.key)],
            Item::File { source, .. } => vec![at(source)],
            Item::Many(sessions) => sessions.iter().take(1).map(|session| of(&session.key)).collect(),
            Item::Rest(_) => self.listed.iter().map(at).collect(),
        }
    }

    fn query(&self, wanted: Wanted) -> Query {
        Query { subagents: true, adapters: self.asked.adapters.clone(), ..Query::new(wanted) }
    }

    /// The sessions of the sources that must be listed, without those that were listed before.
    pub(super) fn list(&self, since: Since) -> Listed {
        if self.listed.is_empty() {
            return Listed::default();
        }
        let filter = ListFilter {
            folders: self.asked.folders.clone(),
            group: self.asked.group.clone(),
            sort: Sort::Updated,
            ..ListFilter::default()
        };
        let query = Query { filter, ..self.query(Wanted::All { since }) };
        let listing = self.fleet.reading(self.listed.clone()).list(&query);
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        let new = listing.sessions.into_iter().filter(|one| early.insert(one.key.clone()));
        Listed { sessions: new.collect(), sources: listing.sources }
    }

    /// The sources whose conversations lie in files.
    fn files_only(&self) -> Fleet {
        self.fleet.reading(self.stored.iter().map(|source| Source::clone(source)).collect())
    }

    /// The live sessions whose conversations lie in files.
    pub(super) fn live(&self) -> Vec<Surveyed> {
        if self.stored.is_empty() {
            return Vec::new();
        }
        self.files_only().survey(&self.query(Wanted::Live)).sessions
    }

    /// The files of the sources that have one for each conversation.
    pub(super) fn stored(&self) -> Files {
        let list = |_: usize, source: &Source, _: Progress| {
            let list = source.adapter.stored();
            list.map_or_else(|| Stored::nothing(Coverage::NotInstalled), |list| list(&source.root))
        };
        let heard = hear(self.files_only().sources, list, Stored::nothing);
        let (mut files, mut sources) = (Vec::new(), Vec::new());
        for (source, (stored, took)) in self.stored.iter().zip(heard) {
            let coverage = &stored.harvest.coverage;
            let has_answered = matches!(coverage, Coverage::Complete | Coverage::Partial);
            sources.push(SourceReport {
                adapter: source.name().to_owned(),
                root: source.root.path.to_string_lossy().into_owned(),
                host: self.fleet.host().to_owned(),
                coverage: coverage.kind(),
                error: coverage.error(),
                warnings: stored.harvest.warnings,
                sessions: has_answered.then_some(stored.files.len()),
                took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            });
            files.extend(stored.files.into_iter().map(|file| (source.clone(), file)));
        }
        Files { files, sources }
    }

    /// The sessions that are not shown beside their twins: a gateway's, or those of the agents behind it.
    pub(super) fn hidden(&self, listed: &[Surveyed], live: &[Surveyed]) -> HashSet<SessionKey> {
        let natives: Vec<String> = listed
            .iter()
            .filter_map(|one| one.session.meta.native.as_ref())
            .map(|native| native.id.clone())
            .collect();
        if natives.is_empty() || self.stored.is_empty() {
            return HashSet::new();
        }
        let query = self.query(Wanted::Ids(natives));
        let mut survey = self.files_only().survey(&query);
        let looked_at: HashSet<SessionKey> = survey.sessions.iter().map(|one| one.key.clone()).collect();
        let others = listed.iter().chain(live).filter(|one| !looked_at.contains(&one.key)).cloned();
        survey.sessions.extend(others);
        let all: HashSet<SessionKey> = survey.sessions.iter().map(|one| one.key.clone()).collect();
        let mut folded = Survey { sessions: survey.sessions, ..Survey::default() };
        folded.fold_twins();
        let shown: HashSet<SessionKey> = folded.sessions.into_iter().map(|one| one.key).collect();
        all.difference(&shown).cloned().collect()
    }
}

/// The files and the live sessions as items. Nothing that was last written before the period can have a message in it.
pub(super) fn items(
    files: Vec<(Arc<Source>, StoredFile)>,
    live: Vec<Surveyed>,
    since: Option<Timestamp>,
) -> Vec<Queued> {
    // Several files may be one session, which is as new as the newest of them.
    let session = |source: &Arc<Source>, id| (Arc::as_ptr(source), id);
    let mut newest: HashMap<(*const Source, &str), Newest> = HashMap::with_capacity(files.len());
    for (source, file) in files.iter().filter(|(_, file)| !file.id.is_empty()) {
        let known = newest.entry(session(source, file.id.as_str())).or_default();
        *known = (*known).max(Some(file.modified.map_or(Timestamp::MAX, lagging)));
    }
    let of_session: Vec<Newest> = files
        .iter()
        .map(|(source, file)| newest.get(&session(source, &file.id)).copied().flatten())
        .collect();
    let mut live: HashMap<PathBuf, Surveyed> =
        live.into_iter().map(|session| (session.place.clone(), session)).collect();
    let mut items = Vec::with_capacity(files.len());
    for ((source, file), of_session) in files.into_iter().zip(of_session) {
        let is_own = |session: &Surveyed| session.key.adapter == source.name();
        if live.get(&file.path).is_some_and(is_own)
            && let Some(session) = live.remove(&file.path)
        {
            items.push(Item::Session(Box::new(session)).queued());
            continue;
        }
        let is_old =
            file.modified.is_some_and(|modified| since.is_some_and(|since| lagging(modified) < since));
        if !is_old {
            let queued = Item::File { source, file }.queued();
            items.push(Queued { newest: queued.newest.max(of_session), ..queued });
        }
    }
    items
}

/// Listed sessions as items. Of many in one place, one pass finds those that may fit, unless they are only the first of
/// more.
pub(super) fn of_sessions(sessions: Vec<Surveyed>, is_first: bool) -> Vec<Queued> {
    let mut by_place: HashMap<PathBuf, Vec<Surveyed>> = HashMap::new();
    for session in sessions {
        by_place.entry(session.place.clone()).or_default().push(session);
    }
    let mut items = Vec::new();
    for sessions in by_place.into_values() {
        if sessions.len() > FEW && !is_first {
            items.push(Item::Many(sessions).queued());
        } else {
            items.extend(sessions.into_iter().map(|session| Item::Session(Box::new(session)).queued()));
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use agentctl_adapters::search::Pattern;
    use agentctl_adapters::{Root, registry};
    use agentctl_process::fake::Scripted;

    use super::*;

    #[test]
    fn only_a_gateway_that_can_be_asked_tells_everything_at_once() {
        let is_first_lately = |gateway: &str| {
            let source = |name: &str, root: &str| {
                let adapter = registry().into_iter().find(|adapter| adapter.card().name == name).unwrap();
                Source { adapter, root: Root::at(root), timeout: Duration::from_secs(1) }
            };
            let sources = vec![source("opencode", "/o"), source("openclaw", gateway), source("pi", "/p")];
            let fleet = Fleet::new(sources, Arc::new(Scripted::new()));
            let asked = SearchQuery {
                pattern: Pattern::new(&["word".to_owned()], false, false).unwrap(),
                roles: Vec::new(),
                adapters: Vec::new(),
                folders: Vec::new(),
                group: None,
                since: Since::Ever,
                limit: 1,
                around: 0,
                once: false,
            };
            Plan::new(&fleet, &asked).is_first_lately()
        };
        assert!(is_first_lately("/home/dev/.openclaw"), "no gateway is there");
        assert!(!is_first_lately("ws://127.0.0.1:18789"));
    }
}
