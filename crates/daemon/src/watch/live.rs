//! The live view: a thread that the kernel wakes, that surveys the live sessions, and that posts what
//! changed.
//!
//! The view answers no question about sessions and can be dropped at any moment. Every event is the
//! difference between two surveys by the one function that answers every request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agentctl_fleet::{Fleet, Query, Source, Wanted};
use agentctl_model::{Event, EventKind, Session, SessionKey, Survey, View};

use crate::run::clock;
use crate::run::descriptors;
use crate::shared::Shared;
use crate::tell::events::{EventMessage, PublishedEvent};
use crate::watch::feeds::Feeds;
use crate::watch::remote_schedule::RemoteSchedule;
use crate::watch::{WakeReasons, Waker, Watcher, Watching};

/// The interval of surveys when no change is announced.
const SWEEP: Duration = Duration::from_secs(15);
/// The same while agents live of which nobody tells: their state is in a server that tells nothing by itself.
const POLL_SWEEP: Duration = Duration::from_secs(2);
/// The shortest time between two looks, and how many times the length of the last one it is at least: agents at work
/// write all the time, and must not be paid for with their own processor.
const REST: Duration = Duration::from_millis(15);
const REST_FACTOR: u32 = 3;
/// The longest pause after a survey of the servers.
const LONGEST_REST: Duration = Duration::from_secs(1);

pub(crate) type Sessions = BTreeMap<SessionKey, Session>;

pub(crate) struct Live {
    view: Mutex<View>,
    /// Sessions that stopped, as their last survey showed them, until the thread that announces the release
    /// of directories takes them.
    stopped_sessions: Mutex<Sessions>,
    pub(crate) waker: Waker,
    /// Wakes the thread of the sessions that live in servers.
    pub(crate) remote_waker: Waker,
    changes: Mutex<u64>,
    changed: Condvar,
    pub(crate) looks: AtomicU64,
    stopped: AtomicBool,
    watching: Mutex<Watching>,
    feeds: Mutex<Feeds>,
}

