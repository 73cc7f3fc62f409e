//! The lists: this machine, each other machine and the bus are looked at for themselves, again and again, so that a slow
//! one delays nobody. The daemon's events are a reason to look at once; without it the look comes by itself.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use agentctl_adapters::{Memory, WatchTarget};
use agentctl_fleet::{ListFilter, Listing, Query, Since, Wanted};
use agentctl_model::{CoverageKind, Session};
use jiff::{SignedDuration, Timestamp};

use super::quiet::{self, Quiet};
use super::{News, watched};
use crate::failure::Failure;
use crate::link::Link;
use crate::link::hints::Hints;
use crate::link::hosts::{Asked, Pauses, Roster, RosterHost};
use crate::surroundings::clock;
use crate::top::Scene;
use crate::top::rows::{Key, Row};
use crate::top::state::Part;

/// How often is looked at least: what changed is on the screen within 3 s, and a look at thousands of sessions takes a part
/// of that.
const PERIOD: Duration = Duration::from_millis(2500);
/// How soon after a look the next one may come.
const LEAST: Duration = Duration::from_millis(250);
/// How long the stored sessions are left unseen at most while the kernel tells of no write.
const LONGEST: Duration = Duration::from_secs(30);
/// How far back sessions that ended are shown.
const ENDED: Duration = Duration::from_hours(24);

/// The name of the part that is this machine, and of the one that is the bus.
const HERE: &str = "";
const BUS: &str = "nats";

/// Which instance is told under which name: one machine is shown once, by whatever roads it is reached.
type Instances = Arc<Mutex<HashMap<String, String>>>;

pub(super) fn start(scene: &Arc<Scene>, to: &Sender<News>) -> Result<(), Failure> {
    let surroundings = &scene.surroundings;
    let roster = scene.hosts.roster(surroundings)?;
    let asked = match &roster {
        None => Asked::here(),
        Some(roster) => scene.hosts.asked(roster, &agentctl_fleet::own_name())?,
    };
    let instances = Instances::default();
    if asked.local {
        held(&instances).insert(surroundings.instance(), HERE.to_owned());
        let (scene, news) = (scene.clone(), to.clone());
        watched("agentctl does not look at this machine", to, move || near(&scene, &news));
    }
    let Some(roster) = roster.map(Arc::new) else { return Ok(()) };
    for host in asked.others {
        let (scene, news, roster, instances) = (scene.clone(), to.clone(), roster.clone(), instances.clone());
        let what = format!("agentctl does not look at {}", host.name);
        watched(&what, to, move || far(&host, &roster, &instances, &scene, &news));
    }
    if asked.bus.is_some() {
        let (scene, news) = (scene.clone(), to.clone());
        let bus = Asked { bus: asked.bus, ..Asked::default() };
        watched("agentctl does not ask the bus", to, move || over_bus(&bus, &roster, &scene, &news));
    }
    Ok(())
}

fn held<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn query(scene: &Scene) -> Query {
    query_for(scene, Wanted::All { since: Since::Back(ENDED) })
}

fn query_for(scene: &Scene, wanted: Wanted) -> Query {
    Query {
        adapters: scene.adapters.clone(),
        filter: ListFilter { folders: scene.folders.clone(), ..ListFilter::default() },
        ..Query::new(wanted)
    }
}

/// Looks at this machine: through the daemon if one is heard, which is tried anew each time.
fn near(scene: &Scene, to: &Sender<News>) {
    let mut was_heard = false;
    // What has not changed since the last look is not read again.
    let memory = Arc::new(Memory::new(clock));
    let mut quiet = Quiet::new(PERIOD, LONGEST);
    // A daemon that starts and agents that are launched show there.
    let own = scene.surroundings.store().map(|store| {
        [WatchTarget::new(store.folder(), 0), WatchTarget::new(store.folder().join("launches"), 1)]
    });
    loop {
        let Ok(link) = Link::open(&scene.surroundings.anew()) else {
            std::thread::sleep(PERIOD);
            continue;
        };
        let link = Link { fleet: link.fleet.with_memory(memory.clone()), ..link };
        let mut hints = Hints::of_changes(&link).patient(PERIOD);
        let shown = loop {
            let is_heard = hints.are_given();
            was_heard |= is_heard;
            let began = Instant::now();
            let listing = link.list(&query(scene));
            let shown = quiet::live_of(&listing);
            let part = part(listing, |surveyed| (surveyed.session, surveyed.key.variant.is_some()));
            let is_gone = to.send(News::Daemon { is_lost: was_heard && !is_heard }).is_err();
            if is_gone || to.send(News::Part { name: HERE.to_owned(), part }).is_err() {
                return;
            }
            assert!(!agentctl_fleet::keep::fault::is_armed("top.look"), "the point top.look was reached");
            if !is_heard {
                break shown;
            }
            // The first event is a reason to look; those that have come until then belong to the same look.
            hints.next();
            std::thread::sleep(LEAST.saturating_sub(began.elapsed()));
            hints.pass_over();
            if !hints.are_given() {
                break shown;
            }
        };
        // A daemon that was lost is looked for more often.
        if was_heard {
            std::thread::sleep(PERIOD / 2);
            continue;
        }
        let targets = own.as_ref().ok().and_then(|own| quiet::targets(&link.fleet, own));
        quiet.wait(targets, &shown, || quiet::live_of(&link.fleet.list(&query_for(scene, Wanted::Live))));
    }
}

