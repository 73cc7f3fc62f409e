//! What `[nats]` says.

use std::path::PathBuf;
use std::time::Duration;

use crate::name::HostName;

/// What the daemon lets the bus do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Serve {
    #[default]
    Off,
    Read,
    Act,
}

impl Serve {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Read => "read",
            Self::Act => "act",
        }
    }
}

/// Keys and certificates are named by their files, so nothing here is secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsSettings {
    /// Servers, with commas between them.
    pub url: String,
    /// A file of the form that `nsc` writes: a token and its key.
    pub creds: Option<PathBuf>,
    /// A file with the seed of a key.
    pub nkey: Option<PathBuf>,
    pub tls: TlsFiles,
    /// This machine on the bus.
    pub name: HostName,
    /// Who asks from here.
    pub asker: HostName,
    /// How long a host may take to answer.
    pub timeout: Duration,
    /// The roster, where the server keeps none.
    pub hosts: Option<Vec<HostName>>,
    /// How long the server keeps events, if it is to keep them at all.
    pub history: Option<Duration>,
    pub serve: Serve,
    /// Whether requests may ask for permission modes above `default`.
    pub allows_bypass: bool,
}

/// Files in PEM form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsFiles {
    /// Who signs the servers; without it those that the system trusts.
    pub ca: Option<PathBuf>,
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

impl TlsFiles {
    pub fn is_empty(&self) -> bool {
        self.ca.is_none() && self.cert.is_none() && self.key.is_none()
    }
}
