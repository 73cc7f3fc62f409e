//! The machines of the bus. One of them is asked like any other machine; all of them are asked at once. Where the bus
//! itself is away, or does not say who is on it, it stands as a row in the place of its machines.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agentctl_hosts::nats::{BusDoor, NatsRoad};
use agentctl_hosts::{Ask, Connection, Host, HostName, RoadFailure};
use agentctl_model::{CoverageKind, HostReport, Road};
use serde::de::DeserializeOwned;

use super::host::{RosterHost, Unanswered, understood};
use super::merge::Heard;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::surroundings::Surroundings;

/// What to do about a machine that is not in the roster.
const STRANGER: &str = "it answers and is not in the roster; it enters when its daemon may write its own entry, see \
                        docs/hosts.md";

/// The bus of the settings. It is connected to when it is needed first.
#[derive(Clone)]
pub(crate) struct BusHosts {
    door: Arc<BusDoor>,
    /// The roster, once it was read.
    names: Arc<OnceLock<Vec<HostName>>>,
}

impl BusHosts {
    pub(crate) fn of(surroundings: &Surroundings, settings: &Settings) -> Result<Option<Self>, Failure> {
        Ok(surroundings
            .bus(settings)?
            .map(|settings| Self { door: BusDoor::new(settings), names: Arc::default() }))
    }

    /// The machine of this name. If the bus does not say who is on it, it may be this one.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<RosterHost>> {
        let name = HostName::parse(name).ok()?;
        let is_known = match self.names() {
            Ok(names) => names.contains(&name),
            Err(_) => true,
        };
        is_known.then(|| self.host(name))
    }

    /// Every machine, each to be asked for itself.
    pub(crate) fn hosts(&self) -> Vec<Arc<RosterHost>> {
        match self.names() {
            Ok(names) => names.iter().map(|name| self.host(name.clone())).collect(),
            Err(failure) => {
                let road = AwayBus { failure, timeout: self.door.settings.timeout };
                vec![Arc::new(RosterHost::new(HostName::bus(), Box::new(road)))]
            }
        }
    }

    /// Every machine of the roster.
    pub(crate) fn names(&self) -> Result<&[HostName], RoadFailure> {
        if let Some(names) = self.names.get() {
            return Ok(names);
        }
        let names = self.door.open()?.roster()?;
        Ok(self.names.get_or_init(|| names))
    }

    fn host(&self, name: HostName) -> Arc<RosterHost> {
        let road = NatsRoad { door: self.door.clone(), name: name.clone() };
        Arc::new(RosterHost::new(name, Box::new(road)))
    }

    /// One question to all machines at once, and what each said; `told` completes the row of one that answered.
    pub(crate) fn hear<T: DeserializeOwned + Send>(
        &self,
        ask: Ask<'_>,
        told: impl Fn(&mut HostReport, &T),
    ) -> Vec<Heard<T>> {
        let digest = |answer| {
            understood::<T>(&answer).map_err(|why| match why {
                Unanswered::Road(failure) => failure,
                Unanswered::Problem(problem) => {
                    RoadFailure::new(agentctl_hosts::Step::Answer, &problem.detail)
                }
            })
        };
        let gathered = match self.door.open().and_then(|bus| bus.gather(ask, digest)) {
            Ok(gathered) => gathered,
            Err(failure) => return vec![of_bus(&failure, CoverageKind::Failed)],
        };
        let mut heard: Vec<Heard<T>> = Vec::new();
        for one in gathered.hosts {
            let mut report = HostReport::unheard(one.name.to_string(), Road::Nats);
            report.version = one.version;
            report.took_ms = u64::try_from(one.took.as_millis()).unwrap_or(u64::MAX);
            match &one.answer {
                Ok(answer) => told(&mut report, answer),
                Err(failure) => {
                    report.error = Some(failure.message.clone());
                    report.hint.clone_from(&failure.hint);
                }
            }
            if one.is_stranger && report.hint.is_none() {
                report.hint = Some(STRANGER.to_owned());
            }
            heard.push(Heard { answer: one.answer.ok(), report, instance: one.instance });
        }
        heard.extend(gathered.roster.map(|failure| of_bus(&failure, CoverageKind::Partial)));
        heard
    }
}

/// The row of the bus itself.
fn of_bus<T>(failure: &RoadFailure, coverage: CoverageKind) -> Heard<T> {
    let mut report = HostReport::unheard(HostName::bus().to_string(), Road::Nats);
    report.coverage = coverage;
    report.error = Some(failure.message.clone());
    report.hint.clone_from(&failure.hint);
    Heard { answer: None, report, instance: None }
}

/// Stands for all machines of a bus that says nothing of them.
#[derive(Debug)]
struct AwayBus {
    failure: RoadFailure,
    timeout: Duration,
}

impl Host for AwayBus {
    fn via(&self) -> Road {
        Road::Nats
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn connect(&self) -> Result<Box<dyn Connection>, RoadFailure> {
        Err(self.failure.clone())
    }
}
