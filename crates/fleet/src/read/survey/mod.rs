//! The one function that answers questions about sessions.
//!
//! Storage is read first and the process table second, so that absence is always newer than presence. Where the two
//! contradict each other, the sessions in doubt are read once more, and then the kernel is read again.

mod ask;
pub(crate) mod family;
pub(crate) mod feeds;
mod held;
mod inventory;
pub(crate) mod kernel;
mod native_roots;
pub(crate) mod peers;
pub(crate) mod root_membership;
mod sources;
mod verdicts;
mod visibility;

pub(crate) use held::capabilities as held_capabilities;
pub(crate) use sources::{SourceReading, SourceRequest, hear, read_sources};

use std::path::Path;
use std::time::Duration;

use agentctl_adapters::agents::acp;
use agentctl_model::{
    Claim, Coverage, EndedLaunch, Found, Harvest, Joined, OwnerIdentity, Registration, Session, SourceReport,
    Stamp, Survey, Surveyed, Tie, TurnState,
};
use jiff::{SignedDuration, Timestamp};

use crate::keep::launches::Ledger;
use crate::read::prices;
use crate::read::query::{Query, Since, Wanted};
use crate::read::survey::ask::ask_owners;
use crate::read::survey::kernel::KernelSnapshot;
use crate::read::survey::sources::Sessions;
use crate::read::survey::verdicts::SourceVerdicts;
use crate::read::survey::visibility::{UnseenOwners, unseen_owners};
use crate::{Fleet, Source};

/// How long to wait before reading an agent's half-written note again. No verdict rests on it.
const SETTLING: Duration = Duration::from_millis(10);

/// How long after the end of a turn its records may still have been read in the middle of it.
const JUST_NOW: SignedDuration = SignedDuration::from_secs(10);

/// Longer than any tick of a file system's clock. A file that is younger is read again; nothing is concluded from it.
const TICKS: SignedDuration = SignedDuration::from_secs(2);

impl Fleet {
    /// Reads all chosen sources and the kernel, and derives a verdict for every session that is wanted.
    pub fn survey(&self, query: &Query) -> Survey {
        let sources: Vec<Source> =
            self.sources.iter().filter(|source| self.is_asked(source, query)).cloned().collect();
        let snapshot = || KernelSnapshot::take_of(self.kernel.as_ref(), self.past());

        if let Some(memory) = &self.memory {
            memory.tidy();
        }
        let ledger = self.ledger();
        let since = query.wanted.since(self.past().unwrap_or_else(now));
        let requests = self.requests(&sources, query, since, snapshot, &ledger);
        let mut readings = self.readings(requests);
        self.ask_agents(&sources, &mut readings, query, &ledger);
        let mut seen = snapshot();
        if self.read_live_sessions(&sources, &mut readings, &seen, query, &ledger) {
            seen = snapshot();
        }
        let mut joined = self.join_all(&sources, &readings, &seen, &ledger);
        if self.read_rivals(&sources, &mut readings, &joined, &seen, query, &ledger) {
            seen = snapshot();
            joined = self.join_all(&sources, &readings, &seen, &ledger);
        }
        let unseen = self.unseen_owners_of_all(&sources, &readings, &joined, &seen);
        let seen = match doubts(&sources, &readings, &joined, &unseen, seen.as_of) {
            None => seen,
            Some(doubts) => {
                if joined.iter().any(|joined| joined.unsettled) {
                    std::thread::sleep(SETTLING);
                }
                read_again(&sources, &mut readings, &doubts, query);
                let seen = snapshot();
                joined = self.join_all(&sources, &readings, &seen, &ledger);
                // A process that exited between the two snapshots may have closed its turn before. It is gone for good,
                // so this needs no third snapshot.
                let changed_at_exit = changed_at_exit(&sources, &readings, &joined, seen.as_of);
                read_again(&sources, &mut readings, &changed_at_exit, query);
                seen
            }
        };
        let ended = |source: &Source, harvest: &Harvest| {
            let root = source.root.path.to_string_lossy();
            ledger.exits(source.name(), &root, &harvest.found, seen.living(), self.kernel.as_ref())
        };
        let unseen = self.unseen_owners_of_all(&sources, &readings, &joined, &seen);
        let mut survey = conclude(&sources, readings, joined, unseen, &seen, ended, (query, since));
        native_roots::settle(&mut survey.sessions, &self.sources);
        if !ledger.is_empty() {
            survey.sessions.iter_mut().for_each(|surveyed| add_launch(surveyed, &ledger, query));
        }
        survey.sessions.retain(|surveyed| is_of_adapters(surveyed, query));
        // Who asks for single calls prices each of them.
        let is_priced = !self.prices.is_empty() && !query.calls;
        for surveyed in &mut survey.sessions {
            self.fill_branch(&mut surveyed.session);
            inventory::add_offered(surveyed);
            if is_priced {
                prices::fill(&mut surveyed.session, &self.prices);
            }
            surveyed.session.host.clone_from(&self.host);
        }
        survey.sources.iter_mut().for_each(|source| source.host.clone_from(&self.host));
        survey
    }

