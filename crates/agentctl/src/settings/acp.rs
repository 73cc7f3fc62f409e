//! `[acp.NAME]`: agents that are spoken with over the Agent Client Protocol.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_adapters::agents::acp::{self, AcpAgent, OPENING_TIMEOUT};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Setting;
use super::adapters::{AdapterName, Timeout};
use crate::render::path;

/// What the file says of one agent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AcpSettings {
    /// The program and its arguments; only a known agent may leave them out.
    pub(crate) command: Setting<Vec<String>>,
    pub(crate) env: BTreeMap<String, String>,
    /// How long it may take to open a session.
    pub(crate) timeout: Setting<Duration>,
}

impl AcpSettings {
    pub(super) fn agent(&self, name: &str) -> AcpAgent {
        let full = format!("{}{name}", acp::PREFIX);
        let known = acp::built_in().into_iter().find(|known| known.name == full);
        let command = match (&self.command.value[..], known) {
            ([], Some(known)) => known.command,
            (command, _) => command.to_vec(),
        };
        let mut agent = AcpAgent::configured(name, command, self.env.clone());
        agent.opening_timeout = self.timeout.value;
        agent
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AcpForm {
    command: Option<Command>,
    env: BTreeMap<String, String>,
    timeout: Option<Timeout>,
}

/// What the file says of the command. A section with a wrong one is left out as a whole, so this is read in any form.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Command {
    Words(Vec<String>),
    Other(IgnoredAny),
}

impl AcpForm {
    pub(super) fn settle(self, home: Option<&Path>) -> AcpSettings {
        let expanded = |mut command: Vec<String>| {
            if let Some(program) = command.first_mut().filter(|program| program.starts_with("~/")) {
                *program = path::expand(&PathBuf::from(&*program), home).to_string_lossy().into_owned();
            }
            command
        };
        let words = self.command.map(|command| match command {
            Command::Words(words) => words,
            Command::Other(_) => Vec::new(),
        });
        AcpSettings {
            command: Setting::layered(Vec::new(), words.map(expanded)),
            env: self.env,
            timeout: Setting::layered(OPENING_TIMEOUT, self.timeout.map(|timeout| timeout.0)),
        }
    }
}

/// What is wrong that only the whole section shows, and at which key.
pub(super) fn mistake(
    adapter: Option<&LaunchName>,
    agents: &BTreeMap<AcpName, AcpForm>,
) -> Option<(String, String)> {
    let is_known =
        |name: &str| acp::built_in_names().any(|(known, _)| known.strip_prefix(acp::PREFIX) == Some(name));
    for (AcpName(name), form) in agents {
        let example = "such as [\"goose\", \"acp\"]";
        let wrong = match &form.command {
            None if is_known(name) => None,
            None => Some(format!("`command` is missing: the program and its arguments, {example}")),
            Some(Command::Other(_)) => {
                Some(format!("the command is no list of words, expected one {example}"))
            }
            Some(Command::Words(words)) if words.first().is_none_or(String::is_empty) => {
                Some(format!("the command names no program, expected a list {example}"))
            }
            Some(Command::Words(words)) if words.iter().any(|word| word.contains('\0')) => {
                Some("the command has a NUL".to_owned())
            }
            Some(Command::Words(_)) => None,
        };
        if let Some(words) = wrong {
            return Some((format!("acp.{name}"), format!("acp.{name}: {words}")));
        }
        let is_odd = |(key, value): &(&String, &String)| {
            key.is_empty() || key.contains(['=', '\0']) || value.contains('\0')
        };
        if let Some((variable, _)) = form.env.iter().find(is_odd) {
            let words = format!("acp.{name}: no variable can be called `{variable}` or have that value");
            return Some((format!("acp.{name}.env"), words));
        }
    }
    let LaunchName(adapter) = adapter?;
    let name = adapter.strip_prefix(acp::PREFIX)?;
    if is_known(name) || agents.keys().any(|agent| agent.0 == name) {
        return None;
    }
    Some((
        "adapter".to_owned(),
        format!("adapter: no agent is called `{adapter}`; [acp.{name}] would name its command"),
    ))
}

/// A name that an agent can have.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct AcpName(pub(super) String);

impl TryFrom<String> for AcpName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        acp::check_name(&name).map(|()| Self(name))
    }
}

/// The name of an adapter that can be launched: one of the registry, or one over ACP.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct LaunchName(pub(super) String);

impl TryFrom<String> for LaunchName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if acp::is_name(&name) {
            return Ok(Self(name));
        }
        AdapterName::try_from(name).map(|AdapterName(name)| Self(name))
    }
}
