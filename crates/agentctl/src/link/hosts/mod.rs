//! The roster: this machine and the hosts of the settings. Each is asked for itself and at the same time as the others,
//! and one that cannot be heard is a row with its reason.

mod bus;
mod deeds;
mod entries;
mod find;
mod host;
pub(crate) mod inbox;
mod merge;
mod pauses;
pub(crate) mod steer;
mod watch;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use agentctl_daemon::list_pairs;
use agentctl_fleet::{Listing, Query, sort};
use agentctl_hosts::ssh::{SshRoad, sockets_folder};
use agentctl_hosts::{Ask, LOCAL, RoadFailure, Step};
use agentctl_model::{HostReport, Session, SourceReport};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(crate) use self::bus::BusHosts;
pub(crate) use self::entries::{FarEntries, FarNews};
pub(crate) use self::find::{Located, NotLocated, full, path_of};
pub(crate) use self::host::{RosterHost, Unanswered, understood};
pub(crate) use self::merge::{Heard, merge};
pub(crate) use self::pauses::{Pauses, SILENCE};
pub(crate) use self::steer::length;
pub(crate) use self::watch::{Look, watch};
use crate::failure::Failure;
use crate::link::Link;
use crate::surroundings::{Surroundings, clock};

/// How many machines are asked at once.
const AT_ONCE: usize = 32;

/// The machines that are known, by name.
pub(crate) struct Roster {
    pub(crate) hosts: Vec<Arc<RosterHost>>,
    /// What is asked where the command line names no host.
    pub(crate) default: Option<String>,
    pub(crate) bus: Option<BusHosts>,
    /// Tells whether another name leads to this machine.
    instance: String,
}

/// The machines that a command asks.
#[derive(Clone, Default)]
pub(crate) struct Asked {
    pub(crate) local: bool,
    pub(crate) others: Vec<Arc<RosterHost>>,
    /// All machines of the bus.
    pub(crate) bus: Option<BusHosts>,
}

/// What a list says, as far as a row of a host needs it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostAnswer {
    as_of: Timestamp,
    sessions: Vec<Session>,
    sources: Vec<SourceReport>,
}

impl Roster {
    pub(crate) fn of(surroundings: &Surroundings) -> Result<Self, Failure> {
        let settings = surroundings.settings()?;
        let bus = BusHosts::of(surroundings, &settings)?;
        let own = surroundings.own_folder().map(|(folder, _)| folder).filter(|folder| folder.is_dir());
        let sockets = own.filter(|_| !settings.hosts.is_empty()).and_then(|own| sockets_folder(&own));
        let over_ssh = settings.hosts.into_iter().map(|(name, host)| {
            Arc::new(RosterHost::new(name, Box::new(SshRoad { host, sockets: sockets.clone() })))
        });
        Ok(Self {
            hosts: over_ssh.collect(),
            default: settings.host.value,
            bus,
            instance: surroundings.instance(),
        })
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<RosterHost>> {
        let over_ssh = self.hosts.iter().find(|known| known.name.as_str() == name);
        over_ssh.cloned().or_else(|| self.bus.as_ref()?.get(name))
    }

    /// This machine and every other one.
    pub(crate) fn everybody(&self) -> Asked {
        Asked { local: true, others: self.hosts.clone(), bus: self.bus.clone() }
    }

    /// The sessions of these machines, sorted and cut as one list.
    pub(crate) fn list(&self, asked: &Asked, mut query: Query, link: &Link) -> Listing<Box<Session>> {
        // Which rows are cut is known only when every machine has answered.
        let limit = query.filter.limit.take().unwrap_or(usize::MAX);
        let mut listing = self.list_with(asked, &query, link);
        sort(&mut listing.sessions, query.filter.sort);
        listing.left_out = listing.sessions.len().saturating_sub(limit);
        listing.sessions.truncate(limit);
        listing
    }

    /// Asks these machines for their sessions, all at once. Nothing is sorted or cut.
    pub(crate) fn list_with(&self, asked: &Asked, query: &Query, link: &Link) -> Listing<Box<Session>> {
        // A path that is not text cannot be asked for elsewhere, and nothing there can fit it.
        let target = list_pairs(query).map(|pairs| format!("/v1/sessions?{pairs}"));
        let (local, heard) = std::thread::scope(|scope| {
            let local = asked.local.then(|| scope.spawn(|| link.list(query)));
            let heard = target.map(|target| {
                asked.hear(Ask::get(&target), |report, answer: &HostAnswer| {
                    report.heard(answer.as_of, answer.sessions.iter(), &answer.sources);
                })
            });
            (local.and_then(|local| local.join().ok()), heard.unwrap_or_default())
        });
        let mut listing = Listing {
            as_of: local.as_ref().map_or_else(clock, |local| local.as_of),
            sessions: Vec::new(),
            left_out: 0,
            sources: Vec::new(),
            hosts: Vec::new(),
            strays: 0,
        };
        let mut rows = Vec::new();
        if let Some(local) = local {
            listing.sessions.extend(local.sessions.into_iter().map(|surveyed| surveyed.session));
            listing.sources.extend(local.sources);
            rows.extend(local.hosts);
            listing.strays = local.strays;
        }
        let (hosts, answers) = merge(rows, &self.instance, heard);
        listing.hosts = hosts;
        for (name, HostAnswer { sessions, sources, .. }) in answers {
            // A machine is known by the name under which it was asked, whatever it calls itself.
            let named = |mut session: Session| {
                session.host.clone_from(&name);
                Box::new(session)
            };
            listing.sessions.extend(sessions.into_iter().map(named));
            listing.sources.extend(sources.into_iter().map(|mut source| {
                source.host.clone_from(&name);
                source
            }));
        }
        merge::tell_twins(&mut listing.sessions);
        listing
    }

    /// Asks other machines one question, all at once; `told` completes the row of one that answered. `own` is the row
    /// of this machine, if it was asked.
    pub(crate) fn ask_all<T: DeserializeOwned + Send>(
        &self,
        asked: &Asked,
        own: Vec<HostReport>,
        ask: Ask<'_>,
        told: impl Fn(&mut HostReport, &T) + Sync,
    ) -> (Vec<HostReport>, Vec<(String, T)>) {
        let heard = asked.hear(ask, told);
        merge(own, &self.instance, heard)
    }
}

impl Asked {
    /// Whether this machine alone is asked.
    pub(crate) fn is_here(&self) -> bool {
        self.local && self.others.is_empty() && self.bus.is_none()
    }

