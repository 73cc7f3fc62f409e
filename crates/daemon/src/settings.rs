//! What the binary knows and the daemon needs. Asked anew each time, so that a changed `config.toml` counts at once.

use std::collections::BTreeMap;

use agentctl_fleet::act::launch::Launcher;
use agentctl_fleet::{AdapterEntry, Fleet};

/// Where webhooks go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    pub url: String,
    /// Signs what is sent; must never be shown.
    pub secret: Option<String>,
    /// Types of events.
    pub events: Vec<agentctl_model::EventKind>,
}

/// A command of the user that hears about changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifySettings {
    pub command: String,
    /// Words of status or outcome.
    pub on: Vec<String>,
}

pub trait Settings: Send + Sync + 'static {
    /// Every source, under the settings in force; or what is wrong with them.
    fn fleet(&self) -> Result<Fleet, String>;

    /// For a launch in these variables; without them in those that the daemon was started with.
    fn launcher(&self, environment: Option<&BTreeMap<String, String>>) -> Result<Launcher, String>;

    fn adapters(&self) -> Result<Vec<AdapterEntry>, String>;

    fn webhook(&self) -> Option<WebhookSettings>;

    fn notify(&self) -> Option<NotifySettings>;
}
