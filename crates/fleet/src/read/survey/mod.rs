//! The one function that answers questions about sessions.
//!
//! Storage is read first and the process table second, so that absence is always newer than presence. Where the
//! two contradict each other, what is in doubt is read once more and the kernel is looked at again.

mod ask;
pub(crate) mod family;
pub(crate) mod far_ends;
pub(crate) mod feeds;
pub(crate) mod kernel;
mod native_roots;
mod sources;
pub(crate) mod standing;
mod unseen;
mod verdicts;

use std::path::Path;
use std::time::Duration;

use agentctl_model::{
    Coverage, EndedLaunch, Found, Harvest, Joined, Session, SourceReport, Stamp, Survey, Surveyed, Tie,
    TurnState,
};
use jiff::{SignedDuration, Timestamp};

use crate::keep::launches::Ledger;
use crate::read::prices;
use crate::read::query::{Question, Wanted};
use crate::read::survey::ask::ask_owners;
use crate::read::survey::kernel::Look;
use crate::read::survey::sources::{Errand, Heard, hear};
use crate::read::survey::unseen::{Unseen, unseen};
use crate::read::survey::verdicts::Case;
use crate::worktree::head::branch_of;
use crate::{Fleet, Source};

/// How long a half-written note of an agent may take to be whole: a pause before looking again, never a verdict.
const SETTLING: Duration = Duration::from_millis(10);

/// Longer than any tick of a file's clock. What is younger is read again; nothing is concluded from it.
const TICKS: SignedDuration = SignedDuration::from_secs(2);

impl Fleet {
    /// Asks all chosen sources and the kernel, and judges every session that is wanted.
    pub fn survey(&self, question: &Question) -> Survey {
        let sources: Vec<Source> =
            self.sources.iter().filter(|source| is_asked(source, question)).cloned().collect();
        let look = || Look::take(self.kernel.as_ref());

        let ledger = self.ledger();
        let errands = self.errands(&sources, &question.wanted, look, &ledger);
        let mut heard = hear(errands, question, self.memory.as_ref());
        let mut seen = look();
        if self.hear_the_living(&sources, &mut heard, &seen, question, &ledger) {
            seen = look();
        }
        let mut joined = self.join_all(&sources, &heard, &seen, &ledger);
        if self.hear_rivals(&sources, &mut heard, &joined, &seen, question, &ledger) {
            seen = look();
            joined = self.join_all(&sources, &heard, &seen, &ledger);
        }
        let hidden = self.unseen_all(&sources, &heard, &joined, &seen);
        let seen = match doubts(&sources, &heard, &joined, &hidden, seen.as_of) {
            None => seen,
            Some(doubts) => {
                if joined.iter().any(|joined| joined.unsettled) {
                    std::thread::sleep(SETTLING);
                }
                hear_again(&sources, &mut heard, &doubts, question);
                let seen = look();
                joined = self.join_all(&sources, &heard, &seen, &ledger);
                // Whoever went between the two looks may have closed its turn before. It is gone for good: this needs
                // no third look.
                let last_words = last_words(&sources, &heard, &joined, seen.as_of);
                hear_again(&sources, &mut heard, &last_words, question);
                seen
            }
        };
        let ended = |source: &Source, harvest: &Harvest| {
            let root = source.root.path.to_string_lossy();
            ledger.exits(source.name(), &root, &harvest.found, seen.living(), self.kernel.as_ref())
        };
        let hidden = self.unseen_all(&sources, &heard, &joined, &seen);
        let mut survey = conclude(&sources, heard, joined, hidden, &seen, ended, question);
        native_roots::settle(&mut survey.sessions, &self.sources);
        if !ledger.is_empty() {
            survey.sessions.iter_mut().for_each(|surveyed| remember(surveyed, &ledger, question));
        }
        if !self.prices.is_empty() {
            survey.sessions.iter_mut().for_each(|surveyed| prices::fill(&mut surveyed.session, &self.prices));
        }
        survey
    }