    /// Also reads the sessions that a live process may own, however old their records are, because a period limits
    /// stopped sessions only. These are the sessions that a list of live sessions reads. Returns whether there was
    /// anything to read.
    fn read_live_sessions(
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
            add_live_sessions(&mut readings[*index], living);
        }
        !indices.is_empty()
    }

    /// Reads the other candidates of a process. That a session is the only candidate is proven only if all were read,
    /// and a session that was asked for by its id was read alone. Returns whether there was anything to read.
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
            // The caller did not ask for the usage of the other candidates.
            (source, SourceRequest::new(query, Sessions::Live(Box::new(view))).counting(false))
        };
        let requests = indices.iter().map(request).collect();
        for (index, mut again) in indices.iter().zip(read_sources(requests, None)) {
            // A session that was read by its id was read more closely, so that reading stays.
            let harvest = &mut readings[*index].harvest;
            let is_known = |found: &Found| {
                harvest.found.iter().any(|known| known.id == found.id && known.variant == found.variant)
            };
            again.harvest.found.retain(|found| !is_known(found));
            merge(harvest, again.harvest, &[]);
        }
        !indices.is_empty()
    }

    /// For each source, the sessions whose owner may exist where we cannot see it.
    fn unseen_owners_of_all(
        &self,
        sources: &[Source],
        readings: &[SourceReading],
        joined: &[Joined],
        snapshot: &KernelSnapshot,
    ) -> Vec<UnseenOwners> {
        let all = sources.iter().zip(readings).zip(joined);
        let unseen = all.map(|((source, reading), joined)| {
            unseen_owners(self.kernel.as_ref(), snapshot, source, &reading.harvest, joined)
        });
        unseen.collect()
    }

    /// The records of what agentctl itself started. They are read at the moment of the question, like everything else.
    pub(crate) fn ledger(&self) -> Ledger {
        self.launches.as_deref().map(Ledger::read).unwrap_or_default()
    }

    fn requests(
        &self,
        sources: &[Source],
        query: &Query,
        since: Option<Timestamp>,
        snapshot: impl Fn() -> KernelSnapshot,
        ledger: &Ledger,
    ) -> Vec<(Source, SourceRequest)> {
        let first = matches!(query.wanted, Wanted::Live).then(snapshot);
        let namespace = self.kernel.namespace_view();
        let sessions = |source: &Source| match (&query.wanted, &first) {
            (Wanted::All { .. }, _) => Sessions::All { since },
            (Wanted::Ids(ids), _) => Sessions::Ids(ids.clone()),
            // An owner that we cannot see leaves no process to start from, so the records must be read.
            (Wanted::Live, Some(_)) if !namespace.sees_all && source.adapter.gateway().is_none() => {
                Sessions::All { since: namespace.booted_at }
            }
            (Wanted::Live, Some(snapshot)) => {
                Sessions::Live(Box::new(snapshot.view(self.kernel.as_ref(), source, None, ledger)))
            }
            (Wanted::Live, None) => Sessions::Ids(Vec::new()),
        };
        let request = |source: &Source| (source.clone(), SourceRequest::new(query, sessions(source)));
        sources.iter().map(request).collect()
    }

    /// The sessions of an agent over ACP are read by the adapter that knows them.
    pub(crate) fn is_asked(&self, source: &Source, query: &Query) -> bool {
        let is_meant = |name: &String| name == source.name() || self.reader_of(name) == Some(source.name());
        let named = query.adapters.is_empty() || query.adapters.iter().any(is_meant);
        named && query.root.as_ref().is_none_or(|root| source.root.path.as_os_str() == root.as_str())
    }

    /// The other adapter that reads the sessions of this one.
    fn reader_of(&self, name: &str) -> Option<&'static str> {
        self.acp_agent(name).and_then(|agent| agent.native)
    }

    fn join_all(
        &self,
        sources: &[Source],
        readings: &[SourceReading],
        snapshot: &KernelSnapshot,
        ledger: &Ledger,
    ) -> Vec<Joined> {
        let mut joined = Vec::with_capacity(sources.len());
        for (source, reading) in sources.iter().zip(readings) {
            let view = snapshot.view(self.kernel.as_ref(), source, Some(&reading.harvest), ledger);
            let claims = source.adapter.join(&source.root, &reading.harvest, &view);
            joined.push((source, view, claims));
        }
        if self.is_of_the_past() {
            return joined.into_iter().map(|(_, _, joined)| joined).collect();
        }
        let mut joined = ask_owners(joined);
        held::ask_holders(sources, &mut joined, snapshot.as_of, ledger);
        joined
    }
}

