//! How a machine was heard, as every answer over several machines says it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CoverageKind, SourceReport};
use crate::session::Session;
use crate::status::Status;

/// The road by which a machine is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Road {
    Local,
    Ssh,
    Nats,
}

impl Road {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Ssh => "ssh",
            Self::Nats => "nats",
        }
    }
}

/// One machine. What was not heard of it is `null`: it says nothing about its sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostReport {
    pub name: String,
    pub via: Road,
    #[schemars(with = "String")]
    pub coverage: CoverageKind,
    /// Why it was not heard, or not completely.
    pub error: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Of agentctl there.
    pub version: Option<String>,
    /// How many sessions it told.
    pub sessions: Option<usize>,
    pub live: Option<usize>,
    pub waiting: Option<usize>,
    /// Its own clock when it answered. Times of two machines are never compared.
    pub as_of: Option<Timestamp>,
    pub took_ms: u64,
    /// Other names by which the same machine was reached; its sessions are told once.
    #[serde(default)]
    pub also_as: Vec<String>,
}

/// What `hosts --json` prints and `GET /v1/hosts` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostList {
    pub hosts: Vec<HostReport>,
}

impl HostReport {
    /// The row of a machine that has said nothing yet.
    pub fn unheard(name: String, via: Road) -> Self {
        Self {
            name,
            via,
            coverage: CoverageKind::Failed,
            error: None,
            hint: None,
            version: None,
            sessions: None,
            live: None,
            waiting: None,
            as_of: None,
            took_ms: 0,
            also_as: Vec::new(),
        }
    }

    /// Completes the row of a machine that answered something else than a list. `own` is what it says of itself.
    pub fn told(&mut self, as_of: Timestamp, sources: &[SourceReport], own: Option<&Self>) {
        self.heard(as_of, std::iter::empty(), sources);
        self.sessions = own.and_then(|own| own.sessions);
        self.live = own.and_then(|own| own.live);
        self.waiting = own.and_then(|own| own.waiting);
    }

    /// Completes the row of a machine that answered.
    pub fn heard<'a>(
        &mut self,
        as_of: Timestamp,
        sessions: impl Iterator<Item = &'a Session> + Clone,
        sources: &[SourceReport],
    ) {
        self.coverage = CoverageKind::Complete;
        if let Some(source) = sources.iter().find(|source| source.is_incomplete()) {
            self.coverage = CoverageKind::Partial;
            self.error = Some(format!("{}: {}", source.adapter, source.coverage));
        }
        self.sessions = Some(sessions.clone().count());
        self.live = Some(sessions.clone().filter(|session| session.is_live()).count());
        self.waiting = Some(sessions.filter(|session| session.status == Status::Waiting).count());
        self.as_of = Some(as_of);
    }
}
