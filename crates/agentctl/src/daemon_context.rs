//! What the daemon needs from the binary: the current settings, in the environment that the daemon was
//! started in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::Memory;
use agentctl_daemon::{
    BusSettings, FarRequest, NotifySettings, Passed, SessionStopper, Settings, WebhookSettings,
};
use agentctl_fleet::act::asker::Asker;
use agentctl_fleet::act::launch::Launcher;
use agentctl_fleet::known_agents;
use agentctl_fleet::{
    AdapterEntry, EndedServer, Fleet, Listing, Query, StopOptions, TimelineQuery, Unattended, UsageAnswer,
    UsageQuery, Wanted, sort,
};
use agentctl_hosts::{Ask, Events};
use agentctl_model::text::counted;
use agentctl_model::timeline::Timeline;
use agentctl_model::{EndedBy, Error, HostReport, Session, SessionKey, Surveyed};
use jiff::Timestamp;

use crate::cli::{host_args, timeline, usage};
use crate::failure::Failure;
use crate::link::Link;
use crate::link::hosts::{Asked, Roster, is_here};
use crate::settings::Notify;
use crate::surroundings::{Surroundings, clock};

/// How long a session may take to end cleanly.
const GRACE: Duration = Duration::from_secs(10);
/// How long another machine may take for what it is asked to do.
const PASSED_ON: Duration = Duration::from_mins(10);

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
        let launcher = surroundings.launcher(&settings).map_err(words)?;
        // A budget is counted before something is started.
        Ok(Launcher { fleet: launcher.fleet.with_memory(self.memory.clone()), ..launcher })
    }

    fn launcher_with(&self, variables: &BTreeMap<String, String>) -> Result<Launcher, String> {
        if variables.is_empty() {
            return self.launcher(None);
        }
        self.launcher(Some(&self.surroundings.variables_with(variables)))
    }

    fn lacking(&self, names: &[String]) -> Vec<String> {
        names.iter().filter(|name| self.surroundings.environ.get(name).is_none()).cloned().collect()
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
        Some(notify_settings(settings.notify, &self.surroundings))
    }

    fn bus(&self) -> Option<BusSettings> {
        let settings = self.surroundings.settings().ok()?;
        let nats = self.surroundings.bus(&settings).ok()??;
        Some(BusSettings { nats, instance: self.surroundings.instance() })
    }

    fn hosts(&self) -> Result<Vec<HostReport>, Error> {
        let fleet = self.fleet().map_err(Error::failed)?;
        let everybody = ["all".to_owned()];
        Ok(self.list_over(&everybody, &Query::new(Wanted::Live), fleet)?.hosts)
    }

    fn list_over(
        &self,
        hosts: &[String],
        query: &Query,
        fleet: Fleet,
    ) -> Result<Listing<Box<Session>>, Error> {
        let (roster, asked) = self.asked(hosts, &fleet)?;
        // Which rows are cut is known only when every machine has answered.
        let mut wanted = query.clone();
        let limit = wanted.filter.limit.take().unwrap_or(usize::MAX);
        let mut listing = roster.list_with(&asked, &wanted, &Link { fleet, daemon: None, replay: None });
        sort(&mut listing.sessions, query.filter.sort);
        listing.left_out = listing.sessions.len().saturating_sub(limit);
        listing.sessions.truncate(limit);
        self.add_hints(&mut listing.hosts);
        Ok(listing)
    }

    fn usage_over(&self, hosts: &[String], query: &UsageQuery, fleet: Fleet) -> Result<UsageAnswer, Error> {
        let (roster, asked) = self.asked(hosts, &fleet)?;
        let mut answer = usage::over_hosts::usage(&roster, &asked, query, &fleet, &self.surroundings);
        self.add_hints(&mut answer.hosts);
        Ok(answer)
    }

    fn timeline_over(
        &self,
        hosts: &[String],
        query: &TimelineQuery,
        fleet: Fleet,
    ) -> Result<Timeline, Error> {
        let (roster, asked) = self.asked(hosts, &fleet)?;
        let mut answer = timeline::over_hosts::timeline(&roster, &asked, query, &fleet, &self.surroundings);
        self.add_hints(&mut answer.hosts);
        Ok(answer)
    }

    fn pass_on(&self, host: &str, request: FarRequest<'_>) -> Result<Passed, Error> {
        let roster = Roster::of(&self.surroundings).map_err(error)?;
        let Some(host) = roster.get(host) else {
            let is_here = is_here(host, &agentctl_fleet::own_name());
            return if is_here { Ok(Passed::Here) } else { Err(error(host_args::unknown(host, &roster))) };
        };
        let FarRequest { method, target, body } = request;
        let ask = Ask { method, target, accept: "application/json", body };
        let answer = if ask.only_reads() {
            host.ask(ask, Duration::ZERO).map_err(|failure| host.unheard(&failure))
        } else {
            host.deed(ask, PASSED_ON)
        };
        let answer = answer.map_err(|failure| self.hinted(failure))?;
        Ok(Passed::Answered { status: answer.status, body: answer.body })
    }

    fn listen(
        &self,
        host: &str,
        target: &str,
        cursor: Option<&str>,
    ) -> Result<Option<Box<dyn Events>>, Error> {
        let roster = Roster::of(&self.surroundings).map_err(error)?;
        let Some(host) = roster.get(host) else {
            let is_here = is_here(host, &agentctl_fleet::own_name());
            return if is_here { Ok(None) } else { Err(error(host_args::unknown(host, &roster))) };
        };
        host.listen(target, cursor).map(Some).map_err(|failure| self.hinted(host.unheard(&failure)))
    }
}

/// How a person is told, as the settings say.
pub(crate) fn notify_settings(notify: Notify, surroundings: &Surroundings) -> NotifySettings {
    NotifySettings {
        on: notify.on.value,
        quiet: notify.quiet.value,
        zone: surroundings.zone.clone(),
        command: notify.command.value,
        desktop: notify.desktop.value,
        ntfy: notify.ntfy.value,
        slack: notify.slack.value,
        telegram: notify.telegram.value,
    }
}

impl DaemonContext {
    fn hinted(&self, failure: Failure) -> Error {
        let said = error(failure);
        let hint = self.hint_for_daemon(Some(&said.message)).or(said.hint.clone());
        Error { hint, ..said }
    }

    /// The machines that are meant, and the roster that leads to them.
    fn asked(&self, hosts: &[String], fleet: &Fleet) -> Result<(Roster, Asked), Error> {
        let roster = Roster::of(&self.surroundings).map_err(error)?;
        let asked = host_args::named(hosts, &roster, fleet.host()).map_err(error)?;
        Ok((roster, asked))
    }

    fn add_hints(&self, rows: &mut [HostReport]) {
        for row in rows {
            row.hint = self.hint_for_daemon(row.error.as_deref()).or(row.hint.take());
        }
    }

    /// Where ssh let nobody in because the daemon has no agent: how to give it one.
    fn hint_for_daemon(&self, why: Option<&str>) -> Option<String> {
        let is_refused = why.is_some_and(|why| why.contains("Permission denied"));
        let has_agent = self.surroundings.environ.text("SSH_AUTH_SOCK").is_some();
        let words = "the daemon that asks has no SSH_AUTH_SOCK: `agentctl daemon restart` from a shell that has \
            one gives it the agent, or name a key with IdentityFile in ~/.ssh/config";
        (is_refused && !has_agent).then(|| words.to_owned())
    }
}

fn error(failure: Failure) -> Error {
    match failure {
        Failure::Said(error) => error,
        Failure::ReaderGone => Error::failed("nobody reads the output"),
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