/// Adds to a session what agentctl knows because it launched it.
fn add_launch(surveyed: &mut Surveyed, ledger: &Ledger, query: &Query) {
    if let Some((launch, group)) = ledger.of(&surveyed.key, query.text_limit()) {
        // What was found of a session that only ACP knows has the beginning of its prompt.
        let prompt = surveyed.session.prompt.as_deref().zip(launch.prompt.as_deref());
        if acp::is_name(&surveyed.key.adapter)
            && prompt.is_some_and(|(found, whole)| whole.starts_with(found))
        {
            surveyed.session.prompt.clone_from(&launch.prompt);
        }
        surveyed.session.launch = Some(launch);
        surveyed.session.group = group;
        // Whatever its agent offers elsewhere, this one can be reached.
        let key = &surveyed.key;
        let is_held = || ledger.holder_of(&key.adapter, &key.root, &key.id).is_some();
        if surveyed.session.is_live() && is_held() {
            let said = held::offered(&surveyed.session);
            let capabilities = &mut surveyed.session.capabilities;
            capabilities.extend(said);
            *capabilities = held::capabilities(capabilities);
        }
        if let Some(via) = ledger.via(&surveyed.key) {
            surveyed.session.meta.insert("via".to_owned(), via.into());
        }
    }
}

/// Whether a list that names its adapters wants this session. Whoever asks for an id means that session, however it
/// was started.
fn is_of_adapters(surveyed: &Surveyed, query: &Query) -> bool {
    if query.adapters.is_empty() || matches!(query.wanted, Wanted::Ids(_)) {
        return true;
    }
    let via = surveyed.session.meta.get("via").and_then(|via| via.as_str());
    query.adapters.iter().any(|name| *name == surveyed.key.adapter || Some(name.as_str()) == via)
}

/// The ids to read again, by the index of their source.
type Doubts = Vec<(usize, Vec<String>)>;

