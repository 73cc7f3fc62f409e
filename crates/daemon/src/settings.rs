//! What the binary knows and the daemon needs. It is read anew each time, so that a changed `config.toml`
//! takes effect at once.

use std::collections::BTreeMap;

use agentctl_fleet::act::launch::Launcher;
use agentctl_fleet::{AdapterEntry, Fleet, Listing, Query, TimelineQuery, UsageAnswer, UsageQuery};
use agentctl_hosts::Events;
use agentctl_hosts::nats::NatsSettings;
use agentctl_model::notice::QuietHours;
use agentctl_model::timeline::Timeline;
use agentctl_model::{Error, HostReport, Session};
use jiff::tz::TimeZone;

use crate::tell::notices::presets::{Ntfy, Preset, Slack, Telegram};

/// The receiver of webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    pub url: String,
    /// The key that signs deliveries; it must never be shown.
    pub secret: Option<String>,
    /// The types of events that are sent.
    pub events: Vec<agentctl_model::EventKind>,
}

/// How a person is told that a session needs them.
#[derive(Debug, Clone, PartialEq)]
pub struct NotifySettings {
    /// The statuses and outcomes that are told.
    pub on: Vec<String>,
    /// When nothing is told.
    pub quiet: Option<QuietHours>,
    /// The time zone of this machine.
    pub zone: TimeZone,
    /// A command of the user.
    pub command: Option<String>,
    /// A notice on the desktop.
    pub desktop: bool,
    pub ntfy: Option<Ntfy>,
    pub slack: Option<Slack>,
    pub telegram: Option<Telegram>,
}

impl NotifySettings {
    pub fn has(&self, preset: Preset) -> bool {
        match preset {
            Preset::Ntfy => self.ntfy.is_some(),
            Preset::Slack => self.slack.is_some(),
            Preset::Telegram => self.telegram.is_some(),
        }
    }

    /// Whether this provider may have the words of a need.
    pub fn tells_text(&self, preset: Preset) -> bool {
        match preset {
            Preset::Ntfy => self.ntfy.as_ref().is_some_and(|ntfy| ntfy.text),
            Preset::Slack => self.slack.as_ref().is_some_and(|slack| slack.text),
            Preset::Telegram => self.telegram.as_ref().is_some_and(|telegram| telegram.text),
        }
    }
}

/// The bus that this machine serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusSettings {
    pub nats: NatsSettings,
    /// Which agentctl folder of which user this is, since which boot.
    pub instance: String,
}

pub trait Settings: Send + Sync + 'static {
    /// Every source under the current settings, or what is wrong with the settings.
    fn fleet(&self) -> Result<Fleet, String>;

    /// The inputs of a launch in this environment; without one, in the environment that the daemon was
    /// started with.
    fn launcher(&self, environment: Option<&BTreeMap<String, String>>) -> Result<Launcher, String>;

    /// The same in the daemon's own environment with these variables beside it.
    fn launcher_with(&self, variables: &BTreeMap<String, String>) -> Result<Launcher, String>;

    /// Those of these variables that the daemon's own environment does not have.
    fn lacking(&self, names: &[String]) -> Vec<String>;

    fn adapters(&self) -> Result<Vec<AdapterEntry>, String>;

    fn webhook(&self) -> Option<WebhookSettings>;

    fn notify(&self) -> Option<NotifySettings>;

    /// `None` where the settings name no bus, or something in them is wrong.
    fn bus(&self) -> Option<BusSettings>;

    /// This machine and all others that are known, and how each was heard.
    fn hosts(&self) -> Result<Vec<HostReport>, Error>;

    /// The sessions of these machines; the fleet is that of this one.
    fn list_over(
        &self,
        hosts: &[String],
        query: &Query,
        fleet: Fleet,
    ) -> Result<Listing<Box<Session>>, Error>;

    /// What was spent on these machines together.
    fn usage_over(&self, hosts: &[String], query: &UsageQuery, fleet: Fleet) -> Result<UsageAnswer, Error>;

    /// The lanes of these machines.
    fn timeline_over(&self, hosts: &[String], query: &TimelineQuery, fleet: Fleet)
    -> Result<Timeline, Error>;

    /// Asks another machine and returns its answer.
    fn pass_on(&self, host: &str, request: FarRequest<'_>) -> Result<Passed, Error>;

    /// Listens to a stream of another machine, from behind a cursor of it; `None` if the name is that of this one.
    fn listen(
        &self,
        host: &str,
        target: &str,
        cursor: Option<&str>,
    ) -> Result<Option<Box<dyn Events>>, Error>;
}

/// A request that another machine is to answer.
#[derive(Debug, Clone, Copy)]
pub struct FarRequest<'a> {
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// JSON.
    pub body: Option<&'a str>,
}

/// What became of a request about another machine.
#[derive(Debug)]
pub enum Passed {
    /// The name is that of this machine.
    Here,
    Answered {
        status: u16,
        body: Vec<u8>,
    },
}