    /// A window is for stopped sessions alone. Whatever a live process may carry is heard too, however old its records are:
    /// the same sessions that a list of the live ones hears. Says whether there was anything to read.
    fn hear_the_living(
        &self,
        sources: &[Source],
        heard: &mut [Heard],
        seen: &Look,
        question: &Question,
        ledger: &Ledger,
    ) -> bool {
        if !matches!(question.wanted, Wanted::All { since: Some(_) }) {
            return false;
        }
        let mut indices = Vec::new();
        let mut errands = Vec::new();
        for (index, source) in sources.iter().enumerate().filter(|(index, _)| heard[*index].has_answered()) {
            let view = seen.view(self.kernel.as_ref(), source, None, ledger);
            if !view.processes.is_empty() {
                indices.push(index);
                errands.push((source.clone(), Errand::Live(Box::new(view))));
            }
        }
        for (index, living) in indices.iter().zip(hear(errands, question, self.memory.as_ref())) {
            add_living(&mut heard[*index], living);
        }
        !indices.is_empty()
    }

    /// That a session is the only candidate of a process can be said only when all were read: one that was asked for by
    /// its id was read alone. Says whether there was anything to read.
    fn hear_rivals(
        &self,
        sources: &[Source],
        heard: &mut [Heard],
        joined: &[Joined],
        seen: &Look,
        question: &Question,
        ledger: &Ledger,
    ) -> bool {
        if !matches!(question.wanted, Wanted::Ids(_)) {
            return false;
        }
        let paired = |joined: &Joined| joined.claims.iter().any(|claim| claim.tie == Tie::OnlyCandidate);
        let indices: Vec<usize> = (0..sources.len()).filter(|index| paired(&joined[*index])).collect();
        let errand = |index: &usize| {
            let source = sources[*index].clone();
            let view = seen.view(self.kernel.as_ref(), &source, Some(&heard[*index].harvest), ledger);
            (source, Errand::Live(Box::new(view)))
        };
        let errands = indices.iter().map(errand).collect();
        for (index, again) in indices.iter().zip(hear(errands, question, self.memory.as_ref())) {
            merge(&mut heard[*index].harvest, again.harvest, &[]);
        }
        !indices.is_empty()
    }

    /// Of each source, the sessions whose carrier may be where it cannot be seen.
    fn unseen_all(&self, sources: &[Source], heard: &[Heard], joined: &[Joined], look: &Look) -> Vec<Unseen> {
        let all = sources.iter().zip(heard).zip(joined);
        let hidden = all.map(|((source, heard), joined)| {
            unseen(self.kernel.as_ref(), look, source, &heard.harvest, joined)
        });
        hidden.collect()
    }

    /// What agentctl itself started, read at the moment of the question like everything else.
    pub(crate) fn ledger(&self) -> Ledger {
        self.launches.as_deref().map(Ledger::read).unwrap_or_default()
    }

    fn errands(
        &self,
        sources: &[Source],
        wanted: &Wanted,
        look: impl Fn() -> Look,
        ledger: &Ledger,
    ) -> Vec<(Source, Errand)> {
        let first = matches!(wanted, Wanted::Live).then(look);
        let seat = self.kernel.namespace_view();
        let errand = |source: &Source| match (wanted, &first) {
            (Wanted::All { since }, _) => Errand::All { since: *since },
            (Wanted::Ids(ids), _) => Errand::Ids(ids.clone()),
            // What lives where it cannot be seen leaves no process to look for: the records must be asked.
            (Wanted::Live, Some(_)) if !seat.sees_all && source.adapter.host().is_none() => {
                Errand::All { since: seat.booted_at }
            }
            (Wanted::Live, Some(look)) => {
                Errand::Live(Box::new(look.view(self.kernel.as_ref(), source, None, ledger)))
            }
            (Wanted::Live, None) => Errand::Ids(Vec::new()),
        };
        sources.iter().map(|source| (source.clone(), errand(source))).collect()
    }

    fn join_all(&self, sources: &[Source], heard: &[Heard], look: &Look, ledger: &Ledger) -> Vec<Joined> {
        let mut joined = Vec::with_capacity(sources.len());
        for (source, heard) in sources.iter().zip(heard) {
            let view = look.view(self.kernel.as_ref(), source, Some(&heard.harvest), ledger);
            let claims = source.adapter.join(&source.root, &heard.harvest, &view);
            joined.push((source, view, claims));
        }
        ask_owners(joined)
    }
}

