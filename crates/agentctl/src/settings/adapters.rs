//! `[adapters.NAME]`: the user's settings for one agent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_adapters::{Keys, Pin, Secret};
use serde::Deserialize;

use super::{Setting, known};
use crate::render::{path, time};

/// A source that makes no progress for this long has timed out.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdapterSettings {
    pub(crate) enabled: Setting<bool>,
    /// The agent's program, if it is not found by its usual name.
    pub(crate) binary: Setting<Option<PathBuf>>,
    /// Roots beside the one that the agent's own variables name.
    pub(crate) roots: Setting<Vec<PathBuf>>,
    pub(crate) timeout: Setting<Duration>,
    /// Gateways beside the one that the agent's own settings name.
    pub(crate) gateways: Setting<Vec<GatewaySettings>>,
    /// Whether a gateway is asked, with administrator rights, for what waits for a person; by default only on
    /// this machine.
    pub(crate) approvals: Setting<Option<bool>>,
}

/// One gateway with its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GatewaySettings {
    pub(crate) url: String,
    pub(crate) keys: Keys,
    /// A file that contains the token, for users who keep secrets out of settings.
    pub(crate) token_file: Option<PathBuf>,
}

/// The section as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AdapterForm {
    enabled: Option<bool>,
    binary: Option<PathBuf>,
    roots: Option<Vec<PathBuf>>,
    timeout: Option<Timeout>,
    gateways: Option<Vec<GatewayForm>>,
    approvals: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct GatewayForm {
    url: String,
    token: Option<String>,
    token_file: Option<PathBuf>,
    password: Option<String>,
    tls_fingerprint: Option<String>,
}

impl AdapterForm {
    /// What is wrong with the gateways of this adapter, and at which key: only the adapter knows the form of
    /// its addresses.
    pub(super) fn mistake(&self, name: &str) -> Option<(&'static str, String)> {
        let adapter =
            agentctl_adapters::registry().into_iter().find(|adapter| adapter.card().name == name)?;
        let Some(gateway) = adapter.gateway() else {
            let no_gateways = format!("adapters.{name}: {name} has no gateways");
            if self.approvals.is_some() {
                return Some(("approvals", format!("{no_gateways}, so `approvals` means nothing")));
            }
            let names_one = self.gateways.as_ref().is_some_and(|gateways| !gateways.is_empty());
            return names_one.then_some(("gateways", no_gateways));
        };
        let mut urls = self.gateways.iter().flatten().map(|gateway| gateway.url.as_str());
        let odd = urls.find(|url| gateway.root_at(url, Keys::default()).is_none())?;
        let words = format!("adapters.{name}: `{odd}` is no address of a gateway, expected ws://HOST:PORT");
        Some(("gateways", words))
    }

    pub(super) fn settle(self, home: Option<&Path>) -> AdapterSettings {
        let expand = |given: PathBuf| path::expand(&given, home);
        let gateway = |form: GatewayForm| GatewaySettings {
            url: form.url,
            keys: Keys {
                token: form.token.and_then(Secret::new),
                password: form.password.and_then(Secret::new),
                pin: form.tls_fingerprint.as_deref().map(Pin::new),
                ..Keys::default()
            },
            token_file: form.token_file.map(expand),
        };
        AdapterSettings {
            enabled: Setting::layered(true, self.enabled),
            binary: Setting::layered(None, self.binary.map(|binary| Some(expand(binary)))),
            roots: Setting::layered(
                Vec::new(),
                self.roots.map(|roots| roots.into_iter().map(expand).collect()),
            ),
            timeout: Setting::layered(TIMEOUT, self.timeout.map(|timeout| timeout.0)),
            gateways: Setting::layered(
                Vec::new(),
                self.gateways.map(|gateways| gateways.into_iter().map(gateway).collect()),
            ),
            approvals: Setting::layered(None, self.approvals.map(Some)),
        }
    }
}

/// The name of an existing adapter.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct AdapterName(pub(super) String);

impl TryFrom<String> for AdapterName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let names = agentctl_adapters::registry().into_iter().map(|adapter| adapter.card().name);
        known(name, "adapter", names).map(Self)
    }
}

/// A duration of at least one millisecond.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Timeout(pub(super) Duration);

impl TryFrom<String> for Timeout {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match time::parse_duration(&text)? {
            Duration::ZERO => {
                Err("a timeout of nothing would silence the source; use enabled = false".into())
            }
            duration => Ok(Self(duration)),
        }
    }
}
