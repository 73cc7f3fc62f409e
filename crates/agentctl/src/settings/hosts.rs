//! `[hosts.NAME]`: machines that are asked over ssh.

use std::time::Duration;

use agentctl_hosts::HostName;
use agentctl_hosts::ssh::{SshHost, check_destination};
use serde::Deserialize;

use super::adapters::Timeout;

/// How long a machine may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The section as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostForm {
    ssh: Destination,
    program: Option<Program>,
    timeout: Option<Timeout>,
}

impl HostForm {
    pub(super) fn settle(self) -> SshHost {
        SshHost {
            destination: self.ssh.0,
            program: self.program.map(|program| program.0),
            timeout: self.timeout.map_or(TIMEOUT, |timeout| timeout.0),
        }
    }
}

/// The name of a host as a key.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct HostKey(pub(super) HostName);

impl TryFrom<String> for HostKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        HostName::parse(&text).map(Self)
    }
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Destination(String);

impl TryFrom<String> for Destination {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        check_destination(&text).map(|()| Self(text))
    }
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Program(String);

impl TryFrom<String> for Program {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() || text.chars().any(char::is_control) {
            return Err("a program is a name or a path".to_owned());
        }
        Ok(Self(text))
    }
}