/// Puts beside a session what agentctl knows because it started it.
fn remember(surveyed: &mut Surveyed, ledger: &Ledger, question: &Question) {
    if let Some((launch, group)) = ledger.of(&surveyed.key, question.text_limit()) {
        surveyed.session.launch = Some(launch);
        surveyed.session.group = group;
    }
}

fn is_asked(source: &Source, question: &Question) -> bool {
    let named = question.adapters.is_empty() || question.adapters.iter().any(|name| name == source.name());
    named && question.root.as_ref().is_none_or(|root| source.root.path.as_os_str() == root.as_str())
}

/// What is to be read again: per source, by its index, the ids.
type Doubts = Vec<(usize, Vec<String>)>;

fn hear_again(sources: &[Source], heard: &mut [Heard], doubts: &Doubts, question: &Question) {
    let errand = |(index, ids): &(usize, Vec<String>)| (sources[*index].clone(), Errand::Ids(ids.clone()));
    let errands = doubts.iter().map(errand).collect();
    for ((index, ids), again) in doubts.iter().zip(hear(errands, question, None)) {
        merge(&mut heard[*index].harvest, again.harvest, ids);
    }
}

/// The ids that must be read once more; `None` when nothing contradicts.
fn doubts(
    sources: &[Source],
    heard: &[Heard],
    joined: &[Joined],
    hidden: &[Unseen],
    as_of: Timestamp,
) -> Option<Doubts> {
    let mut doubts = Vec::new();
    for (index, (heard, joined)) in heard.iter().zip(joined).enumerate() {
        let harvest = &heard.harvest;
        if !matches!(harvest.coverage, Coverage::Complete | Coverage::Partial) {
            continue;
        }
        let unread =
            joined.claims.iter().filter(|claim| !harvest.found.iter().any(|found| found.id == claim.id));
        let mut ids: Vec<String> = unread.map(|claim| claim.id.clone()).collect();
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
fn last_words(sources: &[Source], heard: &[Heard], joined: &[Joined], as_of: Timestamp) -> Doubts {
    let all = sources.iter().zip(heard).zip(joined);
    let ids = all.map(|((source, heard), joined)| left_open(source, &heard.harvest, joined, as_of).collect());
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
fn add_living(heard: &mut Heard, living: Heard) {
    heard.took += living.took;
    let harvest = &mut heard.harvest;
    match &living.harvest.coverage {
        Coverage::Complete | Coverage::NotInstalled => {}
        Coverage::Partial => harvest.coverage = Coverage::Partial,
        silent => {
            let why = silent.error().unwrap_or_else(|| silent.as_str().to_owned());
            harvest.left_out(format!("what its live processes carry was not heard: {why}"));
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
    harvest.registrations.retain(|old| {
        !ids.contains(&old.id) && !again.registrations.iter().any(|new| new.place == old.place)
    });
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
    heard: Vec<Heard>,
    joined: Vec<Joined>,
    hidden: Vec<Unseen>,
    look: &Look,
    ended: impl Fn(&Source, &Harvest) -> Vec<EndedLaunch>,
    question: &Question,
) -> Survey {
    let mut survey = Survey::default();
    for (((source, heard), joined), unseen) in sources.iter().zip(heard).zip(joined).zip(hidden) {
        let root = source.root.path.to_string_lossy().into_owned();
        let name = source.name();
        let Heard { mut harvest, took } = heard;
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
        let case = Case {
            card: source.adapter.card(),
            root: &root,
            exits: exits.collect(),
            harvest,
            joined,
            unseen,
            as_of: look.as_of,
            blind,
        };
        let mut sessions = case.sessions();
        report.sessions = answered.then_some(sessions.len());
        sessions.retain(|surveyed| is_wanted(surveyed, question));
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

fn is_wanted(surveyed: &Surveyed, question: &Question) -> bool {
    let session = &surveyed.session;
    if session.is_subagent() && !question.subagents {
        return false;
    }
    match &question.wanted {
        Wanted::Live => session.is_live(),
        Wanted::Ids(ids) => ids.iter().any(|id| surveyed.key.id.starts_with(id.as_str())),
        Wanted::All { since } => {
            session.is_live() || session.updated_at.is_none() || *since <= session.updated_at
        }
    }
}
