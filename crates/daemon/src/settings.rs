//! What the binary knows and the daemon needs. It is read anew each time, so that a changed `config.toml`
//! takes effect at once.

use std::collections::BTreeMap;

use agentctl_fleet::act::launch::Launcher;
use agentctl_fleet::{AdapterEntry, Fleet};
use agentctl_hosts::nats::NatsSettings;

/// The receiver of webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    pub url: String,
    /// The key that signs deliveries; it must never be shown.
    pub secret: Option<String>,
    /// The types of events that are sent.
    pub events: Vec<agentctl_model::EventKind>,
}

/// A command of the user that is run when a session changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifySettings {
    pub command: String,
    /// The statuses and outcomes that it is run for.
    pub on: Vec<String>,
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

    fn adapters(&self) -> Result<Vec<AdapterEntry>, String>;

    fn webhook(&self) -> Option<WebhookSettings>;

    fn notify(&self) -> Option<NotifySettings>;

    /// `None` where the settings name no bus, or something in them is wrong.
    fn bus(&self) -> Option<BusSettings>;
}