/// Looks at another machine. One that is not heard is asked again, less and less often.
fn far(host: &Arc<RosterHost>, roster: &Roster, instances: &Instances, scene: &Scene, to: &Sender<News>) {
    let mut pauses = Pauses::default();
    let mut heard_at = None;
    let one = Asked::one(host.clone());
    loop {
        let Ok(link) = Link::open(&scene.surroundings.anew()) else {
            std::thread::sleep(PERIOD);
            continue;
        };
        let listing = roster.list_with(&one, &query(scene), &link);
        let is_heard = listing.hosts.iter().any(|host| host.coverage != CoverageKind::Failed);
        let name = host.name.to_string();
        let first = host
            .greeting()
            .ok()
            .map(|greeting| held(instances).entry(greeting.instance).or_insert_with(|| name.clone()).clone());
        // The same machine is told under another name already.
        let is_twin = first.is_some_and(|first| first != name);
        heard_at = if is_heard { Some(clock()) } else { heard_at };
        let part = if is_twin {
            Part::default()
        } else {
            Part { heard_at, ..part(listing, |session| (session, false)) }
        };
        if to.send(News::Part { name, part }).is_err() {
            return;
        }
        if is_heard {
            pauses.reset();
            std::thread::sleep(PERIOD);
        } else {
            std::thread::sleep(pauses.next());
        }
    }
}

fn over_bus(bus: &Asked, roster: &Roster, scene: &Scene, to: &Sender<News>) {
    loop {
        if let Ok(link) = Link::open(&scene.surroundings.anew()) {
            let listing = roster.list_with(bus, &query(scene), &link);
            let part = part(listing, |session| (session, false));
            if to.send(News::Part { name: BUS.to_owned(), part }).is_err() {
                return;
            }
        }
        std::thread::sleep(PERIOD);
    }
}

/// A list as rows. `taken` gives a session, and whether another one may have its id.
fn part<S>(listing: Listing<S>, taken: impl Fn(S) -> (Box<Session>, bool)) -> Part {
    let now = clock();
    let (as_of, hosts) = (listing.as_of, listing.hosts);
    let ahead = |session: &Session| -> SignedDuration {
        let host = hosts.iter().find(|host| host.name == session.host);
        let clock: Timestamp = host.and_then(|host| host.as_of).unwrap_or(as_of);
        clock.duration_since(now)
    };
    let sessions: Vec<(Box<Session>, bool)> = listing.sessions.into_iter().map(taken).collect();
    let mut seen = HashSet::new();
    let mut twice = HashSet::new();
    for (session, _) in &sessions {
        let name = (&session.host, &session.adapter, &session.config_root, &session.id);
        if !seen.insert(name) {
            twice.insert((
                session.host.clone(),
                session.adapter.clone(),
                session.config_root.clone(),
                session.id.clone(),
            ));
        }
    }
    let rows = sessions
        .into_iter()
        .map(|(session, has_variant)| {
            let name = (
                session.host.clone(),
                session.adapter.clone(),
                session.config_root.clone(),
                session.id.clone(),
            );
            let variant = session.cwd.clone().filter(|_| has_variant || twice.contains(&name));
            let (host, adapter, root, id) = name;
            let key = Key { host, adapter, root, id, variant };
            Row { key, ahead: ahead(&session), session: Arc::from(session), old: None }
        })
        .collect();
    Part { rows, hosts, sources: listing.sources, strays: listing.strays, heard_at: Some(now) }
}
