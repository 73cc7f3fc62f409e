//! The one function that answers questions about sessions.
//!
//! Storage is read first and the process table second, so that absence is always newer than presence. Where the
//! two contradict each other, what is in doubt is read once more and the kernel is looked at again.

mod ask;
pub(crate) mod family;
pub(crate) mod feeds;
pub(crate) mod kernel;
mod native_roots;
pub(crate) mod peers;
mod sources;
pub(crate) mod standing;
mod unseen;
mod verdicts;

use std::path::Path;
use std::time::Duration;

use agentctl_model::{
    Coverage, EndedLaunch, Found, Harvest, Joined, OwnerIdentity, Registration, Session, SourceReport, Stamp,
    Survey, Surveyed, Tie, TurnState,
};
use jiff::{SignedDuration, Timestamp};

use crate::keep::launches::Ledger;
use crate::read::prices;
use crate::read::query::{Query, Since, Wanted};
use crate::read::survey::ask::ask_owners;
use crate::read::survey::kernel::KernelSnapshot;
use crate::read::survey::sources::{Sessions, SourceReading, SourceRequest, read_sources};
use crate::read::survey::unseen::{Unseen, unseen};
use crate::read::survey::verdicts::SourceVerdicts;
use crate::worktree::head::branch_of;
use crate::{Fleet, Source};

/// How long a half-written note of an agent may take to be whole: a pause before looking again, never a verdict.
const SETTLING: Duration = Duration::from_millis(10);

/// Longer than any tick of a file's clock. What is younger is read again; nothing is concluded from it.
const TICKS: SignedDuration = SignedDuration::from_secs(2);

impl Fleet {
    /// Asks all chosen sources and the kernel, and judges every session that is wanted.
    pub fn survey(&self, query: &Query) -> Survey {
        let sources: Vec<Source> =
            self.sources.iter().filter(|source| is_asked(source, query)).cloned().collect();
        let look = || KernelSnapshot::take(self.kernel.as_ref());

        let ledger = self.ledger();
        let since = query.wanted.since(now());
        let requests = self.requests(&sources, query, since, look, &ledger);
        let mut readings = read_sources(requests, self.memory.as_ref());
        let mut seen = look();
        if self.read_living(&sources, &mut readings, &seen, query, &ledger) {
            seen = look();
        }
        let mut joined = self.join_all(&sources, &readings, &seen, &ledger);
        if self.read_rivals(&sources, &mut readings, &joined, &seen, query, &ledger) {
            seen = look();
            joined = self.join_all(&sources, &readings, &seen, &ledger);
        }
        let hidden = self.unseen_all(&sources, &readings, &joined, &seen);
        let seen = match doubts(&sources, &readings, &joined, &hidden, seen.as_of) {
            None => seen,
            Some(doubts) => {
                if joined.iter().any(|joined| joined.unsettled) {
                    std::thread::sleep(SETTLING);
                }
                read_again(&sources, &mut readings, &doubts, query);
                let seen = look();
                joined = self.join_all(&sources, &readings, &seen, &ledger);
                // Whoever went between the two looks may have closed its turn before. It is gone for good: this needs
                // no third look.
                let last_words = last_words(&sources, &readings, &joined, seen.as_of);
                read_again(&sources, &mut readings, &last_words, query);
                seen
            }
        };
        let ended = |source: &Source, harvest: &Harvest| {
            let root = source.root.path.to_string_lossy();
            ledger.exits(source.name(), &root, &harvest.found, seen.living(), self.kernel.as_ref())
        };
        let hidden = self.unseen_all(&sources, &readings, &joined, &seen);
        let mut survey = conclude(&sources, readings, joined, hidden, &seen, ended, (query, since));
        native_roots::settle(&mut survey.sessions, &self.sources);
        if !ledger.is_empty() {
            survey.sessions.iter_mut().for_each(|surveyed| remember(surveyed, &ledger, query));
        }
        if !self.prices.is_empty() {
            survey.sessions.iter_mut().for_each(|surveyed| prices::fill(&mut surveyed.session, &self.prices));
        }
        survey
    }

