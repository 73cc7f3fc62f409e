//! `[nats]`: the bus by which machines of a fleet are asked, and what this one lets it do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_hosts::HostName;
use agentctl_hosts::nats::{NatsSettings, Serve, TlsFiles, dial};
use serde::Deserialize;

use super::adapters::Timeout;
use super::hosts::HostKey;
use super::known;
use crate::render::{path, time};

/// How long a machine may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What the file says. Names that it leaves out are the machine's own, which is not known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NatsSection {
    pub(crate) url: String,
    pub(crate) creds: Option<PathBuf>,
    pub(crate) nkey: Option<PathBuf>,
    pub(crate) tls: TlsFiles,
    pub(crate) name: Option<HostName>,
    pub(crate) asker: Option<HostName>,
    pub(crate) timeout: Duration,
    pub(crate) hosts: Option<Vec<HostName>>,
    pub(crate) history: Option<Duration>,
    pub(crate) serve: Serve,
    pub(crate) allows_bypass: bool,
}

impl NatsSection {
    /// The settings of a machine with this name, unless that name cannot be one on the bus.
    pub(crate) fn on(self, own_name: &str) -> Result<NatsSettings, String> {
        let own = own_name.split('.').next().unwrap_or_default();
        let name = match self.name {
            Some(name) => name,
            None => HostName::parse(own).map_err(|why| format!("{why}; set `name` in `[nats]`"))?,
        };
        Ok(NatsSettings {
            url: self.url,
            creds: self.creds,
            nkey: self.nkey,
            tls: self.tls,
            asker: self.asker.unwrap_or_else(|| name.clone()),
            name,
            timeout: self.timeout,
            hosts: self.hosts,
            history: self.history,
            serve: self.serve,
            allows_bypass: self.allows_bypass,
        })
    }
}

/// The section as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NatsForm {
    url: Url,
    creds: Option<PathBuf>,
    nkey: Option<PathBuf>,
    #[serde(default)]
    tls: TlsForm,
    name: Option<HostKey>,
    asker: Option<HostKey>,
    timeout: Option<Timeout>,
    hosts: Option<Vec<HostKey>>,
    history: Option<Kept>,
    serve: Option<ServeWord>,
    #[serde(default)]
    allow: Vec<Allowed>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsForm {
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl NatsForm {
    /// What is wrong with the section as a whole, and at which key.
    pub(super) fn mistake(&self) -> Option<(&'static str, &'static str)> {
        if self.creds.is_some() && self.nkey.is_some() {
            return Some(("nats.nkey", "a user of the bus has `creds` or an `nkey`, not both"));
        }
        if self.tls.cert.is_some() != self.tls.key.is_some() {
            return Some(("nats.tls", "a certificate needs its key: give both `cert` and `key`"));
        }
        None
    }

    pub(super) fn settle(self, home: Option<&Path>) -> NatsSection {
        let expand = |given: Option<PathBuf>| given.map(|given| path::expand(&given, home));
        NatsSection {
            url: self.url.0,
            creds: expand(self.creds),
            nkey: expand(self.nkey),
            tls: TlsFiles { ca: expand(self.tls.ca), cert: expand(self.tls.cert), key: expand(self.tls.key) },
            name: self.name.map(|name| name.0),
            asker: self.asker.map(|name| name.0),
            timeout: self.timeout.map_or(TIMEOUT, |timeout| timeout.0),
            hosts: self.hosts.map(|hosts| hosts.into_iter().map(|name| name.0).collect()),
            history: self.history.map(|kept| kept.0),
            serve: self.serve.map_or(Serve::Off, |serve| serve.0),
            allows_bypass: !self.allow.is_empty(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Url(String);

impl TryFrom<String> for Url {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        dial::servers(&text).map(|_| Self(text))
    }
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct ServeWord(Serve);

impl TryFrom<String> for ServeWord {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let words = [Serve::Off, Serve::Read, Serve::Act];
        let text = known(text, "manner to serve", words.into_iter().map(Serve::as_str))?;
        Ok(Self(words.into_iter().find(|word| word.as_str() == text).unwrap_or_default()))
    }
}

/// How long events are kept.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Kept(Duration);

impl TryFrom<String> for Kept {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match time::parse_duration(&text)? {
            Duration::ZERO => Err("events are kept for some time, such as 7d, or not at all".to_owned()),
            kept => Ok(Self(kept)),
        }
    }
}

/// What requests of the bus may ask for beyond the usual: only one thing so far.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Allowed;

impl TryFrom<String> for Allowed {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        known(text, "right", std::iter::once("bypass")).map(|_| Self)
    }
}