impl Live {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            view: Mutex::new(View::default()),
            stopped_sessions: Mutex::default(),
            waker: Waker::new()?,
            remote_waker: Waker::new()?,
            changes: Mutex::new(0),
            changed: Condvar::new(),
            looks: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            watching: Mutex::new(Watching::default()),
            feeds: Mutex::new(Feeds::default()),
        })
    }

    pub(crate) fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The processes of all live sessions.
    fn processes(&self) -> Vec<u32> {
        let view = self.view();
        view.sessions().flat_map(|session| &session.processes).map(|process| process.pid).collect()
    }

    /// Keeps the sessions that were live before this survey and have stopped in it.
    fn keep_stopped(&self, before: &View, now: &Survey) {
        let was_live = |key: &SessionKey| before.live().any(|(live, _)| live == key);
        let ended = now.sessions.iter().filter(|one| !one.session.is_live() && was_live(&one.key));
        let mut stopped = self.stopped_sessions.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.extend(ended.map(|one| (one.key.clone(), (*one.session).clone())));
    }

    /// The live sessions, and those that have stopped since the last call.
    pub(crate) fn live_and_stopped(&self) -> (Sessions, Sessions) {
        let view = self.view();
        let live = view.live().map(|(key, session)| (key.clone(), session.clone())).collect();
        let mut stopped = self.stopped_sessions.lock().unwrap_or_else(PoisonError::into_inner);
        (live, std::mem::take(&mut *stopped))
    }

    pub(crate) fn feeds(&self) -> MutexGuard<'_, Feeds> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watching(&self) -> Watching {
        self.watching.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.waker.wake();
        self.remote_waker.wake();
    }

    /// The number of the newest event and the state that belongs to it, for a reader that missed events.
    pub(crate) fn snapshot(&self, shared: &Shared) -> (u64, EventMessage) {
        // No change of a session is posted while this lock is held.
        let mut view = self.view();
        view.tell_shown();
        let newest = shared.hub.newest();
        let snapshot = EventMessage {
            sessions: Some(view.shown().cloned().collect()),
            sources: Some(view.sources().cloned().collect()),
            ..EventMessage::new(Event::new(EventKind::Snapshot), shared.hub.cursor(newest), clock::now())
        };
        (newest, snapshot)
    }

    /// Waits at most this long until the counter of changes differs from this value, and returns its new
    /// value.
    pub(crate) fn wait_after(&self, changes: u64, longest: Duration) -> u64 {
        let guard = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(guard, longest, |now| *now == changes);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The number of changes that the kernel or a feed has reported.
    pub(crate) fn changes(&self) -> u64 {
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count_change(&self) {
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }
}

/// The thread of the view. Runs until the daemon stops, and signals `surveyed` after each round.
pub(crate) fn watch_local(shared: &Arc<Shared>, surveyed: &Sender<()>) {
    let live = &shared.live;
    let mut watcher = Watcher::new(live.waker.clone());
    let mut complaint = None;
    let mut servers_may_differ = true;
    while !live.stopped.load(Ordering::Relaxed) {
        let began = Instant::now();
        let mut again = false;
        let mut sweep = SWEEP;
        let fleet = fleet(shared);
        match &fleet {
            Ok(fleet) => {
                complaint = None;
                watcher.watch_folders(fleet.watch_targets());
                survey(shared, fleet, Location::Local);
                again = watcher.watch_processes(live.processes());
                // Servers start and stop with their processes; the sweep finds the remaining changes.
                if again || servers_may_differ {
                    let lines = fleet.lines();
                    live.feeds().listen_to(lines, shared);
                }
                let silent = |session: &Session| changes_unannounced(fleet, &live.feeds(), session);
                if live.view().sessions().any(silent) {
                    sweep = POLL_SWEEP;
                }
            }
            Err(why) if complaint.as_ref() != Some(why) => {
                shared.log.say(&format!("no look at the fleet: {why}"));
                complaint = Some(why.clone());
            }
            Err(_) => {}
        }
        let mut watching = watcher.standing();
        watching.incomplete.extend(complaint.as_ref().map(|why| format!("no look at the fleet: {why}")));
        *live.watching.lock().unwrap_or_else(PoisonError::into_inner) = watching;
        // Whoever sees this look counted finds what it led to.
        if fleet.is_ok() {
            live.looks.fetch_add(1, Ordering::Release);
        }
        // Only the first word is waited for.
        let _ = surveyed.send(());
        if shared.daemon_lock.as_ref().is_some_and(|lock| !lock.is_in_place()) {
            shared.log.say("the folder of this daemon is gone or was replaced; ending");
            shared.stop(true);
            return;
        }
        let rest = (began.elapsed() * REST_FACTOR).max(REST);
        if again {
            continue;
        }
        let mut woken = watcher.wait(sweep);
        servers_may_differ = woken.by_nothing() || !woken.ended.is_empty();
        handle_wake(shared, fleet.as_ref().ok(), &woken);
        // Changes in quick succession belong together, and the surveys must leave the agents their processor.
        while !woken.by_nothing() && !live.stopped.load(Ordering::Relaxed) {
            let left = rest.saturating_sub(began.elapsed());
            if left.is_zero() {
                break;
            }
            woken = watcher.wait(left);
            servers_may_differ |= !woken.ended.is_empty();
            handle_wake(shared, fleet.as_ref().ok(), &woken);
        }
    }
}

/// The fleet to survey, or why no survey is possible now. A survey without descriptors would take healthy
/// sources for failed and live processes for unseen, and announce that.
fn fleet(shared: &Shared) -> Result<Fleet, String> {
    let fleet = shared.settings.fleet()?;
    if descriptors::suffice_for_a_look() { Ok(fleet) } else { Err("too few descriptors are left".to_owned()) }
}

/// Counts the change. When a session's process exits, that session is re-read at once, before the next full
/// survey.
fn handle_wake(shared: &Arc<Shared>, fleet: Option<&Fleet>, woken: &WakeReasons) {
    let live = &shared.live;
    if woken.files || !woken.ended.is_empty() {
        live.count_change();
    }
    let affected = live.view().owned_by(&woken.ended);
    if let (Some(fleet), false) = (fleet, affected.is_empty()) {
        let closer = survey_sessions(fleet, &affected);
        change(shared, &closer, |view, now| view.diff_of(&affected, now));
    }
}

/// Whether the state of the session is in a server that does not announce its changes.
fn changes_unannounced(fleet: &Fleet, feeds: &Feeds, session: &Session) -> bool {
    let adapter = fleet.sources().iter().find(|source| source.name() == session.adapter);
    let is_asked = adapter.is_some_and(|source| source.adapter.card().can_be_asked);
    is_asked && !feeds.all_connected(&session.adapter)
}

/// Where the sessions of a source live: in processes on this machine, or in a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Location {
    Local,
    Remote,
}