    /// A window is for stopped sessions alone. Whatever a live process may carry is heard too, however old its records are:
    /// the same sessions that a list of the live ones hears. Says whether there was anything to read.
    fn read_living(
        &self,
        sources: &[Source],
        readings: &mut [SourceReading],
        seen: &KernelSnapshot,
        query: &Query,
        ledger: &Ledger,
    ) -> bool {
        if !matches!(query.wanted, Wanted::All { since } if since != Since::Ever) {
            return false;
        }
        let mut indices = Vec::new();
        let mut requests = Vec::new();
        for (index, source) in sources.iter().enumerate().filter(|(index, _)| readings[*index].has_answered())
        {
            let view = seen.view(self.kernel.as_ref(), source, None, ledger);
            if !view.processes.is_empty() {
                indices.push(index);
                let sessions = Sessions::Live(Box::new(view));
                requests.push((source.clone(), SourceRequest::new(query, sessions)));
            }
        }
        for (index, living) in indices.iter().zip(read_sources(requests, self.memory.as_ref())) {
            add_living(&mut readings[*index], living);
        }
        !indices.is_empty()
    }

    /// That a session is the only candidate of a process can be said only when all were read: one that was asked for by
    /// its id was read alone. Says whether there was anything to read.
    fn read_rivals(
        &self,
        sources: &[Source],
        readings: &mut [SourceReading],
        joined: &[Joined],
        seen: &KernelSnapshot,
        query: &Query,
        ledger: &Ledger,
    ) -> bool {
        if !matches!(query.wanted, Wanted::Ids(_)) {
            return false;
        }
        let paired = |joined: &Joined| joined.claims.iter().any(|claim| claim.tie == Tie::OnlyCandidate);
        let indices: Vec<usize> = (0..sources.len()).filter(|index| paired(&joined[*index])).collect();
        let request = |index: &usize| {
            let source = sources[*index].clone();
            let view = seen.view(self.kernel.as_ref(), &source, Some(&readings[*index].harvest), ledger);
            // Nobody asked how much the others used.
            (source, SourceRequest::new(query, Sessions::Live(Box::new(view))).counting(false))
        };
        let requests = indices.iter().map(request).collect();
        for (index, mut again) in indices.iter().zip(read_sources(requests, None)) {
            // What was read by its id was read more closely, and stays.
            let harvest = &mut readings[*index].harvest;
            let is_known = |found: &Found| {
                harvest.found.iter().any(|known| known.id == found.id && known.slot == found.slot)
            };
            again.harvest.found.retain(|found| !is_known(found));
            merge(harvest, again.harvest, &[]);
        }
        !indices.is_empty()
    }

    /// Of each source, the sessions whose carrier may be where it cannot be seen.
    fn unseen_all(
        &self,
        sources: &[Source],
        readings: &[SourceReading],
        joined: &[Joined],
        look: &KernelSnapshot,
    ) -> Vec<Unseen> {
        let all = sources.iter().zip(readings).zip(joined);
        let hidden = all.map(|((source, reading), joined)| {
            unseen(self.kernel.as_ref(), look, source, &reading.harvest, joined)
        });
        hidden.collect()
    }

    /// What agentctl itself started, read at the moment of the question like everything else.
    pub(crate) fn ledger(&self) -> Ledger {
        self.launches.as_deref().map(Ledger::read).unwrap_or_default()
    }

