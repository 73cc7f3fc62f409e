//! The live view: one thread that is woken by the kernel, looks at the live sessions, and posts what changed.
//!
//! The view answers no question about sessions. It can be dropped at any moment; every event is the difference of two
//! looks through the one function that answers everybody.

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
use crate::tell::events::{EventMessage, Posted};
use crate::watch::feeds::Feeds;
use crate::watch::pace::Pace;
use crate::watch::{Bell, Watcher, Watching, Woken};

/// The safety net, should nobody tell of a change.
const SWEEP: Duration = Duration::from_secs(15);
/// The same while agents live of which nobody tells: their state is in a server that tells nothing by itself.
const SWEEP_OF_ASKED: Duration = Duration::from_secs(2);
/// The shortest time between two looks, and how many times the length of the last one it is at least: agents at work
/// write all the time, and must not be paid for with their own processor.
const REST: Duration = Duration::from_millis(15);
const REST_FACTOR: u32 = 3;
/// How long a server rests behind a look at most.
const LONGEST_REST: Duration = Duration::from_secs(1);

pub(crate) type Sessions = BTreeMap<SessionKey, Session>;

pub(crate) struct Live {
    view: Mutex<View>,
    /// Sessions that stopped, as their last survey showed them, until whoever tells of their directories has asked.
    stopped_sessions: Mutex<Sessions>,
    pub(crate) bell: Bell,
    /// Rings for the sessions that live in servers.
    pub(crate) far_bell: Bell,
    beat: Mutex<u64>,
    beats: Condvar,
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
            bell: Bell::new()?,
            far_bell: Bell::new()?,
            beat: Mutex::new(0),
            beats: Condvar::new(),
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

    /// Remembers the sessions that were live before this survey and have stopped in it.
    fn keep_stopped(&self, before: &View, now: &Survey) {
        let was_live = |key: &SessionKey| before.live().any(|(live, _)| live == key);
        let ended = now.sessions.iter().filter(|one| !one.session.is_live() && was_live(&one.key));
        let mut stopped = self.stopped_sessions.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.extend(ended.map(|one| (one.key.clone(), (*one.session).clone())));
    }

