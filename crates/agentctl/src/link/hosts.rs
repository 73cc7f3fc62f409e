//! The roster: this machine and the hosts of the settings. Each is asked for itself and at the same time as the others,
//! and one that cannot be heard is a row with its reason.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentctl_daemon::list_pairs;
use agentctl_fleet::{Listing, Query};
use agentctl_hosts::ssh::{SshRoad, sockets_folder};
use agentctl_hosts::{Ask, Connection, Host, HostName, RoadFailure, Step};
use agentctl_model::{HostReport, Session, SourceReport};
use jiff::Timestamp;
use serde::Deserialize;

use crate::link::Link;
use crate::surroundings::{Surroundings, clock};

/// How many machines are asked at once.
const AT_ONCE: usize = 32;

/// A machine that can be asked, whatever road leads there.
#[derive(Debug)]
pub(crate) struct RosterHost {
    pub(crate) name: HostName,
    pub(crate) road: Box<dyn Host>,
}

/// The machines that are known, by name.
pub(crate) struct Roster {
    pub(crate) hosts: Vec<RosterHost>,
    /// What is asked where the command line names no host.
    pub(crate) default: Option<String>,
}

/// The machines that a command asks.
pub(crate) struct Asked<'r> {
    pub(crate) local: bool,
    pub(crate) others: Vec<&'r RosterHost>,
}

/// What a list says, as far as a row of a host needs it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostAnswer {
    as_of: Timestamp,
    sessions: Vec<Session>,
    sources: Vec<SourceReport>,
}

/// What one host said, and how it was heard.
struct Heard {
    answer: Result<HostAnswer, RoadFailure>,
    report: HostReport,
}

impl Roster {
    pub(crate) fn of(surroundings: &Surroundings) -> Result<Self, crate::failure::Failure> {
        let settings = surroundings.settings()?;
        let own = surroundings.own_folder().map(|(folder, _)| folder).filter(|folder| folder.is_dir());
        let sockets = own.filter(|_| !settings.hosts.is_empty()).and_then(|own| sockets_folder(&own));
        let over_ssh = settings.hosts.into_iter().map(|(name, host)| RosterHost {
            name,
            road: Box::new(SshRoad { host, sockets: sockets.clone() }),
        });
        Ok(Self { hosts: over_ssh.collect(), default: settings.host.value })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&RosterHost> {
        self.hosts.iter().find(|known| known.name.as_str() == name)
    }

    /// Asks these machines for their sessions, all at once. Nothing is sorted or cut.
    pub(crate) fn list_with(asked: &Asked<'_>, query: &Query, link: &Link) -> Listing<Box<Session>> {
        // A path that is not text cannot be asked for elsewhere, and nothing there can fit it.
        let target = list_pairs(query).map(|pairs| format!("/v1/sessions?{pairs}"));
        let (local, heard) = std::thread::scope(|scope| {
            let local = asked.local.then(|| scope.spawn(|| link.list(query)));
            let heard = target.map(|target| side_by_side(&asked.others, |host| host.list(&target)));
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
        if let Some(local) = local {
            listing.sessions.extend(local.sessions.into_iter().map(|surveyed| surveyed.session));
            listing.sources.extend(local.sources);
            listing.hosts.extend(local.hosts);
            listing.strays = local.strays;
        }
        for Heard { answer, report } in heard {
            // A machine is known by the name under which it was asked, whatever it calls itself.
            if let Ok(HostAnswer { sessions, sources, .. }) = answer {
                let named = |mut session: Session| {
                    session.host.clone_from(&report.name);
                    Box::new(session)
                };
                listing.sessions.extend(sessions.into_iter().map(named));
                listing.sources.extend(sources.into_iter().map(|mut source| {
                    source.host.clone_from(&report.name);
                    source
                }));
            }
            listing.hosts.push(report);
        }
        listing
    }
}

impl RosterHost {
    fn list(&self, target: &str) -> Heard {
        let began = Instant::now();
        let mut version = None;
        let answer = self.road.connect().and_then(|mut connection| {
            version = Some(connection.greeting().version.clone());
            ask(&mut *connection, target, self.road.timeout())
        });
        let mut report = HostReport::unheard(self.name.to_string(), self.road.via());
        report.version = version;
        report.took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        match &answer {
            Ok(answer) => report.heard(answer.as_of, answer.sessions.iter(), &answer.sources),
            Err(failure) => {
                report.error = Some(failure.message.clone());
                report.hint.clone_from(&failure.hint);
            }
        }
        Heard { answer, report }
    }
}

fn ask(connection: &mut dyn Connection, target: &str, timeout: Duration) -> Result<HostAnswer, RoadFailure> {
    let answer = connection.ask(Ask::get(target), timeout)?;
    if !answer.is_done() {
        let problem = serde_json::from_slice::<agentctl_daemon::Problem>(&answer.body);
        let words = problem
            .map_or_else(|_| format!("it answered {}", answer.status), |problem| problem.detail.clone());
        return Err(RoadFailure::new(Step::Answer, words));
    }
    serde_json::from_slice(&answer.body).map_err(|error| {
        RoadFailure::new(Step::Answer, format!("its answer cannot be read: {error}"))
            .hint("the versions there and here may be too far apart")
    })
}

/// Does the work for every item, a few at a time, and returns the results in the order of the items.
fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
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