    fn requests(
        &self,
        sources: &[Source],
        query: &Query,
        since: Option<Timestamp>,
        look: impl Fn() -> KernelSnapshot,
        ledger: &Ledger,
    ) -> Vec<(Source, SourceRequest)> {
        let first = matches!(query.wanted, Wanted::Live).then(look);
        let seat = self.kernel.namespace_view();
        let sessions = |source: &Source| match (&query.wanted, &first) {
            (Wanted::All { .. }, _) => Sessions::All { since },
            (Wanted::Ids(ids), _) => Sessions::Ids(ids.clone()),
            // What lives where it cannot be seen leaves no process to look for: the records must be asked.
            (Wanted::Live, Some(_)) if !seat.sees_all && source.adapter.gateway().is_none() => {
                Sessions::All { since: seat.booted_at }
            }
            (Wanted::Live, Some(look)) => {
                Sessions::Live(Box::new(look.view(self.kernel.as_ref(), source, None, ledger)))
            }
            (Wanted::Live, None) => Sessions::Ids(Vec::new()),
        };
        let request = |source: &Source| (source.clone(), SourceRequest::new(query, sessions(source)));
        sources.iter().map(request).collect()
    }

    fn join_all(
        &self,
        sources: &[Source],
        readings: &[SourceReading],
        look: &KernelSnapshot,
        ledger: &Ledger,
    ) -> Vec<Joined> {
        let mut joined = Vec::with_capacity(sources.len());
        for (source, reading) in sources.iter().zip(readings) {
            let view = look.view(self.kernel.as_ref(), source, Some(&reading.harvest), ledger);
            let claims = source.adapter.join(&source.root, &reading.harvest, &view);
            joined.push((source, view, claims));
        }
        ask_owners(joined)
    }
}

/// Puts beside a session what agentctl knows because it started it.
fn remember(surveyed: &mut Surveyed, ledger: &Ledger, query: &Query) {
    if let Some((launch, group)) = ledger.of(&surveyed.key, query.text_limit()) {
        surveyed.session.launch = Some(launch);
        surveyed.session.group = group;
    }
}

fn is_asked(source: &Source, query: &Query) -> bool {
    let named = query.adapters.is_empty() || query.adapters.iter().any(|name| name == source.name());
    named && query.root.as_ref().is_none_or(|root| source.root.path.as_os_str() == root.as_str())
}

/// What is to be read again: per source, by its index, the ids.
type Doubts = Vec<(usize, Vec<String>)>;

/// Reads once more what is in doubt. How much a session used is counted only for those that were asked for.
fn read_again(sources: &[Source], readings: &mut [SourceReading], doubts: &Doubts, query: &Query) {
    let counted = |id: &String| query.usage && query.wanted.names(id);
    let split = doubts.iter().flat_map(|(index, ids)| {
        let (asked, beside): (Vec<String>, Vec<String>) = ids.iter().cloned().partition(counted);
        // Without any id the agent's own notes are read again.
        let beside =
            Some((*index, beside, false)).filter(|(_, beside, _)| !beside.is_empty() || ids.is_empty());
        Some((*index, asked, true)).filter(|(_, asked, _)| !asked.is_empty()).into_iter().chain(beside)
    });
    let split: Vec<(usize, Vec<String>, bool)> = split.collect();
    let request = |(index, ids, usage): &(usize, Vec<String>, bool)| {
        let request = SourceRequest::new(query, Sessions::Ids(ids.clone()));
        (sources[*index].clone(), request.counting(*usage))
    };
    let requests = split.iter().map(request).collect();
    for ((index, ids, _), again) in split.iter().zip(read_sources(requests, None)) {
        merge(&mut readings[*index].harvest, again.harvest, ids);
    }
}

/// The ids that must be read once more; `None` when nothing contradicts.
fn doubts(
    sources: &[Source],
    readings: &[SourceReading],
    joined: &[Joined],
    hidden: &[Unseen],
    as_of: Timestamp,
) -> Option<Doubts> {
    let mut doubts = Vec::new();
    for (index, (reading, joined)) in readings.iter().zip(joined).enumerate() {
        let harvest = &reading.harvest;
        if !matches!(harvest.coverage, Coverage::Complete | Coverage::Partial) {
            continue;
        }
        let unread =
            joined.claims.iter().filter(|claim| !harvest.found.iter().any(|found| found.id == claim.id));
        let mut ids: Vec<String> = unread.map(|claim| claim.id.clone()).collect();
        if joined.unsettled {
            let uncertain = joined.claims.iter().filter(|claim| claim.tie == Tie::OneOfSeveral);
            ids.extend(uncertain.map(|claim| claim.id.clone()));
        }
        let noted = hidden[index].keys().map(|(id, _)| id);
        ids.extend(noted.filter(|id| !harvest.found.iter().any(|found| found.id == **id)).cloned());
        ids.extend(left_open(&sources[index], harvest, joined, as_of));
        ids.sort_unstable();
        ids.dedup();
        if !ids.is_empty() || joined.unsettled {
            doubts.push((index, ids));
        }
    }
    (!doubts.is_empty()).then_some(doubts)
}

