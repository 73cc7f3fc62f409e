//! The roster: this machine and the hosts of the settings. Each is asked for itself and at the same time as the others,
//! and one that cannot be heard is a row with its reason.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use agentctl_hosts::ssh::{SshHost, sockets_folder};
use agentctl_hosts::{Ask, Connection, HostName, RoadFailure, Step};
use agentctl_model::{CoverageKind, HostReport, Road, Session, SourceReport, Status};
use jiff::Timestamp;
use serde::Deserialize;

use crate::surroundings::Surroundings;

/// How many machines are asked at once.
const AT_ONCE: usize = 32;

/// The machines of the settings, by name.
pub(crate) struct Roster {
    pub(crate) hosts: Vec<(HostName, SshHost)>,
    sockets: Option<PathBuf>,
}

/// What a list says, as far as a row of a host needs it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostAnswer {
    pub(crate) as_of: Timestamp,
    pub(crate) sessions: Vec<Session>,
    pub(crate) sources: Vec<SourceReport>,
}

/// What one host said, and how it was heard.
pub(crate) struct Heard {
    pub(crate) answer: Result<HostAnswer, RoadFailure>,
    pub(crate) report: HostReport,
}

impl Roster {
    pub(crate) fn of(surroundings: &Surroundings) -> Result<Self, crate::failure::Failure> {
        let settings = surroundings.settings()?;
        let hosts: Vec<_> = settings.hosts.iter().map(|(name, host)| (name.clone(), host.clone())).collect();
        let own = surroundings.own_folder().map(|(folder, _)| folder).filter(|folder| folder.is_dir());
        let sockets = own.filter(|_| !hosts.is_empty()).and_then(|own| sockets_folder(&own));
        Ok(Self { hosts, sockets })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&(HostName, SshHost)> {
        self.hosts.iter().find(|(known, _)| known.as_str() == name)
    }

    pub(crate) fn connect(&self, host: &SshHost) -> Result<Connection, RoadFailure> {
        host.connect(self.sockets.as_deref())
    }

    /// Asks these hosts for their sessions, all at once.
    pub(crate) fn list(&self, hosts: &[&(HostName, SshHost)], target: &str) -> Vec<Heard> {
        side_by_side(hosts, |(name, host)| self.list_one(name, host, target))
    }

    fn list_one(&self, name: &HostName, host: &SshHost, target: &str) -> Heard {
        let began = Instant::now();
        let mut version = None;
        let answer = self.connect(host).and_then(|mut connection| {
            version = Some(connection.greeting.version.clone());
            ask(&mut connection, host, target)
        });
        let mut report = HostReport {
            name: name.to_string(),
            via: Road::Ssh,
            coverage: CoverageKind::Complete,
            error: None,
            hint: None,
            version,
            sessions: None,
            live: None,
            waiting: None,
            as_of: None,
            took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        match &answer {
            Ok(answer) => count(&mut report, answer),
            Err(failure) => {
                report.coverage = CoverageKind::Failed;
                report.error = Some(failure.message.clone());
                report.hint.clone_from(&failure.hint);
            }
        }
        Heard { answer, report }
    }
}

fn ask(connection: &mut Connection, host: &SshHost, target: &str) -> Result<HostAnswer, RoadFailure> {
    let answer = connection.ask(Ask::get(target), host.timeout)?;
    if answer.head.status != 200 {
        let problem = serde_json::from_slice::<agentctl_daemon::Problem>(&answer.body);
        let words = problem
            .map_or_else(|_| format!("it answered {}", answer.head.status), |problem| problem.detail.clone());
        return Err(RoadFailure::new(Step::Answer, words));
    }
    serde_json::from_slice(&answer.body).map_err(|error| {
        RoadFailure::new(Step::Answer, format!("its answer cannot be read: {error}"))
            .hint("the versions there and here may be too far apart")
    })
}

/// Completes the row of a host that answered.
pub(crate) fn count(report: &mut HostReport, answer: &HostAnswer) {
    let incomplete = answer.sources.iter().find(|source| source.is_incomplete());
    if let Some(source) = incomplete {
        report.coverage = CoverageKind::Partial;
        report.error = Some(format!("{}: {}", source.adapter, source.coverage));
    }
    report.sessions = Some(answer.sessions.len());
    report.live = Some(answer.sessions.iter().filter(|session| session.is_live()).count());
    report.waiting = Some(answer.sessions.iter().filter(|session| session.status == Status::Waiting).count());
    report.as_of = Some(answer.as_of);
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
