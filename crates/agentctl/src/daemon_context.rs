//! What the daemon needs from the binary: the current settings, in the environment that the daemon was
//! started in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::Memory;
use agentctl_daemon::{BusSettings, NotifySettings, SessionStopper, Settings, WebhookSettings};
use agentctl_fleet::act::asker::Asker;
use agentctl_fleet::act::launch::Launcher;
use agentctl_fleet::known_agents;
use agentctl_fleet::{AdapterEntry, EndedServer, Fleet, Query, StopOptions, Unattended};
use agentctl_model::text::counted;
use agentctl_model::{EndedBy, Error, SessionKey, Surveyed};
use jiff::Timestamp;

use crate::failure::Failure;
use crate::surroundings::{Surroundings, clock};

/// How long a session may take to end cleanly.
const GRACE: Duration = Duration::from_secs(10);

pub(crate) struct DaemonContext {
    surroundings: Surroundings,
    memory: Arc<Memory>,
}

impl DaemonContext {
    pub(crate) fn new(surroundings: Surroundings) -> Self {
        Self { surroundings, memory: Arc::new(Memory::new(clock)) }
    }
}

impl Settings for DaemonContext {
    fn fleet(&self) -> Result<Fleet, String> {
        Ok(self.surroundings.fleet().map_err(words)?.with_memory(self.memory.clone()))
    }

    fn launcher(&self, environment: Option<&BTreeMap<String, String>>) -> Result<Launcher, String> {
        let given = environment.map(|variables| self.surroundings.elsewhere(variables));
        let surroundings = given.as_ref().unwrap_or(&self.surroundings);
        let settings = surroundings.settings().map_err(|error| words(error.into()))?;
        surroundings.launcher(&settings).map_err(words)
    }

    fn adapters(&self) -> Result<Vec<AdapterEntry>, String> {
        let settings = self.surroundings.settings().map_err(|error| words(error.into()))?;
        Ok(known_agents(&settings.acp_agents(), |name| settings.adapter(name).enabled.value))
    }

    fn webhook(&self) -> Option<WebhookSettings> {
        let settings = self.surroundings.settings().ok()?;
        // A delivery that was sent unsigned or to the wrong address cannot be undone.
        if settings.invalid(&["webhook"]).is_some() {
            return None;
        }
        let webhook = settings.webhook;
        Some(WebhookSettings {
            url: webhook.url.value?,
            secret: webhook.secret.value,
            events: webhook.events.value,
        })
    }

    fn notify(&self) -> Option<NotifySettings> {
        let settings = self.surroundings.settings().ok()?;
        if settings.invalid(&["notify"]).is_some() {
            return None;
        }
        let notify = settings.notify;
        Some(NotifySettings { command: notify.command.value?, on: notify.on.value })
    }

    fn bus(&self) -> Option<BusSettings> {
        let settings = self.surroundings.settings().ok()?;
        let nats = self.surroundings.bus(&settings).ok()??;
        Some(BusSettings { nats, instance: self.surroundings.instance() })
    }
}

fn words(failure: Failure) -> String {
    match failure {
        Failure::Said(Error { message, .. }) => message,
        Failure::ReaderGone => "nobody reads the output".to_owned(),
    }
}

/// Ends sessions whose fuse has expired, in the environment that the daemon was started in.
impl SessionStopper for DaemonContext {
    fn interrupt(&self, session: &SessionKey, by: &EndedBy) -> Result<(), String> {
        let fleet = self.fleet()?;
        fleet.interrupt(by, &found(&fleet, session)?).map_err(|error| error.message)
    }

    fn stop(&self, session: &SessionKey, by: &EndedBy) -> Result<(), String> {
        let fleet = self.fleet()?;
        let settings = self.surroundings.settings().map_err(|error| words(error.into()))?;
        let caller = self.surroundings.caller(&settings).map_err(words)?;
        let options = StopOptions { grace: GRACE, force: false, asker: Asker::default() };
        let stopped = fleet.terminate(by, &found(&fleet, session)?, &caller, options);
        match stopped.map_err(|error| error.message)?.survived.as_slice() {
            [] => Ok(()),
            left => Err(format!("{} survived", counted(left.len(), "process", "processes"))),
        }
    }

    fn end_unattended(&self, now: Timestamp) -> Result<(Vec<String>, Option<Timestamp>), String> {
        let fleet = self.fleet()?;
        let due = |servers: &[Unattended]| servers.iter().filter_map(|server| server.look_at(now)).min();
        let servers = fleet.unattended();
        if servers.iter().all(|server| server.ends_at.is_none_or(|at| at > now)) {
            return Ok((Vec::new(), due(&servers)));
        }
        let settings = self.surroundings.settings().map_err(|error| words(error.into()))?;
        let caller = self.surroundings.caller(&settings).map_err(words)?;
        let ended = fleet.end_unattended(now, &caller, false);
        let said = ended.iter().map(EndedServer::describe).collect();
        Ok((said, due(&fleet.unattended())))
    }
}

fn found(fleet: &Fleet, key: &SessionKey) -> Result<Surveyed, String> {
    let survey = fleet.survey(&Query::one(key));
    let found = survey.sessions.into_iter().find(|surveyed| surveyed.key == *key);
    found.ok_or_else(|| format!("session {} is not found", key.id))
}