/// The ids of those whose process went after they were read, and wrote until then.
fn last_words(sources: &[Source], readings: &[SourceReading], joined: &[Joined], as_of: Timestamp) -> Doubts {
    let all = sources.iter().zip(readings).zip(joined);
    let ids =
        all.map(|((source, reading), joined)| left_open(source, &reading.harvest, joined, as_of).collect());
    ids.enumerate().filter(|(_, ids): &(usize, Vec<String>)| !ids.is_empty()).collect()
}

/// Sessions with an open turn that nobody carries and that moved on since they were read.
fn left_open<'h>(
    source: &'h Source,
    harvest: &'h Harvest,
    joined: &'h Joined,
    as_of: Timestamp,
) -> impl Iterator<Item = String> + 'h {
    let carried = |found: &Found| {
        let in_gateway = || harvest.remote.iter().any(|remote| remote.id == found.id);
        joined.claims.iter().any(|claim| claim.id == found.id) || in_gateway()
    };
    // All sessions of a database have one place: it is looked at once.
    let mut last: Option<(&Path, Option<Stamp>)> = None;
    let mut stamp_now = move |place: &'h Path| match last {
        Some((known, stamp)) if known == place => stamp,
        _ => {
            let stamp = source.adapter.stamp(place);
            last = Some((place, stamp));
            stamp
        }
    };
    let left = harvest.found.iter().filter(move |found| {
        is_open(found) && !carried(found) && has_moved_on(found, as_of, || stamp_now(&found.place))
    });
    left.map(|found| found.id.clone())
}

fn is_open(found: &Found) -> bool {
    found
        .facts
        .turn
        .as_ref()
        .is_some_and(|turn| matches!(turn.state, TurnState::Open | TurnState::Approval | TurnState::Question))
}

/// The file was written after it was read: its process may have closed the turn and gone since.
fn has_moved_on(found: &Found, as_of: Timestamp, stamp_now: impl FnOnce() -> Option<Stamp>) -> bool {
    let Some(stamp) = found.stamp else { return true };
    // The kernel counts file times in ticks: what was written in the very moment of the reading may look the same.
    let is_fresh = stamp.modified.is_none_or(|at| as_of.duration_since(at) < TICKS);
    is_fresh || stamp_now() != Some(stamp)
}

/// Puts what live processes may carry beside what a window showed. What could not be heard of it is no silence.
fn add_living(reading: &mut SourceReading, living: SourceReading) {
    reading.took += living.took;
    let harvest = &mut reading.harvest;
    match &living.harvest.coverage {
        Coverage::Complete | Coverage::NotInstalled => {}
        Coverage::Partial => harvest.coverage = Coverage::Partial,
        silent => {
            let why = silent.error().unwrap_or_else(|| silent.as_str().to_owned());
            harvest.left_out(format!("what its live processes carry was not readings: {why}"));
        }
    }
    let fresh = living.harvest.warnings.iter().filter(|warning| !harvest.warnings.contains(warning));
    let fresh: Vec<_> = fresh.cloned().collect();
    harvest.warnings.extend(fresh);
    merge(harvest, living.harvest, &[]);
}