    /// The live sessions, and those that have stopped since this was asked last.
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
        self.bell.ring();
        self.far_bell.ring();
    }

    /// The number of the newest event and where everything stands with it: what a reader who missed events begins with.
    pub(crate) fn snapshot(&self, shared: &Shared) -> (u64, EventMessage) {
        // Under this lock nobody posts a change of a session.
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

    /// Waits until something happened since this beat, at most so long. Gives the beat to wait behind next.
    pub(crate) fn wait_behind(&self, beat: u64, longest: Duration) -> u64 {
        let guard = self.beat.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.beats.wait_timeout_while(guard, longest, |now| *now == beat);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Counts what the kernel told of.
    pub(crate) fn beat(&self) -> u64 {
        *self.beat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pulse(&self) {
        *self.beat.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.beats.notify_all();
    }
}

/// The thread of the view; ends when the daemon stops. Says when it has looked for the first time.
pub(crate) fn keep(shared: &Arc<Shared>, looked: &Sender<()>) {
    let live = &shared.live;
    let mut watcher = Watcher::new(live.bell.clone());
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
                watcher.watch_folders(targets(fleet));
                look(shared, fleet, Side::Here);
                again = watcher.watch_processes(live.processes());
                // Servers come and go with their processes; the rest is for the sweep to see.
                if again || servers_may_differ {
                    let lines = fleet.lines();
                    live.feeds().listen_to(lines, shared);
                }
                let silent = |session: &Session| changes_in_silence(fleet, &live.feeds(), session);
                if live.view().sessions().any(silent) {
                    sweep = SWEEP_OF_ASKED;
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
        let _ = looked.send(());
        if !shared.held.is_in_place() {
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
        heed(shared, fleet.as_ref().ok(), &woken);
        // What follows at once belongs to the same change; and looking must leave the agents their processor.
        while !woken.by_nothing() && !live.stopped.load(Ordering::Relaxed) {
            let left = rest.saturating_sub(began.elapsed());
            if left.is_zero() {
                break;
            }
            woken = watcher.wait(left);
            servers_may_differ |= !woken.ended.is_empty();
            heed(shared, fleet.as_ref().ok(), &woken);
        }
    }
}

/// What is to be looked at; or why nobody can look now. A look without descriptors would take for failed or unseen what is
/// well, and tell everybody so.
fn fleet(shared: &Shared) -> Result<Fleet, String> {
    let fleet = shared.settings.fleet()?;
    if descriptors::suffice_for_a_look() { Ok(fleet) } else { Err("too few descriptors are left".to_owned()) }
}

/// Passes on that something happened. Who lost a process is asked after at once, before everything is looked at again.
fn heed(shared: &Arc<Shared>, fleet: Option<&Fleet>, woken: &Woken) {
    let live = &shared.live;
    if woken.files || !woken.ended.is_empty() {
        live.pulse();
    }
    let bereft = live.view().owned_by(&woken.ended);
    if let (Some(fleet), false) = (fleet, bereft.is_empty()) {
        let closer = ask_after(fleet, &bereft);
        change(shared, &closer, |view, now| view.diff_of(&bereft, now));
    }
}

/// Its state is in a server that tells nothing by itself.
fn changes_in_silence(fleet: &Fleet, feeds: &Feeds, session: &Session) -> bool {
    let adapter = fleet.sources().iter().find(|source| source.name() == session.adapter);
    let is_asked = adapter.is_some_and(|source| source.adapter.card().can_be_asked);
    is_asked && !feeds.hears_all_of(&session.adapter)
}

fn targets(fleet: &Fleet) -> Vec<agentctl_adapters::WatchTarget> {
    let mut targets: Vec<_> =
        fleet.sources().iter().flat_map(|source| source.adapter.watch(&source.root)).collect();
    targets.sort();
    targets.dedup();
    targets
}

/// Where the sessions of a source are: in processes on this machine, or in a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Here,
    Far,
}

impl Side {
    fn of(source: &Source) -> Self {
        if source.adapter.gateway().is_none() { Self::Here } else { Self::Far }
    }
}

/// The thread of the sessions that live in servers: one that hangs must not hold up the news of all others, and is not asked
/// whenever an agent here writes a line. Ends when the daemon stops. Says when it has looked for the first time.
pub(crate) fn keep_far(shared: &Arc<Shared>, looked: &Sender<()>) {
    let live = &shared.live;
    let mut watcher = Watcher::new(live.far_bell.clone());
    let mut sweep = SWEEP;
    let mut pace = Pace::default();
    while !live.stopped.load(Ordering::Relaxed) {
        let began = Instant::now();
        if let Ok(fleet) = fleet(shared) {
            look(shared, &fleet, Side::Far);
            let names = far_names(&fleet);
            let view = live.view();
            sweep = pace.after(view.sources().filter(|source| names.contains(&source.adapter.as_str())));
        }
        let _ = looked.send(());
        let woken = watcher.wait(sweep);
        let rest = (began.elapsed() * REST_FACTOR).clamp(REST, LONGEST_REST);
        if !woken.by_nothing() && !live.stopped.load(Ordering::Relaxed) {
            std::thread::sleep(rest.saturating_sub(began.elapsed()));
        }
    }
}

fn far_names(fleet: &Fleet) -> Vec<&'static str> {
    fleet.sources().iter().filter(|source| Side::of(source) == Side::Far).map(Source::name).collect()
}

/// One look at some of the sources, and what it changed.
fn look(shared: &Arc<Shared>, fleet: &Fleet, side: Side) {
    let live = &shared.live;
    let adapters: Vec<String> = fleet
        .sources()
        .iter()
        .filter(|source| Side::of(source) == side)
        .map(|source| source.name().to_owned())
        .collect();
    // No name at all would mean all of them.
    let survey = if adapters.is_empty() {
        Survey::default()
    } else {
        fleet.survey(&Query { adapters, ..Query::new(Wanted::Live) })
    };
    let missing = live.view().missing(&survey);
    let whole = if missing.is_empty() { survey } else { survey.and(ask_after(fleet, &missing)) };
    shared.metrics.surveyed(&whole);
    let far = far_names(fleet);
    let concerns = |adapter: &str| far.contains(&adapter) == (side == Side::Far);
    change(shared, &whole, |view, now| view.diff_among(concerns, now));
}

/// Puts another view in the place of this one, and tells what that changes.
fn change(shared: &Arc<Shared>, now: &Survey, differ: impl FnOnce(&View, &Survey) -> (Vec<Event>, View)) {
    let mut view = shared.live.view();
    shared.live.keep_stopped(&view, now);
    let (events, after) = differ(&view, now);
    let came_or_went = !view.has_same_sessions(&after);
    *view = after;
    let posted: Vec<Arc<Posted>> = events.into_iter().map(|event| shared.hub.post(event)).collect();
    drop(view);
    for one in &posted {
        shared.told(one);
    }
    // Also one that is not told of holds its directory.
    if came_or_went {
        shared.own_files.ring();
    }
}

/// Sessions that left the live list, asked for by name: only the sources that had them.
pub(crate) fn ask_after(fleet: &Fleet, missing: &[SessionKey]) -> Survey {
    let mut ids: Vec<String> = missing.iter().map(|key| key.id.clone()).collect();
    let mut adapters: Vec<String> = missing.iter().map(|key| key.adapter.clone()).collect();
    for list in [&mut ids, &mut adapters] {
        list.sort_unstable();
        list.dedup();
    }
    let mut closer = fleet.survey(&Query { adapters, ..Query::new(Wanted::Ids(ids)) });
    // An id is also the beginning of others, which nobody asked after.
    closer.sessions.retain(|surveyed| missing.contains(&surveyed.key));
    closer
}