impl Location {
    fn of(source: &Source) -> Self {
        if source.adapter.gateway().is_none() { Self::Local } else { Self::Remote }
    }
}

/// The thread of the sessions that live in servers. It is separate so that a server that hangs does not delay
/// the events of all other sessions, and so that servers are not asked whenever a local agent writes a line.
/// Runs until the daemon stops, and signals `surveyed` after each round.
pub(crate) fn watch_remote(shared: &Arc<Shared>, surveyed: &Sender<()>) {
    let live = &shared.live;
    let mut watcher = Watcher::new(live.remote_waker.clone());
    let mut sweep = SWEEP;
    let mut schedule = RemoteSchedule::default();
    while !live.stopped.load(Ordering::Relaxed) {
        let began = Instant::now();
        if let Ok(fleet) = fleet(shared) {
            survey(shared, &fleet, Location::Remote);
            let names = remote_names(&fleet);
            let view = live.view();
            sweep = schedule.after(view.sources().filter(|source| names.contains(&source.adapter.as_str())));
        }
        let _ = surveyed.send(());
        let woken = watcher.wait(sweep);
        let rest = (began.elapsed() * REST_FACTOR).clamp(REST, LONGEST_REST);
        if !woken.by_nothing() && !live.stopped.load(Ordering::Relaxed) {
            std::thread::sleep(rest.saturating_sub(began.elapsed()));
        }
    }
}

fn remote_names(fleet: &Fleet) -> Vec<&'static str> {
    fleet
        .sources()
        .iter()
        .filter(|source| Location::of(source) == Location::Remote)
        .map(Source::name)
        .collect()
}

/// Surveys the sources of one location and posts what changed.
fn survey(shared: &Arc<Shared>, fleet: &Fleet, location: Location) {
    let live = &shared.live;
    let adapters: Vec<String> = fleet
        .sources()
        .iter()
        .filter(|source| Location::of(source) == location)
        .map(|source| source.name().to_owned())
        .collect();
    // An empty list of names would mean all sources.
    let survey = if adapters.is_empty() {
        Survey::default()
    } else {
        fleet.survey(&Query { adapters, ..Query::new(Wanted::Live) })
    };
    let missing = live.view().missing(&survey);
    let whole = if missing.is_empty() { survey } else { survey.and(survey_sessions(fleet, &missing)) };
    shared.metrics.surveyed(&whole);
    let remote = remote_names(fleet);
    let concerns = |adapter: &str| remote.contains(&adapter) == (location == Location::Remote);
    change(shared, &whole, |view, now| view.diff_among(concerns, now));
}

/// Replaces the view and posts the difference.
fn change(shared: &Arc<Shared>, now: &Survey, differ: impl FnOnce(&View, &Survey) -> (Vec<Event>, View)) {
    let mut view = shared.live.view();
    shared.live.keep_stopped(&view, now);
    let (events, after) = differ(&view, now);
    let came_or_went = !view.has_same_sessions(&after);
    let found: Vec<Session> = if came_or_went { after.shown_beyond(&view) } else { Vec::new() };
    *view = after;
    let posted: Vec<Arc<PublishedEvent>> = events.into_iter().map(|event| shared.hub.post(event)).collect();
    drop(view);
    for one in &posted {
        shared.on_event(one);
    }
    shared.on_found(found.iter());
    // A session whose events are suppressed still holds its directory.
    if came_or_went {
        shared.own_files.wake();
    }
}

/// Surveys these sessions by id, in the sources that had them. Sessions that left the live list are read this
/// way.
pub(crate) fn survey_sessions(fleet: &Fleet, missing: &[SessionKey]) -> Survey {
    let mut ids: Vec<String> = missing.iter().map(|key| key.id.clone()).collect();
    let mut adapters: Vec<String> = missing.iter().map(|key| key.adapter.clone()).collect();
    for list in [&mut ids, &mut adapters] {
        list.sort_unstable();
        list.dedup();
    }
    let mut closer = fleet.survey(&Query { adapters, ..Query::new(Wanted::Ids(ids)) });
    // An id may also be the beginning of other ids, which were not asked for.
    closer.sessions.retain(|surveyed| missing.contains(&surveyed.key));
    closer
}