/// The second reading replaces what it read again; what it did not or could not read stays as it was. A note that
/// stays though it is gone does no harm: it counts only if the kernel confirms it.
fn merge(harvest: &mut Harvest, again: Harvest, ids: &[String]) {
    if !matches!(again.coverage, Coverage::Complete | Coverage::Partial) {
        return;
    }
    // A lock file that was cleared away gives its inode to the next one: where locks were read again, only what was found
    // then counts.
    let is_lock = |note: &Registration| matches!(note.holder, OwnerIdentity::Lock { .. });
    let locks_were_read = again.registrations.iter().any(is_lock);
    let is_replaced = |old: &Registration| {
        ids.contains(&old.id)
            || (locks_were_read && is_lock(old))
            || again.registrations.iter().any(|new| new.place == old.place)
    };
    harvest.registrations.retain(|old| !is_replaced(old));
    harvest.registrations.extend(again.registrations);
    harvest.remote.retain(|old| !again.remote.iter().any(|new| new.id == old.id && new.slot == old.slot));
    harvest.remote.extend(again.remote);
    for found in again.found {
        match harvest.found.iter_mut().find(|known| known.id == found.id && known.slot == found.slot) {
            Some(known) => *known = found,
            None => harvest.found.push(found),
        }
    }
}

fn conclude(
    sources: &[Source],
    readings: Vec<SourceReading>,
    joined: Vec<Joined>,
    hidden: Vec<Unseen>,
    look: &KernelSnapshot,
    ended: impl Fn(&Source, &Harvest) -> Vec<EndedLaunch>,
    (query, since): (&Query, Option<Timestamp>),
) -> Survey {
    let mut survey = Survey::default();
    for (((source, reading), joined), unseen) in sources.iter().zip(readings).zip(joined).zip(hidden) {
        let root = source.root.path.to_string_lossy().into_owned();
        let name = source.name();
        let SourceReading { mut harvest, took } = reading;
        let answered = matches!(harvest.coverage, Coverage::Complete | Coverage::Partial);
        if answered {
            survey.strays.extend(joined.strays.iter().cloned().map(|stray| (name.to_owned(), stray)));
        }
        if !harvest.drift.is_empty() {
            survey.drift.insert(name.to_owned(), std::mem::take(&mut harvest.drift));
        }
        let mut report = SourceReport {
            adapter: name.to_owned(),
            root: root.clone(),
            coverage: harvest.coverage.as_str().to_owned(),
            error: harvest.coverage.error(),
            warnings: std::mem::take(&mut harvest.warnings),
            sessions: None,
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        };
        let blind = look.heads.why_not().map(str::to_owned);
        let exits = ended(source, &harvest).into_iter().map(|ended| (ended.id, ended.exit));
        let verdicts = SourceVerdicts {
            card: source.adapter.card(),
            root: &root,
            exits: exits.collect(),
            harvest,
            joined,
            unseen,
            as_of: look.as_of,
            blind,
        };
        let mut sessions = verdicts.sessions();
        report.sessions = answered.then_some(sessions.len());
        sessions.retain(|surveyed| is_wanted(surveyed, query, since));
        for surveyed in &mut sessions {
            look_for_branch(&mut surveyed.session);
        }
        if survey.sessions.is_empty() {
            survey.sessions = sessions;
        } else {
            survey.sessions.append(&mut sessions);
        }
        survey.sources.push(report);
    }
    survey
}

/// Where a process works, git says what is checked out. Nobody's folder is looked into but of those that were asked for.
fn look_for_branch(session: &mut Session) {
    if session.branch.is_none() && session.pid.is_some() {
        session.branch = session.cwd.as_deref().and_then(|cwd| branch_of(Path::new(cwd)));
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how far back a window reaches counts from the moment of the question"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

fn is_wanted(surveyed: &Surveyed, query: &Query, since: Option<Timestamp>) -> bool {
    let session = &surveyed.session;
    if session.is_subagent() && !query.subagents {
        return false;
    }
    match &query.wanted {
        Wanted::Live => session.is_live(),
        Wanted::Ids(_) => query.wanted.names(&surveyed.key.id),
        // A session that does not say when it was active cannot be shown to be too old.
        Wanted::All { .. } => {
            session.is_live() || session.updated_at.is_none() || since <= session.updated_at
        }
    }
}
