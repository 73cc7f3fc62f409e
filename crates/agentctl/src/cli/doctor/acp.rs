//! The agents that can be started over ACP. Their files say which versions are installed; only the agents themselves say what
//! they offer, and they are started for that only if somebody asks.

use std::path::Path;

use agentctl_adapters::agents::acp::AcpAgent;
use agentctl_adapters::hold::acp::Greeting;
use agentctl_fleet::Fleet;
use agentctl_model::text;
use schemars::JsonSchema;
use serde::Serialize;

use super::program;
use crate::surroundings::Surroundings;

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AcpReport {
    pub(crate) name: String,
    pub(crate) title: String,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// The settings name it.
    pub(crate) configured: bool,
    /// The adapter under whose name its sessions are listed; `null`: its own.
    pub(crate) native: Option<&'static str>,
    /// The program as it was found, and its version if a file says so.
    pub(crate) program: Option<String>,
    pub(crate) version: Option<String>,
    /// The version of the Node that runs it; `null` if it is no script of Node's, or no file says so.
    pub(crate) node: Option<String>,
    /// What the agent said of itself; `null` unless it was asked.
    pub(crate) said: Option<Said>,
    /// Why it could not be asked.
    pub(crate) error: Option<String>,
}

/// The agent's answer to `initialize`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Said {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) protocol_version: u64,
    /// Of: load, resume, list, close.
    pub(crate) capabilities: Vec<&'static str>,
    /// The ways to log in that it offers.
    pub(crate) logins: Vec<String>,
}

/// Examines what is installed or named. With `asks_agents` each is started, all at once.
pub(super) fn examine(fleet: &Fleet, asks_agents: bool, surroundings: &Surroundings) -> Vec<AcpReport> {
    let found = |agent: &AcpAgent| {
        let program = surroundings.on_path(Path::new(agent.program()));
        (program.is_some() || agent.is_configured).then(|| report(agent, program.as_deref(), surroundings))
    };
    let mut reports: Vec<(&AcpAgent, AcpReport)> =
        fleet.acp_agents().iter().filter_map(|agent| Some((agent, found(agent)?))).collect();
    std::thread::scope(|threads| {
        for (agent, report) in
            reports.iter_mut().filter(|(_, report)| asks_agents && report.program.is_some())
        {
            threads.spawn(move || match fleet.ask_acp_agent(agent) {
                Ok(greeting) => report.said = Some(greeting.into()),
                Err(why) => report.error = Some(text::one_line(&why)),
            });
        }
    });
    reports.into_iter().map(|(_, report)| report).collect()
}

fn report(agent: &AcpAgent, program: Option<&Path>, surroundings: &Surroundings) -> AcpReport {
    let real = program.and_then(|program| agentctl_files::real_path(program).ok());
    AcpReport {
        name: agent.name.clone(),
        title: agent.title.clone(),
        command: agent.command.clone(),
        configured: agent.is_configured,
        native: agent.native,
        version: real.as_deref().and_then(program::version),
        node: real.as_deref().and_then(|real| program::node_of(real, surroundings)),
        program: program.map(|program| program.to_string_lossy().into_owned()),
        said: None,
        error: None,
    }
}

impl From<Greeting> for Said {
    fn from(greeting: Greeting) -> Self {
        let can = greeting.capabilities;
        let offered = [("load", can.load), ("resume", can.resume), ("list", can.list), ("close", can.close)];
        Self {
            name: greeting.name,
            version: greeting.version,
            protocol_version: greeting.protocol_version,
            capabilities: offered.into_iter().filter(|(_, can)| *can).map(|(name, _)| name).collect(),
            logins: greeting.logins,
        }
    }
}