    /// This machine alone.
    pub(crate) fn here() -> Self {
        Self { local: true, ..Self::default() }
    }

    /// One other machine.
    pub(crate) fn one(host: Arc<RosterHost>) -> Self {
        Self { others: vec![host], ..Self::default() }
    }

    /// Every other machine, each to be asked for itself.
    pub(crate) fn each(&self) -> Vec<Arc<RosterHost>> {
        let of_bus = self.bus.iter().flat_map(BusHosts::hosts);
        self.others.iter().cloned().chain(of_bus).collect()
    }

    /// One question to all of them, at once.
    fn hear<T: DeserializeOwned + Send>(
        &self,
        ask: Ask<'_>,
        told: impl Fn(&mut HostReport, &T) + Sync,
    ) -> Vec<Heard<T>> {
        std::thread::scope(|scope| {
            let of_bus = self.bus.as_ref().map(|bus| scope.spawn(|| bus.hear(ask, &told)));
            let mut heard = side_by_side(&self.others, |host| host.hear(ask, &told));
            heard.extend(of_bus.and_then(|of_bus| of_bus.join().ok()).into_iter().flatten());
            heard
        })
    }
}

/// Whether this is a name of this machine.
pub(crate) fn is_here(name: &str, own_name: &str) -> bool {
    name == LOCAL || name == own_name
}

impl RosterHost {
    /// One question, as a row and what was answered.
    fn hear<T: DeserializeOwned>(&self, ask: Ask<'_>, told: impl Fn(&mut HostReport, &T)) -> Heard<T> {
        let began = Instant::now();
        let greeting = self.greeting();
        let answer = greeting.as_ref().map_err(Clone::clone).and_then(|_| self.heard_answer(ask));
        let mut report = HostReport::unheard(self.name.to_string(), self.road.via());
        report.version = greeting.as_ref().ok().map(|greeting| greeting.version.clone());
        report.took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        match &answer {
            Ok(answer) => told(&mut report, answer),
            Err(failure) => {
                report.error = Some(failure.message.clone());
                report.hint.clone_from(&failure.hint);
            }
        }
        let instance = greeting.ok().map(|greeting| greeting.instance);
        Heard { answer: answer.ok(), report, instance }
    }

    fn heard_answer<T: DeserializeOwned>(&self, ask: Ask<'_>) -> Result<T, RoadFailure> {
        self.read(ask).map_err(|why| match why {
            Unanswered::Road(failure) => failure,
            Unanswered::Problem(problem) => RoadFailure::new(Step::Answer, &problem.detail),
        })
    }
}

/// Does the work for every item, a few at a time, and returns the results in the order of the items.
pub(crate) fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..items.len().min(AT_ONCE) {
            scope.spawn(|| {
                while let Some((index, item)) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|index| Some((index, items.get(index)?)))
                {
                    let result = work(item);
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