/// Reads the sessions in doubt once more. Usage is counted only for those that were asked for.
fn read_again(sources: &[Source], readings: &mut [SourceReading], doubts: &Doubts, query: &Query) {
    let counted = |id: &String| query.usage && query.wanted.names(id);
    let split = doubts.iter().flat_map(|(index, ids)| {
        let (asked, beside): (Vec<String>, Vec<String>) = ids.iter().cloned().partition(counted);
        // A request without ids reads the agent's own notes again.
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

/// Returns the ids that must be read once more; `None` if nothing contradicts.
fn doubts(
    sources: &[Source],
    readings: &[SourceReading],
    joined: &[Joined],
    unseen: &[UnseenOwners],
    as_of: Timestamp,
) -> Option<Doubts> {
    let mut doubts = Vec::new();
    for (index, (reading, joined)) in readings.iter().zip(joined).enumerate() {
        let harvest = &reading.harvest;
        // What only ACP knows is stored nowhere that could be read again.
        let is_stored = !acp::is_name(sources[index].name());
        if !is_stored || !matches!(harvest.coverage, Coverage::Complete | Coverage::Partial) {
            continue;
        }
        let unread =
            joined.claims.iter().filter(|claim| !harvest.found.iter().any(|found| found.id == claim.id));
        let mut ids: Vec<String> = unread.map(|claim| claim.id.clone()).collect();
        if joined.unsettled {
            let uncertain = joined.claims.iter().filter(|claim| claim.tie == Tie::OneOfSeveral);
            ids.extend(uncertain.map(|claim| claim.id.clone()));
        }
        let noted = unseen[index].keys().map(|(id, _)| id);
        ids.extend(noted.filter(|id| !harvest.found.iter().any(|found| found.id == **id)).cloned());
        ids.extend(unowned_open_turns(&sources[index], harvest, joined, as_of));
        ids.extend(just_ended(harvest, joined, as_of));
        ids.sort_unstable();
        ids.dedup();
        if !ids.is_empty() || joined.unsettled {
            doubts.push((index, ids));
        }
    }
    (!doubts.is_empty()).then_some(doubts)
}

/// Returns the sessions whose records were read in a turn that has ended since, by the word of their owner. A turn that
/// ended long ago is one whose end its agent does not record.
fn just_ended(harvest: &Harvest, joined: &Joined, as_of: Timestamp) -> impl Iterator<Item = String> {
    let is_over = move |claim: &&Claim| {
        let report = claim.live_report.as_ref();
        let turn = report.and_then(|report| report.turn.as_ref()).map(|turn| turn.state);
        let since = report.and_then(|report| report.since);
        matches!(turn, Some(TurnState::Ended | TurnState::Failed | TurnState::Interrupted))
            && since.is_some_and(|since| as_of.duration_since(since) < JUST_NOW)
    };
    let was_open = |id: &str| harvest.found.iter().any(|found| found.id == id && is_open(found));
    joined
        .claims
        .iter()
        .filter(is_over)
        .filter(move |claim| was_open(&claim.id))
        .map(|claim| claim.id.clone())
}

/// Returns the ids of sessions whose process exited after they were read and wrote until then.
fn changed_at_exit(
    sources: &[Source],
    readings: &[SourceReading],
    joined: &[Joined],
    as_of: Timestamp,
) -> Doubts {
    let all = sources.iter().zip(readings).zip(joined);
    let ids = all.map(|((source, reading), joined)| {
        unowned_open_turns(source, &reading.harvest, joined, as_of).collect()
    });
    ids.enumerate().filter(|(_, ids): &(usize, Vec<String>)| !ids.is_empty()).collect()
}

/// Returns the sessions with an open turn that have no owner and may have changed since they were read.
fn unowned_open_turns<'h>(
    source: &'h Source,
    harvest: &'h Harvest,
    joined: &'h Joined,
    as_of: Timestamp,
) -> impl Iterator<Item = String> + 'h {
    let carried = |found: &Found| {
        let in_gateway = || harvest.remote.iter().any(|remote| remote.id == found.id);
        joined.claims.iter().any(|claim| claim.id == found.id) || in_gateway()
    };
    // All sessions of a database share one file, which is examined only once.
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
        is_open(found) && !carried(found) && may_have_changed(found, as_of, || stamp_now(&found.place))
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

/// The file was written after it was read, so its process may have closed the turn and exited since.
fn may_have_changed(found: &Found, as_of: Timestamp, stamp_now: impl FnOnce() -> Option<Stamp>) -> bool {
    let Some(stamp) = found.stamp else { return true };
    // The kernel counts file times in ticks, so a write at the moment of the read may leave the same time.
    let is_fresh = stamp.modified.is_none_or(|at| as_of.duration_since(at) < TICKS);
    is_fresh || stamp_now() != Some(stamp)
}

/// Adds the sessions that live processes may own to those of the period. If they could not be read, the report says so.
fn add_live_sessions(reading: &mut SourceReading, living: SourceReading) {
    reading.took += living.took;
    let harvest = &mut reading.harvest;
    match &living.harvest.coverage {
        Coverage::Complete | Coverage::NotInstalled => {}
        Coverage::Partial => harvest.coverage = Coverage::Partial,
        silent => {
            let why = silent.error().unwrap_or_else(|| silent.kind().to_string());
            harvest.left_out(format!("the sessions of its live processes could not be read: {why}"));
        }
    }
    let fresh = living.harvest.warnings.iter().filter(|warning| !harvest.warnings.contains(warning));
    let fresh: Vec<_> = fresh.cloned().collect();
    harvest.warnings.extend(fresh);
    merge(harvest, living.harvest, &[]);
}

/// The second reading replaces what it read again; what it did not or could not read stays as it was. A note that was
/// deleted meanwhile does no harm if it stays: it counts only if the kernel confirms it.
fn merge(harvest: &mut Harvest, again: Harvest, ids: &[String]) {
    if !matches!(again.coverage, Coverage::Complete | Coverage::Partial) {
        return;
    }
    // A new lock file may get the inode of one that was deleted. So where locks were read again, only those found then
    // count.
    let is_lock = |note: &Registration| matches!(note.holder, OwnerIdentity::Lock { .. });
    let locks_were_read = again.registrations.iter().any(is_lock);
    let is_replaced = |old: &Registration| {
        ids.contains(&old.id)
            || (locks_were_read && is_lock(old))
            || again.registrations.iter().any(|new| new.place == old.place)
    };
    harvest.registrations.retain(|old| !is_replaced(old));
    harvest.registrations.extend(again.registrations);
    harvest
        .remote
        .retain(|old| !again.remote.iter().any(|new| new.id == old.id && new.variant == old.variant));
    harvest.remote.extend(again.remote);
    for found in again.found {
        match harvest.found.iter_mut().find(|known| known.id == found.id && known.variant == found.variant) {
            Some(known) => *known = found,
            None => harvest.found.push(found),
        }
    }
}

fn conclude(
    sources: &[Source],
    readings: Vec<SourceReading>,
    joined: Vec<Joined>,
    unseen: Vec<UnseenOwners>,
    snapshot: &KernelSnapshot,
    ended: impl Fn(&Source, &Harvest) -> Vec<EndedLaunch>,
    (query, since): (&Query, Option<Timestamp>),
) -> Survey {
    let mut survey = Survey::default();
    for (((source, reading), joined), unseen) in sources.iter().zip(readings).zip(joined).zip(unseen) {
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
            host: String::new(),
            coverage: harvest.coverage.kind(),
            error: harvest.coverage.error(),
            warnings: std::mem::take(&mut harvest.warnings),
            sessions: None,
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        };
        let blind = snapshot.heads.why_not().map(str::to_owned);
        let exits = ended(source, &harvest).into_iter().map(|ended| (ended.id, ended.exit));
        let verdicts = SourceVerdicts {
            card: source.adapter.card(),
            root: &root,
            exits: exits.collect(),
            harvest,
            joined,
            unseen,
            as_of: snapshot.as_of,
            blind,
        };
        let mut sessions = verdicts.sessions();
        report.sessions = answered.then_some(sessions.len());
        sessions.retain(|surveyed| is_wanted(surveyed, query, since));
        if survey.sessions.is_empty() {
            survey.sessions = sessions;
        } else {
            survey.sessions.append(&mut sessions);
        }
        survey.sources.push(report);
    }
    survey
}

impl Fleet {
    /// Asks git for the branch in the directory where a live process works. This reads the directories of wanted sessions
    /// only.
    fn fill_branch(&self, session: &mut Session) {
        if session.branch.is_none() && session.pid.is_some() {
            session.branch = session.cwd.as_deref().and_then(|cwd| self.branch_in(cwd));
        }
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
        // A session without a time of activity cannot be shown to be too old.
        Wanted::All { .. } => {
            session.is_live() || session.updated_at.is_none() || since <= session.updated_at
        }
    }
}
